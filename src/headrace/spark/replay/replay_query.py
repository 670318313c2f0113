"""Rows that a query has failed with, through the same query once more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headrace.errors import PipelineError
from headrace.events.types import Warned
from headrace.graph.resolved import ResolvedFlow
from headrace.model.failing_rows import MOST_OF_A_BATCH
from headrace.plan.backfills import Load, Replay
from headrace.runtime.bisect import NoSingleRowFails, TooManyFailures, failing
from headrace.runtime.failpoints import Failpoint
from headrace.spark.deadletter.batch_plan import BatchPlan
from headrace.spark.deadletter.json_rows import from_json
from headrace.spark.deadletter.numbered_rows import NumberedRows, numbered
from headrace.spark.deadletter.row_errors import RowErrors
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.session.clone import on_clone
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.update.context import UpdateContext
from headrace.storage.backfills import finished, store_load
from headrace.storage.dead_letters import StoredRow, mark_failing, stored_failing_rows
from headrace.storage.flow_records import unfinished_batch

_REPLAYED = "replayed"


def with_rows_that_pass(
    context: UpdateContext, preparation: Preparation, flow: ResolvedFlow, load: Load, asked: Replay
) -> Load:
    """The load, with the rows that the query does not fail with any more; the others stay set aside.

    Raises:
        PipelineError: REPLAY.STILL_FAIL: it fails with all of them.
    """
    if asked.failing:
        # Found by an earlier try, and perhaps in the table.
        return load
    place = flow.flow.location
    if flow.analysis.operators:
        raise PipelineError("REPLAY.KEEPS_STATE", location=place, flow=flow.name, name=flow.target)
    stored = stored_failing_rows(context.state.record_file(flow).parent, but=unfinished_batch(context.state, flow))
    plan = plan_of(context, preparation, flow)
    # In the order of their sources, as they are numbered.
    ordered = sorted(stored, key=lambda row: row.input)
    failures = RowErrors(context, flow)
    with numbered(plan, _sources(flow, plan, asked, ordered), {}) as rows:
        error = failures.of_rows(rows.why(0, rows.count))
        found = frozenset() if error is None else _still_failing(flow, rows, failures, error)
    if error is not None:
        reason, at = failures.reason(error), failures.report(error).error.location
        if len(found) == len(ordered):
            raise PipelineError("REPLAY.STILL_FAIL", location=at, flow=flow.name, count=len(found), reason=reason)
        message = f'flow "{flow.name}": its query still fails with {len(found)} of {len(ordered)} rows: {reason}'
        context.emit(Warned("ROWS.SET_ASIDE", message, flow.name, str(flow.target)))
    passing = tuple(row.id for position, row in enumerate(ordered) if position not in found)
    return replace(load, replay=replace(asked, failing=passing))


def _still_failing(flow: ResolvedFlow, rows: NumberedRows, failures: RowErrors, error: Exception) -> frozenset[int]:
    """The positions of the rows that fail.

    Raises:
        PipelineError: REPLAY.MANY_FAIL: they are many, and it cannot be told which.
    """
    suspects = rows.suspects(rows.count)
    if suspects and failures.of_rows(rows.why_without(suspects)) is None:
        return frozenset(suspects)
    try:
        found = failing(rows.count, lambda first, last: failures.of_rows(rows.why(first, last)), MOST_OF_A_BATCH)
    except (NoSingleRowFails, TooManyFailures):
        reason, at = failures.reason(error), failures.report(error).error.location
        said = {"flow": flow.name, "count": rows.count, "most": MOST_OF_A_BATCH, "reason": reason}
        raise PipelineError("REPLAY.MANY_FAIL", location=at, **said) from error
    return frozenset(found)


def frame_of_failing(
    context: UpdateContext, preparation: Preparation, flow: ResolvedFlow, asked: Replay, ids: Sequence[str]
) -> DataFrame:
    """What the query returns over rows that it has failed with."""
    plan = plan_of(context, preparation, flow)
    sources = _sources(flow, plan, asked, stored_failing_rows(context.state.record_file(flow).parent, ids))
    return plan.over(lambda number: sources[number])


def settle_failing(context: UpdateContext, flow: ResolvedFlow, load: Load, ids: Sequence[str]) -> None:
    """Mark rows that are where they belong, and record that the replay is done; both can be repeated after a crash."""
    folder = context.state.record_file(flow).parent
    context.fence()
    mark_failing(folder, ids, _REPLAYED)
    context.at(Failpoint.MARKED)
    context.fence()
    store_load(folder, finished(load))


def give_up(context: UpdateContext, flow: ResolvedFlow, load: Load, there: Sequence[str]) -> None:
    """Let a replay be one that nothing is left to do of; but for rows that are *there*, its rows wait as before."""
    folder = context.state.record_file(flow).parent
    context.fence()
    mark_failing(folder, there, _REPLAYED)
    context.fence()
    store_load(folder, replace(load, retired=True))


def plan_of(context: UpdateContext, preparation: Preparation, flow: ResolvedFlow) -> BatchPlan:
    """What the query of a flow computes, for other rows than those that its sources have."""
    with preparation.loading:
        preparation.register_inputs(flow)
        with with_confs(context.session, flow.flow.spark_conf):
            frame = on_clone(preparation.frame(flow), context.work_group(flow.name))
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - plans have no public form
    return BatchPlan(frame.sparkSession, plan, plan)


def _sources(flow: ResolvedFlow, plan: BatchPlan, asked: Replay, stored: Sequence[StoredRow]) -> list[DataFrame]:
    """The rows, as each source of the query would give them.

    Raises:
        PipelineError: REPLAY.OTHER_SOURCE: a source is gone, or has other columns now.
    """
    found = []
    schemas = plan.schemas()
    for row in stored:
        columns = set(json.loads(row.row))
        if row.input >= len(schemas) or not still_fits(columns, schemas[row.input]):
            named = ", ".join(sorted(columns))
            raise PipelineError("REPLAY.OTHER_SOURCE", location=flow.flow.location, flow=flow.name, columns=named)
    for number, schema in enumerate(schemas):
        texts = [(row.row,) for row in stored if row.input == number]
        rows = plan.session.createDataFrame(texts, "row STRING")
        rows = from_json(rows, "row", schema)
        for column, text in asked.changes:
            if column in rows.columns:
                rows = rows.withColumn(column, F.expr(text).cast(rows.schema[column].dataType))
        found.append(plan.standing_in(number, rows))
    return found


def still_fits(columns: set[str], schema: StructType) -> bool:
    """True when a source has all columns that a row of it has; those that have come since are NULL in the row."""
    return columns <= set(schema.names) and all(f.nullable for f in schema.fields if f.name not in columns)
