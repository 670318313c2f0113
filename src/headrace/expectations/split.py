"""Splits an evaluated batch into written and quarantined rows, and counts it.

One aggregate per expectation would cost more than the evaluation. ``histogram_numeric`` counts each value of a tally
separately as long as it has a bin for each, and ignores NULL, the tally of most rows (``NumericHistogram`` of Spark
4.2: it merges bins only if there are more than its maximum).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.expectations.compile import BITS_PER_TALLY, Rules
from headrace.model.expectations import Action, ExpectationCount
from headrace.model.names import quoted
from headrace.model.outcome import FlowCounts

_TOTAL = "total"
_REJECTED = "rejected"
_QUARANTINED = "quarantined"


def accepted_rows(frame: DataFrame, rules: Rules) -> DataFrame:
    """The rows to write to the target, as the flow's function returned them."""
    rejecting = [e for e in rules.expectations if not e.action.keeps_row]
    rows = frame.filter(~rules.any_violated(rejecting)) if rejecting else frame
    return rows.drop(*rules.internal_columns)


def quarantine_rows(frame: DataFrame, rules: Rules) -> DataFrame:
    """The rows to quarantine.

    Columns: row (struct, as the flow's function returned it), broken (array of the names of all violated expectations,
    in the order of declaration).
    """
    columns = [F.col(quoted(name)) for name in frame.columns if name not in rules.internal_columns]
    names = [F.when(rules.violated(e), F.lit(e.name)) for e in rules.expectations]
    return frame.filter(is_quarantined(rules)).select(
        F.struct(*columns).alias("row"), F.array_compact(F.array(*names)).alias("broken")
    )


def is_quarantined(rules: Rules) -> Column:
    """True for an evaluated row that is quarantined."""
    return rules.any_violated(rules.with_action(Action.QUARANTINE))


def counters(rules: Rules) -> list[Column]:
    """Aggregates over an evaluated batch, for :func:`counts_from`."""
    rejecting = [e for e in rules.expectations if not e.action.keeps_row]
    columns = [F.count(F.lit(1)).alias(_TOTAL)]
    if rejecting:
        columns.append(F.count_if(rules.any_violated(rejecting)).alias(_REJECTED))
    if rules.with_action(Action.QUARANTINE):
        columns.append(F.count_if(is_quarantined(rules)).alias(_QUARANTINED))
    bins = F.lit(2**BITS_PER_TALLY)
    return columns + [F.histogram_numeric(name, bins).alias(name) for name in rules.tally_columns]


def counts_from(values: Mapping[str, Any], rules: Rules) -> FlowCounts:
    """The counts of a batch from the values of :func:`counters`."""
    total, rejected, quarantined = (int(values.get(name) or 0) for name in (_TOTAL, _REJECTED, _QUARANTINED))
    failed = [0] * len(rules.expectations)
    for number, name in enumerate(rules.tally_columns):
        for bits, rows in values.get(name) or ():
            for bit in range(BITS_PER_TALLY):
                if round(bits) >> bit & 1:
                    failed[number * BITS_PER_TALLY + bit] += round(rows)
    return FlowCounts(
        rows_written=total - rejected,
        rows_dropped=rejected - quarantined,
        rows_quarantined=quarantined,
        expectations=tuple(
            ExpectationCount(e.name, e.action, total - violated, violated)
            for e, violated in zip(rules.expectations, failed, strict=True)
        ),
    )
