"""Replays rows on which a query has failed, through the same query."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from headrace.errors import PipelineError
from headrace.events.types import Warned
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.dead_letter_policy import MAX_DEAD_LETTERS_PER_BATCH
from headrace.plan.backfills import Backfill, Replay
from headrace.runtime.bisect import NoSingleRowFails, TooManyFailures, find_failing_rows
from headrace.runtime.failpoints import Failpoint
from headrace.spark.deadletter.batch_plan import BatchPlan
from headrace.spark.deadletter.json_rows import from_json
from headrace.spark.deadletter.numbered_rows import NumberedRows, numbered
from headrace.spark.deadletter.row_errors import RowErrors
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.session.clone import on_clone
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.update.context import UpdateContext
from headrace.storage.backfills import finished, store_backfill
from headrace.storage.dead_letters import StoredDeadLetter, read_dead_letters, set_dead_letter_status
from headrace.storage.flow_records import unfinished_batch

_REPLAYED = "replayed"


def with_passing_rows(
    context: UpdateContext, preparation: Preparation, flow: ResolvedFlow, backfill: Backfill, requested: Replay
) -> Backfill:
    """The backfill with the rows on which the query passes now; the others stay dead letters.

    Raises:
        PipelineError: REPLAY.STILL_FAIL: it fails on all of them.
    """
    if requested.dead_letter_ids:
        # An earlier attempt has found them, and may have written them.
        return backfill
    location = flow.flow.location
    if flow.analysis.operators:
        raise PipelineError("REPLAY.KEEPS_STATE", location=location, flow=flow.name, name=flow.target)
    stored = read_dead_letters(context.state.record_file(flow).parent, exclude=unfinished_batch(context.state, flow))
    plan = plan_of(context, preparation, flow)
    # In the order of their numbers: by source.
    ordered = sorted(stored, key=lambda row: row.input)
    row_errors = RowErrors(context, flow)
    with numbered(plan, _sources(flow, plan, requested, ordered), {}) as rows:
        error = row_errors.row_error(rows.error_over(0, rows.count))
        found = frozenset() if error is None else _still_failing(flow, rows, row_errors, error)
    if error is not None:
        reason, at = row_errors.reason(error), row_errors.report(error).error.location
        if len(found) == len(ordered):
            raise PipelineError("REPLAY.STILL_FAIL", location=at, flow=flow.name, count=len(found), reason=reason)
        message = f'flow "{flow.name}": its query still fails on {len(found)} of {len(ordered)} rows: {reason}'
        context.reporting.emit(Warned("ROWS.SET_ASIDE", message, flow.name, str(flow.target)))
    passing = tuple(row.id for position, row in enumerate(ordered) if position not in found)
    return replace(backfill, replay=replace(requested, dead_letter_ids=passing))


def _still_failing(flow: ResolvedFlow, rows: NumberedRows, row_errors: RowErrors, error: Exception) -> frozenset[int]:
    """The positions of the failing rows.

    Raises:
        PipelineError: REPLAY.MANY_FAIL: there are too many to identify them.
    """
    suspects = rows.suspects(rows.count)
    if suspects and row_errors.row_error(rows.error_without(suspects)) is None:
        return frozenset(suspects)
    try:
        found = find_failing_rows(
            rows.count,
            lambda first, last: row_errors.row_error(rows.error_over(first, last)),
            MAX_DEAD_LETTERS_PER_BATCH,
        )
    except (NoSingleRowFails, TooManyFailures):
        reason, at = row_errors.reason(error), row_errors.report(error).error.location
        params = {"flow": flow.name, "count": rows.count, "most": MAX_DEAD_LETTERS_PER_BATCH, "reason": reason}
        raise PipelineError("REPLAY.MANY_FAIL", location=at, **params) from error
    return frozenset(found)


def frame_of_dead_letters(
    context: UpdateContext, preparation: Preparation, flow: ResolvedFlow, requested: Replay, ids: Sequence[str]
) -> DataFrame:
    """The query's result over dead letters."""
    plan = plan_of(context, preparation, flow)
    sources = _sources(flow, plan, requested, read_dead_letters(context.state.record_file(flow).parent, ids))
    return plan.over(lambda number: sources[number])


def finish_dead_letter_replay(
    context: UpdateContext, flow: ResolvedFlow, backfill: Backfill, ids: Sequence[str]
) -> None:
    """Mark replayed rows, and record that the replay is done; both can be repeated after a crash."""
    folder = context.state.record_file(flow).parent
    context.guard.fence()
    set_dead_letter_status(folder, ids, _REPLAYED)
    context.guard.failpoint(Failpoint.MARKED_REPLAYED)
    context.guard.fence()
    store_backfill(folder, finished(backfill))


def abandon(context: UpdateContext, flow: ResolvedFlow, backfill: Backfill, delivered: Sequence[str]) -> None:
    """Retire a replay; its rows stay open, except those *delivered*."""
    folder = context.state.record_file(flow).parent
    context.guard.fence()
    set_dead_letter_status(folder, delivered, _REPLAYED)
    context.guard.fence()
    store_backfill(folder, replace(backfill, retired=True))


def plan_of(context: UpdateContext, preparation: Preparation, flow: ResolvedFlow) -> BatchPlan:
    """The plan of a flow's query, to run over other rows than those of its sources."""
    with preparation.session_lock:
        preparation.register_inputs(flow)
        with with_confs(context.session, flow.flow.spark_conf):
            frame = on_clone(preparation.frame(flow), context.work_group(flow.name))
    plan = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - plans have no public form
    return BatchPlan(frame.sparkSession, plan, plan)


def _sources(
    flow: ResolvedFlow, plan: BatchPlan, requested: Replay, stored: Sequence[StoredDeadLetter]
) -> list[DataFrame]:
    """The rows in place of each source of the query.

    Raises:
        PipelineError: REPLAY.OTHER_SOURCE: a source was removed, or has other columns now.
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
        for column, text in requested.changes:
            if column in rows.columns:
                rows = rows.withColumn(column, F.expr(text).cast(rows.schema[column].dataType))
        found.append(plan.stand_in(number, rows))
    return found


def still_fits(columns: set[str], schema: StructType) -> bool:
    """True if a source still has all columns of a row; columns that were added since are NULL in the row."""
    return columns <= set(schema.names) and all(f.nullable for f in schema.fields if f.name not in columns)
