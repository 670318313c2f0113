"""A judged batch split into what is written and what is set aside, and its counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from headrace.expectations.compile import Rules
from headrace.model.expectations import Action, ExpectationCount
from headrace.model.names import quoted
from headrace.model.outcome import FlowCounts

_TOTAL = "total"
_WRITTEN = "written"
_QUARANTINED = "quarantined"


def kept(frame: DataFrame, rules: Rules) -> DataFrame:
    """The rows that are written to the target, as the flow's function returned them."""
    rejecting = [e for e in rules.expectations if not e.action.keeps_row]
    rows = frame.filter(~rules.any_broken(rejecting)) if rejecting else frame
    return rows.drop(*rules.mask_columns)


def set_aside(frame: DataFrame, rules: Rules) -> DataFrame:
    """The rows that go to quarantine.

    Columns: row (struct, as the flow's function returned it), broken (array of the names of all expectations that the
    row breaks, in the order of declaration).
    """
    columns = [F.col(quoted(name)) for name in frame.columns if name not in rules.mask_columns]
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
    columns = [
        F.count(F.lit(1)).alias(_TOTAL),
        F.count_if(~rules.any_broken(rejecting)).alias(_WRITTEN),
        F.count_if(quarantines(rules)).alias(_QUARANTINED),
    ]
    return columns + [F.count_if(rules.broken(e)).alias(f"e{n}") for n, e in enumerate(rules.expectations)]


def counts_from(values: Mapping[str, Any], rules: Rules) -> FlowCounts:
    """The counts of a batch from the values of :func:`counters`."""
    total, written, quarantined = (int(values.get(name) or 0) for name in (_TOTAL, _WRITTEN, _QUARANTINED))
    failed = [int(values.get(f"e{number}") or 0) for number in range(len(rules.expectations))]
    return FlowCounts(
        rows_written=written,
        rows_dropped=total - written - quarantined,
        rows_quarantined=quarantined,
        expectations=tuple(
            ExpectationCount(e.name, e.action, total - broken, broken)
            for e, broken in zip(rules.expectations, failed, strict=True)
        ),
    )
