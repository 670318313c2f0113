"""Rows that sinks have refused, to the same sinks once more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedFlow
from headrace.plan.backfills import Load, Replay
from headrace.spark.deadletter.json_rows import from_json
from headrace.spark.delta.tables import struct_type
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.replay.replay_query import give_up, settle_failing
from headrace.spark.session.clone import on_clone
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.sinks.failed_batches import StillFails
from headrace.spark.sinks.sink_factory import deliveries
from headrace.spark.update.context import UpdateContext
from headrace.storage.backfills import loads_of, next_number, store_load
from headrace.storage.dead_letters import StoredRow, stored_failing_rows
from headrace.storage.flow_record import FlowRecord
from headrace.storage.flow_records import unfinished_batch


def deliver_refused(
    context: UpdateContext,
    preparation: Preparation,
    flow: ResolvedFlow,
    record: FlowRecord,
    load: Load,
    asked: Replay,
    attempt: int,
) -> None:
    """Hand rows to the sinks that have refused them, batch by batch; what they refuse again is set aside anew.

    A batch that a sink fails with as a whole stays where it is, and those behind it are delivered, in a load of their
    own. Which rows a load has is stored before, so that each batch of it is delivered once however often it is tried.

    Args:
        context: the pipeline.
        preparation: has the session's settings.
        flow: whose rows.
        record: of the flow.
        load: the replay.
        asked: what it is to do.
        attempt: the how manieth try of the flow.

    Raises:
        Exception: what the first sink has raised that still fails; the others have their rows.
    """
    folder = context.state.record_file(flow).parent
    rows = stored_failing_rows(folder, asked.failing or (), refused=True, but=unfinished_batch(context.state, flow))
    members = context.graph.by_name[flow.target].members or (flow.target,)
    # A sink that is no longer in the code gets nothing; its rows stay.
    rest = _by_batch([row for row in rows if row.sink in set(map(str, members))])
    first: BaseException | None = None
    while rest:
        ids = tuple(row.id for batch in rest for row in batch)
        load = replace(load, replay=replace(asked, failing=ids))
        # Only a load that can be read is one that has to be finished.
        with preparation.loading, with_confs(context.session, {**flow.flow.spark_conf, **record.confs}):
            frames = [_frame(context, flow, asked, batch) for batch in rest]
        context.fence()
        store_load(folder, load)
        own = replace(record, epoch=load.epoch, delivery=f"{record.delivery}:{load.number}")
        done, error = _delivered(context, flow, own, attempt, list(zip(rest, frames, strict=True)))
        there = [row.id for batch in rest[:done] for row in batch]
        if error is None:
            settle_failing(context, flow, load, there)
            break
        give_up(context, flow, load, there)
        first = first or error
        rest = rest[done + 1 :]
        load = replace(load, number=next_number(loads_of(folder, context.naming.canonical)), begun=False)
    if first is not None:
        raise first


def _by_batch(rows: Sequence[StoredRow]) -> list[list[StoredRow]]:
    """The rows of each sink and batch, in the order in which the batches came."""
    found: dict[tuple[str, int, int], list[StoredRow]] = {}
    for row in rows:
        found.setdefault((str(row.sink), row.epoch, row.batch_id), []).append(row)
    return [found[key] for key in sorted(found)]


def _delivered(
    context: UpdateContext,
    flow: ResolvedFlow,
    record: FlowRecord,
    attempt: int,
    batches: Sequence[tuple[Sequence[StoredRow], DataFrame]],
) -> tuple[int, BaseException | None]:
    """How many of the batches were delivered, and what the sink of the next one has raised that is to blame itself."""
    for number, (batch, frame) in enumerate(batches):
        sink = str(batch[0].sink)
        target = deliveries(context, flow, record, attempt, once=True, only=sink)
        assert target is not None  # noqa: S101 - a sink has refused them
        try:
            target.write(frame, number)
        except StillFails as still:
            return number, still.__cause__
    return len(batches), None


def _frame(context: UpdateContext, flow: ResolvedFlow, asked: Replay, rows: Sequence[StoredRow]) -> DataFrame:
    """The rows, as the query has returned them."""
    # Another flow into the same sink may return other columns.
    schema = struct_type(flow.analysis.schema.nullable)
    for row in rows:
        columns = set(json.loads(row.row))
        if not columns <= set(schema.names):
            named = ", ".join(sorted(columns))
            raise PipelineError("REPLAY.OTHER_SOURCE", location=flow.flow.location, flow=flow.name, columns=named)
    frame = context.session.createDataFrame([(row.row,) for row in rows], "row STRING")
    frame = from_json(frame, "row", schema)
    for column, text in asked.changes:
        frame = frame.withColumn(column, F.expr(text).cast(frame.schema[column].dataType))
    return on_clone(frame, context.work_group(flow.name))
