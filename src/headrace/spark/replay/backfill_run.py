"""Runs the load of a flow to its end: a range of its sources, or rows that were set aside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedFlow
from headrace.plan.backfills import Load, Replay
from headrace.runtime.ports import Completed, Report
from headrace.runtime.retry import retryable
from headrace.spark.deadletter.row_errors import RowErrors
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.replay.backfill import complete_load
from headrace.spark.replay.backfill_rows import frame_of, settle, take_back
from headrace.spark.replay.replay_query import give_up, with_rows_that_pass
from headrace.spark.replay.replay_sink import deliver_refused
from headrace.spark.sinks.sink_factory import deliveries
from headrace.spark.tables.writer_factory import WriterFactory
from headrace.spark.update.context import UpdateContext
from headrace.storage.backfills import loads_of, store_load
from headrace.storage.dead_letters import SINK_REFUSED
from headrace.storage.flow_record import FlowRecord


@dataclass(frozen=True)
class LoadRun:
    """One try of a load; ``started`` is called once it is known what it reads."""

    context: UpdateContext
    preparation: Preparation
    flow: ResolvedFlow
    targets: WriterFactory
    attempt: int
    started: Callable[[], None]

    def complete(self, load: Load) -> Report:
        """Do what is left to do of a load; raises what made it fail."""
        context, flow = self.context, self.flow
        record = context.state.progress_of(flow)
        folder = context.state.record_file(flow).parent
        stored = next((one for one in loads_of(folder, context.naming.canonical) if one.number == load.number), None)
        if stored is not None and not stored.pending:
            # By an attempt before, which failed in the stream that follows.
            return Completed(flow.name)
        if load.retired:
            context.fence()
            store_load(folder, load)
            return Completed(flow.name)
        if stored is not None:
            # Which rows a replay means was found by its first try.
            load = replace(load, replay=stored.replay)
        if load.replay is None:
            self._write(record, load, frame_of(context, self.preparation, flow, record, load))
            complete_load(context, flow, load)
        elif load.replay.rules == (SINK_REFUSED,):
            self.started()
            deliver_refused(context, self.preparation, flow, record, load, load.replay, self.attempt)
        else:
            self._replay(record, load, load.replay)
        return Completed(flow.name)

    def _replay(self, record: FlowRecord, load: Load, asked: Replay) -> None:
        context, flow = self.context, self.flow
        if asked.failing is not None:
            load = with_rows_that_pass(context, self.preparation, flow, load, asked)
        try:
            frame = frame_of(context, self.preparation, flow, record, load)
        except PipelineError as error:
            if error.code != "REPLAY.NOT_FROM_SOURCE" or not context.state.load_is_in_table(flow, load):
                raise
            # What it came from is gone by now, so that nobody can tell how many of it the rules have dropped.
            self.started()
            self.targets.table(flow, replace(record, epoch=load.epoch), replaces=False).tell_taken(0, 0)
        else:
            self._write(record, load, frame)
        settle(context, flow, record, load, load.replay or asked)

    def _write(self, record: FlowRecord, load: Load, frame: DataFrame) -> None:
        context, flow = self.context, self.flow
        self.started()
        # Only a load that can be read is one that has to be finished.
        context.fence()
        store_load(context.state.record_file(flow).parent, load)
        if load.replay is not None:
            take_back(context, flow, record, load)
        judged = load.replay is None or load.replay.judged
        # A sink takes what is replayed as a delivery of its own.
        own = replace(record, epoch=load.epoch, delivery=f"{record.delivery}:{load.number}")
        taker = deliveries(context, flow, own, self.attempt, once=True)
        try:
            (taker or self.targets.table(flow, own, replaces=False, judged=judged)).write(frame, 0)
        except Exception as error:
            if load.replay is not None and taker is None:
                self._give_up_if_lasting(record, load, error)
            raise

    def _give_up_if_lasting(self, record: FlowRecord, load: Load, error: Exception) -> None:
        """Let rows wait as before that today's query fails with for good, so that no later update begins with them."""
        context, flow = self.context, self.flow
        report = RowErrors(context, flow).report(error)
        if report.condition is None or retryable(report) or context.state.load_is_in_table(flow, load):
            return
        take_back(context, flow, record, replace(load, begun=True))
        give_up(context, flow, load, ())
