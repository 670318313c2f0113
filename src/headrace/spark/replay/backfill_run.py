"""Runs a flow's backfill to its end: over a range of its sources, or over quarantined rows and dead letters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from headrace.errors import PipelineError
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.plan.backfills import Backfill, Replay
from headrace.runtime.ports import Completed, Report
from headrace.runtime.retry import retryable
from headrace.spark.deadletter.row_errors import RowErrors
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.replay.backfill_ranges import complete_backfill
from headrace.spark.replay.backfill_rows import finish_replay, frame_of, remove_quarantined
from headrace.spark.replay.replay_query import abandon, with_passing_rows
from headrace.spark.replay.replay_sink import redeliver_rejected
from headrace.spark.sinks.create_sink_writer import create_sink_writer
from headrace.spark.tables.writer_factory import WriterFactory
from headrace.spark.update.context import UpdateContext
from headrace.storage.backfills import store_backfill, stored_backfills
from headrace.storage.dead_letter_tables import SINK_REFUSED
from headrace.storage.flow_record import FlowRecord


@dataclass(frozen=True)
class BackfillRun:
    """One attempt of a backfill; ``started`` is called once it is known what it reads."""

    context: UpdateContext
    preparation: Preparation
    flow: ResolvedFlow
    targets: WriterFactory
    attempt: int
    started: Callable[[], None]

    def complete(self, backfill: Backfill) -> Report:
        """Complete a backfill; raises the error on which it fails."""
        context, flow = self.context, self.flow
        record = context.state.progress_of(flow)
        folder = context.state.record_file(flow).parent
        stored = next(
            (one for one in stored_backfills(folder, context.naming.canonical) if one.number == backfill.number), None
        )
        if stored is not None and not stored.pending:
            # An earlier attempt has completed it, and then failed in the stream.
            return Completed(flow.name)
        if backfill.retired:
            context.guard.fence()
            store_backfill(folder, backfill)
            return Completed(flow.name)
        if stored is not None:
            # The first attempt of a replay has determined its rows.
            backfill = replace(backfill, replay=stored.replay)
        if backfill.replay is None:
            self._write(record, backfill, frame_of(context, self.preparation, flow, record, backfill))
            complete_backfill(context, flow, backfill)
        elif backfill.replay.rules == (SINK_REFUSED,):
            self.started()
            redeliver_rejected(context, self.preparation, flow, record, backfill, backfill.replay, self.attempt)
        else:
            self._replay(record, backfill, backfill.replay)
        return Completed(flow.name)

    def _replay(self, record: FlowRecord, backfill: Backfill, requested: Replay) -> None:
        context, flow = self.context, self.flow
        if requested.dead_letter_ids is not None:
            backfill = with_passing_rows(context, self.preparation, flow, backfill, requested)
        try:
            frame = frame_of(context, self.preparation, flow, record, backfill)
        except PipelineError as error:
            if error.code != "REPLAY.NOT_FROM_SOURCE" or not context.state.is_backfill_committed(flow, backfill):
                raise
            # The source records are gone by now, so the number of rows that expectations dropped is unknown.
            self.started()
            self.targets.table_writer(flow, replace(record, epoch=backfill.epoch), replaces=False).count_if_written(
                0, 0
            )
        else:
            self._write(record, backfill, frame)
        finish_replay(context, flow, record, backfill, backfill.replay or requested)

    def _write(self, record: FlowRecord, backfill: Backfill, frame: DataFrame) -> None:
        context, flow = self.context, self.flow
        self.started()
        # Store it only now: a stored backfill must be completed, so it must be readable.
        context.guard.fence()
        store_backfill(context.state.record_file(flow).parent, backfill)
        if backfill.replay is not None:
            remove_quarantined(context, flow, record, backfill)
        apply_expectations = backfill.replay is None or backfill.replay.applies_rules
        # For a sink, a replay is a delivery of its own.
        own_record = replace(record, epoch=backfill.epoch, delivery=f"{record.delivery}:{backfill.number}")
        sink_writer = create_sink_writer(context, flow, own_record, self.attempt, single_batch=True)
        try:
            (
                sink_writer
                or self.targets.table_writer(flow, own_record, replaces=False, apply_expectations=apply_expectations)
            ).write(frame, 0)
        except Exception as error:
            if backfill.replay is not None and sink_writer is None:
                self._abandon_if_permanent(record, backfill, error)
            raise

    def _abandon_if_permanent(self, record: FlowRecord, backfill: Backfill, error: Exception) -> None:
        """Abandon a replay that fails permanently, so that later updates do not retry it; its rows stay open."""
        context, flow = self.context, self.flow
        report = RowErrors(context, flow).report(error)
        if report.condition is None or retryable(report) or context.state.is_backfill_committed(flow, backfill):
            return
        remove_quarantined(context, flow, record, replace(backfill, is_resumed=True))
        abandon(context, flow, backfill, ())
