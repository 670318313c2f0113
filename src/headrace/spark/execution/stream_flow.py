"""Runs a streaming flow: opens its checkpoint, calls its query, and starts it at the right position."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

from pyspark.sql.streaming.query import StreamingQuery

from headrace.checkpoints.offsets import read_progress, remove_batch_drafts
from headrace.graph.resolved_flows import StreamingFlow
from headrace.model.static_inputs import STATIC_INPUTS_KEY, StaticInputs
from headrace.model.triggers import Trigger, TriggerKind
from headrace.runtime.ports import Report
from headrace.spark.analysis.static_inputs import pin_static_tables
from headrace.spark.execution.attempt_hooks import Hooks
from headrace.spark.execution.real_time import check_real_time
from headrace.spark.execution.repeated_batch import repeat_last_batch
from headrace.spark.execution.stream_monitor import StreamMonitor, is_unfinished
from headrace.spark.execution.stream_reports import StreamReports, TopicsRead
from headrace.spark.execution.stream_target import StreamTarget
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.preparation.query_start import start_query, starting
from headrace.spark.preparation.state_formats import state_confs
from headrace.spark.readers.kafka_topics import (
    check_topics,
    explain_failure,
    topic_sources,
)
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.sinks.create_sink_writer import with_delivery
from headrace.spark.update.context import UpdateContext
from headrace.storage.flow_record import FlowRecord, write_record


class StreamFlowExecution:
    """One attempt of a stream.

    Args:
        context: shared by the flows of the update.
        preparation: prepares inputs.
        flow: the flow to run.
        trigger: when the stream looks for new input.
        attempt: its number within the update, from 1.
        hooks: reports to the attempt.
    """

    def __init__(
        self,
        context: UpdateContext,
        preparation: Preparation,
        flow: StreamingFlow,
        trigger: Trigger,
        attempt: int,
        hooks: Hooks,
    ) -> None:
        self._context = context
        self._preparation = preparation
        self._flow = flow
        self._trigger = trigger
        self._target = StreamTarget(context, preparation, flow, attempt, hooks)
        self._hooks = hooks
        self.progressed = False

    def run(self) -> Report:
        """Run the stream to its end; raises whatever made it fail."""
        self._finish_open_batch()
        return self._stream()

    def _finish_open_batch(self) -> None:
        """Before real-time mode, finish a batch of another trigger: Spark would give its number to a new batch.

        A sink whose record has the batch would then skip rows that it never received.
        """
        context, flow = self._context, self._flow
        checkpoint = context.state.checkpoint(flow, context.state.progress_of(flow).epoch)
        if self._trigger.kind is TriggerKind.REAL_TIME and is_unfinished(checkpoint):
            real_time, self._trigger = self._trigger, Trigger(TriggerKind.ONCE)
            self._stream()
            self._trigger = real_time

    def _stream(self) -> Report:
        context, flow = self._context, self._flow
        began_at = context.reporting.now()
        record = context.state.progress_of(flow)
        checkpoint = context.state.checkpoint(flow, record.epoch)
        record = self._with_confs_of_checkpoint(record)
        # If this fails from here on, the next update starts the flow, which counts the committed batches.
        delivered_before = bool(record.delivery)
        was_interrupted, record = record.running, replace(with_delivery(context, flow, record), running=True)
        if was_interrupted:
            record = self._target.count_rest(record)
        context.guard.fence()
        write_record(context.state.record_file(flow), record)
        remove_batch_drafts(checkpoint)
        confs = {**flow.flow.spark_conf, **record.confs}
        with self._preparation.session_lock, starting(context, checkpoint):
            self._preparation.register_inputs(flow)
            with with_confs(context.session, confs):
                frame = self._preparation.frame(flow)
                static_inputs = StaticInputs.of(context.session.conf.get(STATIC_INPUTS_KEY, None))
                frame = pin_static_tables(frame, flow.name) if static_inputs.pinned else frame
                # From here on the schema only evolves, even if this attempt fails.
                context.catalog.inferred.add(flow.name)
                sources = topic_sources(frame)
        # Outside the lock: a broker that does not answer must not block other flows.
        reported_losses = check_topics(context, flow, sources, checkpoint)
        if self._trigger.kind is TriggerKind.REAL_TIME:
            check_real_time(context, flow, sources)
        repeat = repeat_last_batch(context, flow, self._trigger, checkpoint, sources)
        target = self._target.batch_function(
            record,
            self._trigger,
            repeats=was_interrupted or is_unfinished(checkpoint),
            delivered_before=delivered_before,
        )
        with self._preparation.session_lock, with_confs(context.session, confs):
            query = start_query(context, flow, frame, repeat.trigger, checkpoint, target)
        # Spark's group of the jobs of a stream.
        self._hooks.watch_jobs(str(query.runId))
        self._hooks.on_start()
        topics = TopicsRead(sources, reported_losses)
        reports = self._reports(query, record.epoch, topics, static_inputs, began_at)
        monitor = StreamMonitor(context, flow, query, record, target, self._trigger, reports, self._hooks)
        try:
            return monitor.until_end(began_at, repeated=repeat.batch_id)
        except Exception as error:
            # Raise the failure even if the last report fails.
            with suppress(Exception):
                reports.report(last=True)
            explain_failure(context, flow, sources, checkpoint, error)
            raise
        finally:
            self.progressed = self.progressed or monitor.progressed

    def _reports(
        self, query: StreamingQuery, epoch: int, topics: TopicsRead, static_inputs: StaticInputs, began_at: float
    ) -> StreamReports:
        return StreamReports(
            self._context,
            self._flow,
            query,
            epoch,
            topics,
            static_inputs,
            began_at,
            knows_newest=self._trigger.kind is not TriggerKind.REAL_TIME,
            on_poll=self._hooks.on_poll if self._trigger.kind.is_continuous else None,
        )

    def _with_confs_of_checkpoint(self, record: FlowRecord) -> FlowRecord:
        """The record with the confs of its checkpoint, and the state signature if the checkpoint is new."""
        checkpoint = self._context.state.checkpoint(self._flow, record.epoch)
        if not record.confs:
            # A checkpoint without a record was created elsewhere, and keeps the confs that it was created with.
            own = self._flow.flow.spark_conf
            # Without the lock, the confs of another flow may be set in the session.
            with self._preparation.session_lock:
                record = replace(record, confs=state_confs(self._context.session, checkpoint, own))
        if read_progress(checkpoint) is None:
            record = replace(record, state_signature=self._flow.state_signature)
        return record
