"""Starts a new epoch of a flow without clearing its table."""

from __future__ import annotations

import json
import uuid
from dataclasses import replace
from typing import Any

from pyspark.sql import SparkSession

from headrace.autoloader.source import Source
from headrace.autoloader.start_position import start_after
from headrace.checkpoints.initial_offsets import (
    DeltaPosition,
    FilesPosition,
    LedgerPosition,
    Position,
    UnreadFiles,
    create_initial_checkpoint,
)
from headrace.delta_log.tables import table_state
from headrace.errors import InternalError
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.plan.source_retention import Restart
from headrace.runtime.failpoints import Failpoint
from headrace.spark.preparation.state_formats import new_format
from headrace.spark.tables.commit_counter import count_sink_commits
from headrace.spark.update.context import UpdateContext
from headrace.storage.flow_record import next_epoch, write_record

_POSITIONS = (DeltaPosition, FilesPosition, UnreadFiles)


def start_epoch(context: UpdateContext, flow: ResolvedFlow, restart: Restart) -> None:
    """Drop the progress of a flow: its next batch is the first one of a new epoch.

    The record determines the flow's epoch, so that the change is atomic.
    """
    file = context.state.record_file(flow)
    record = context.state.progress_of(flow)
    if record.running:
        count_sink_commits(context, flow, record)
    epoch = next_epoch(file, record)
    fresh = record.restarted(epoch)
    if not context.state.has_run(flow) and not record.running:
        # Nothing was read in earlier epochs.
        fresh = replace(fresh, first_epoch=epoch)
    positions = [source.position for source in restart.sources if source.position is not None]
    if positions:
        known = [_stored_position(position, context) for position in positions if isinstance(position, _POSITIONS)]
        if len(known) != len(restart.sources):
            raise InternalError(f'flow "{flow.name}" starts at positions of some of its sources only')
        checkpoint = context.state.checkpoint(flow, epoch)
        metadata = batch_metadata(context.session, int(context.reporting.now() * 1000))
        create_initial_checkpoint(checkpoint, str(uuid.uuid4()), known, metadata=metadata)
        confs = new_format(context.session, flow.flow.spark_conf)
        fresh = replace(fresh, confs=confs, state_signature=flow.state_signature)
    context.guard.failpoint(Failpoint.CHECKPOINT_CREATED)
    context.guard.fence()
    table = table_state(context.table_path(flow.target))
    write_record(file, replace(fresh, counted_version=table.version if table else -1))


def _stored_position(position: DeltaPosition | FilesPosition | UnreadFiles, context: UpdateContext) -> Position:
    """The position as stored in a checkpoint; a ledger left by a crash is harmless, because nothing refers to it."""
    if not isinstance(position, UnreadFiles):
        return position
    offset = start_after(Source.from_json(position.source), position.files, now_ms=int(context.reporting.now() * 1000))
    return LedgerPosition(offset.ledger, offset.number)


def batch_metadata(session: SparkSession, at_ms: int) -> dict[str, Any]:
    """What Spark stores with the offsets of a batch planned at a given time: no watermark, and the current confs."""
    jvm: Any = session._jvm  # noqa: SLF001 - checkpoints have no public form
    found = jvm.org.apache.spark.sql.execution.streaming.checkpointing.OffsetSeqMetadata
    metadata: dict[str, Any] = json.loads(found.apply(0, at_ms, session._jsparkSession.conf()).json())  # noqa: SLF001 - the same
    metadata["conf"] = {key: value for key, value in metadata["conf"].items() if value is not None}
    return metadata
