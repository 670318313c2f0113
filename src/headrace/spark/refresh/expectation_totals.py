"""How many rows of a view pass and fail its expectations after a refresh in part.

Law: the totals are those of a recompute. They are those after the last refresh, without the rows that are gone, and
with those that are new. So each row of the query has to be in the view: expectations that drop or quarantine rows are
an obstacle (``graph.declared_refresh``). A new row that violates an expectation with the action ``fail`` raises an
error.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from headrace.expectations.compile import Rules, predicate_column
from headrace.model.expectations import Expectation, ExpectationCount
from headrace.model.outcome import FlowCounts
from headrace.spark.expectations.evaluation import Evaluation
from headrace.spark.refresh.view_change import NeedsAllRows, ViewChange, removed_rows


def query_id(fingerprint: str, expectations: Sequence[Expectation]) -> str:
    """The fingerprint of a view's query and of its expectations, whose totals belong to its rows."""
    if not expectations:
        return fingerprint
    text = json.dumps([[one.name, one.action.value, one.text] for one in expectations])
    return f"{fingerprint} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def totals(
    expectations: Sequence[Expectation], last: FlowCounts | None, change: ViewChange | None, stored: DataFrame
) -> tuple[ExpectationCount, ...]:
    """The totals after a change of a view.

    Args:
        expectations: those of the view.
        last: the counts of the last refresh; None if they are not known.
        change: what changes in the view; None for nothing.
        stored: its rows before.

    Raises:
        NeedsAllRows: the totals of the last refresh are not known, or the same row may pass now and fail later.
    """
    if not expectations:
        return ()
    known = {count.name: count for count in (last.expectations if last else ())}
    if set(known) != {one.name for one in expectations}:
        raise NeedsAllRows("the counts of its expectations after the last refresh are not known")
    if _changes_by_itself(expectations, stored):
        raise NeedsAllRows("an expectation depends on the time, or is not deterministic")
    if change is None:
        return tuple(known[one.name] for one in expectations)
    evaluation = Evaluation(Rules(tuple(expectations)))
    gone, new = (
        {count.name: count for count in evaluation.count(evaluation.evaluate(rows)).expectations}
        for rows in (removed_rows(change, stored), change.rows)
    )
    return tuple(
        ExpectationCount(
            one.name,
            one.action,
            known[one.name].passed - gone[one.name].passed + new[one.name].passed,
            known[one.name].failed - gone[one.name].failed + new[one.name].failed,
        )
        for one in expectations
    )


def _changes_by_itself(expectations: Sequence[Expectation], rows: DataFrame) -> bool:
    tested = rows.select(*(predicate_column(one).alias(f"r{number}") for number, one in enumerate(expectations)))
    plan: Any = tested._jdf.queryExecution().analyzed()  # noqa: SLF001 - plans have no public form
    jvm: Any = rows.sparkSession._jvm  # noqa: SLF001 - the same
    clock = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.CURRENT_LIKE()
    return bool(plan.containsPattern(clock)) or not bool(plan.deterministic())
