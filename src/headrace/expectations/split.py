"""A judged batch split into what is written and what is set aside, and its counts.

An aggregate for each expectation would cost a row more than judging it does. ``histogram_numeric`` counts each value of
a tally apart as long as it has a bin for each, and passes over NULL, which is what the tally of most rows is
(``NumericHistogram`` of Spark 4.2: bins are put together only when there are more of them than it may have).
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


def kept(frame: DataFrame, rules: Rules) -> DataFrame:
    """The rows that are written to the target, as the flow's function returned them."""
    rejecting = [e for e in rules.expectations if not e.action.keeps_row]
    rows = frame.filter(~rules.any_broken(rejecting)) if rejecting else frame
    return rows.drop(*rules.own_columns)


def set_aside(frame: DataFrame, rules: Rules) -> DataFrame:
    """The rows that go to quarantine.

    Columns: row (struct, as the flow's function returned it), broken (array of the names of all expectations that the
    row breaks, in the order of declaration).
    """
    columns = [F.col(quoted(name)) for name in frame.columns if name not in rules.own_columns]
    names = [F.when(rules.broken(e), F.lit(e.name)) for e in rules.expectations]
    return frame.filter(quarantines(rules)).select(
        F.struct(*columns).alias("row"), F.array_compact(F.array(*names)).alias("broken")
    )


def quarantines(rules: Rules) -> Column:
    """True for a judged row that is set aside."""
    return rules.any_broken(rules.with_action(Action.QUARANTINE))


def counters(rules: Rules) -> list[Column]:
    """Aggregates over a judged batch whose values :func:`counts_from` reads."""
    rejecting = [e for e in rules.expectations if not e.action.keeps_row]
    columns = [F.count(F.lit(1)).alias(_TOTAL)]
    if rejecting:
        columns.append(F.count_if(rules.any_broken(rejecting)).alias(_REJECTED))
    if rules.with_action(Action.QUARANTINE):
        columns.append(F.count_if(quarantines(rules)).alias(_QUARANTINED))
    bins = F.lit(2**BITS_PER_TALLY)
    return columns + [F.histogram_numeric(name, bins).alias(name) for name in rules.tally_columns]


def counts_from(values: Mapping[str, Any], rules: Rules) -> FlowCounts:
    """The counts of a batch from the values of :func:`counters`."""
    total, rejected, quarantined = (int(values.get(name) or 0) for name in (_TOTAL, _REJECTED, _QUARANTINED))
    failed = [0] * len(rules.expectations)
    for number, name in enumerate(rules.tally_columns):
        for bits, rows in values.get(name) or ():
            for place in range(BITS_PER_TALLY):
                if round(bits) >> place & 1:
                    failed[number * BITS_PER_TALLY + place] += round(rows)
    return FlowCounts(
        rows_written=total - rejected,
        rows_dropped=rejected - quarantined,
        rows_quarantined=quarantined,
        expectations=tuple(
            ExpectationCount(e.name, e.action, total - broken, broken)
            for e, broken in zip(rules.expectations, failed, strict=True)
        ),
    )
