"""Replays rows that sinks have rejected, to the same sinks."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.errors import PipelineError
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.plan.backfills import Backfill, Replay
from headrace.spark.deadletter.json_rows import from_json
from headrace.spark.delta.tables import struct_type
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.replay.replay_query import abandon, finish_dead_letter_replay
from headrace.spark.session.clone import on_clone
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.sinks.create_sink_writer import create_sink_writer
from headrace.spark.sinks.failed_batches import StillFails
from headrace.spark.update.context import UpdateContext
from headrace.storage.backfills import next_number, store_backfill, stored_backfills
from headrace.storage.dead_letters import StoredDeadLetter, read_dead_letters
from headrace.storage.flow_record import FlowRecord
from headrace.storage.flow_records import unfinished_batch


def redeliver_rejected(
    context: UpdateContext,
    preparation: Preparation,
    flow: ResolvedFlow,
    record: FlowRecord,
    backfill: Backfill,
    requested: Replay,
    attempt: int,
) -> None:
    """Deliver rows to the sinks that have rejected them, batch by batch; rows rejected again become dead letters again.

    A batch on which a sink fails as a whole stays a dead letter, and the batches after it are delivered in their own
    backfill. The rows of a backfill are stored first, so that each batch is delivered once, however many attempts it
    takes.

    Args:
        context: the pipeline.
        preparation: holds the session lock.
        flow: the flow.
        record: of the flow.
        backfill: the replay.
        requested: the requested rows and changes.
        attempt: the number of the flow's attempt.

    Raises:
        Exception: the error of the first sink that still fails; the others have their rows.
    """
    folder = context.state.record_file(flow).parent
    rows = read_dead_letters(
        folder, requested.dead_letter_ids or (), from_sinks=True, exclude=unfinished_batch(context.state, flow)
    )
    members = context.graph.by_name[flow.target].members or (flow.target,)
    # The rows of a sink that was removed from the code stay dead letters.
    rest = _by_batch([row for row in rows if row.sink in set(map(str, members))])
    first: BaseException | None = None
    while rest:
        ids = tuple(row.id for batch in rest for row in batch)
        backfill = replace(backfill, replay=replace(requested, dead_letter_ids=ids))
        # Before it is stored: a stored backfill must be completed, so it must be readable.
        with preparation.session_lock, with_confs(context.session, {**flow.flow.spark_conf, **record.confs}):
            frames = [_frame(context, flow, requested, batch) for batch in rest]
        context.guard.fence()
        store_backfill(folder, backfill)
        own_record = replace(record, epoch=backfill.epoch, delivery=f"{record.delivery}:{backfill.number}")
        done, error = _delivered(context, flow, own_record, attempt, list(zip(rest, frames, strict=True)))
        delivered = [row.id for batch in rest[:done] for row in batch]
        if error is None:
            finish_dead_letter_replay(context, flow, backfill, delivered)
            break
        abandon(context, flow, backfill, delivered)
        first = first or error
        rest = rest[done + 1 :]
        backfill = replace(
            backfill, number=next_number(stored_backfills(folder, context.naming.canonical)), is_resumed=False
        )
    if first is not None:
        raise first


def _by_batch(rows: Sequence[StoredDeadLetter]) -> list[list[StoredDeadLetter]]:
    """The rows of each sink and batch, in the order of the batches."""
    found: dict[tuple[str, int, int], list[StoredDeadLetter]] = {}
    for row in rows:
        found.setdefault((str(row.sink), row.epoch, row.batch_id), []).append(row)
    return [found[key] for key in sorted(found)]


def _delivered(
    context: UpdateContext,
    flow: ResolvedFlow,
    record: FlowRecord,
    attempt: int,
    batches: Sequence[tuple[Sequence[StoredDeadLetter], DataFrame]],
) -> tuple[int, BaseException | None]:
    """The number of delivered batches, and the error of the next one, if that batch still fails."""
    for number, (batch, frame) in enumerate(batches):
        sink = str(batch[0].sink)
        target = create_sink_writer(context, flow, record, attempt, single_batch=True, only_sink=sink)
        assert target is not None  # noqa: S101 - a sink has refused them
        try:
            target.write(frame, number)
        except StillFails as still:
            return number, still.__cause__
    return len(batches), None


def _frame(
    context: UpdateContext, flow: ResolvedFlow, requested: Replay, rows: Sequence[StoredDeadLetter]
) -> DataFrame:
    """The rows as the query has returned them."""
    # Another flow into the same sink may return other columns.
    schema = struct_type(flow.analysis.schema.nullable)
    for row in rows:
        columns = set(json.loads(row.row))
        if not columns <= set(schema.names):
            named = ", ".join(sorted(columns))
            raise PipelineError("REPLAY.OTHER_SOURCE", location=flow.flow.location, flow=flow.name, columns=named)
    frame = context.session.createDataFrame([(row.row,) for row in rows], "row STRING")
    frame = from_json(frame, "row", schema)
    for column, text in requested.changes:
        frame = frame.withColumn(column, F.expr(text).cast(frame.schema[column].dataType))
    return on_clone(frame, context.work_group(flow.name))
