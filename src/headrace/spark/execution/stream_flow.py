"""A flow that is a stream: opens its checkpoint, calls its query, and starts it in the right place."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from pyspark.sql.streaming.query import StreamingQuery

from headrace.checkpoints.offsets import (
    Progress,
    clear_drafts_of_batches,
    query_id_of,
    read_progress,
    reopen_batch,
)
from headrace.checkpoints.state_formats import format_of
from headrace.delta_log.tables import committed_transaction
from headrace.graph.resolved import Mode, ResolvedDataset, ResolvedFlow
from headrace.model.datasets import Kind
from headrace.model.static_inputs import STATIC_INPUTS_KEY, StaticInputs
from headrace.model.triggers import Trigger, TriggerKind
from headrace.runtime.ports import Report
from headrace.spark.analysis.static_inputs import pinned
from headrace.spark.deadletter.dead_letter_writer import spares, sparing
from headrace.spark.execution.hooks import Hooks
from headrace.spark.execution.real_time import check_real_time
from headrace.spark.execution.stream_monitor import StreamMonitor, is_unfinished
from headrace.spark.execution.stream_reports import StreamReports, TopicsRead
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.preparation.query_start import start_query
from headrace.spark.preparation.state_formats import new_format
from headrace.spark.readers.kafka_topics import (
    TopicSource,
    can_repeat_last_batch,
    check_topics,
    explain_failure,
    topic_sources,
)
from headrace.spark.session.query_context import in_query_context, query_context
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.sinks.resume import resumed
from headrace.spark.sinks.sink_factory import passes_over, with_delivery
from headrace.spark.sinks.sink_writer import SinkWriter
from headrace.spark.tables.commit_counter import CommitCounter
from headrace.spark.tables.table_writer import TableWriter
from headrace.spark.tables.writer_factory import WriterFactory
from headrace.spark.update.batch_writer import Calls
from headrace.spark.update.context import UpdateContext
from headrace.storage.change_detection import goes_by_clock, has_closed_results
from headrace.storage.flow_record import FlowRecord, write_record
from headrace.storage.initial_snapshot import reads_commits


class StreamFlowExecution:
    """One attempt of a stream.

    Args:
        context: what the flows of the update share.
        preparation: prepares inputs.
        flow: what to run.
        trigger: when the stream looks for new input.
        attempt: its number within the update, from 1.
        hooks: reports to the attempt.
    """

    def __init__(
        self,
        context: UpdateContext,
        preparation: Preparation,
        flow: ResolvedFlow,
        trigger: Trigger,
        attempt: int,
        hooks: Hooks,
    ) -> None:
        self._context = context
        self._preparation = preparation
        self._flow = flow
        self._trigger = trigger
        self._attempt = attempt
        self._targets = WriterFactory(context, attempt)
        self._hooks = hooks
        # The batch that is computed once more; what comes after it is new.
        self._repeated = -1
        self.progressed = False

    def run(self) -> Report:
        """Run the stream to its end; raises whatever made it fail."""
        self._finish_open_batch()
        return self._stream()

    def _finish_open_batch(self) -> None:
        """Before real-time mode, end a batch that was begun otherwise: Spark would give its number to another one.

        A sink that is noted to have the batch would then pass over what it never got.
        """
        context, flow = self._context, self._flow
        checkpoint = context.state.checkpoint(flow, context.state.progress_of(flow).epoch)
        if self._trigger.kind is TriggerKind.REAL_TIME and is_unfinished(checkpoint):
            real_time, self._trigger = self._trigger, Trigger(TriggerKind.ONCE)
            self._stream()
            self._trigger = real_time

    def _stream(self) -> Report:
        context, flow = self._context, self._flow
        began_at = context.now()
        record = context.state.progress_of(flow)
        checkpoint = context.state.checkpoint(flow, record.epoch)
        record = self._opening(record, checkpoint)
        # Whatever happens from here on, the next update starts the flow, which counts what was committed.
        delivered_before = bool(record.delivery)
        broken_off, record = record.running, replace(with_delivery(context, flow, record), running=True)
        context.fence()
        write_record(context.state.record_file(flow), record)
        clear_drafts_of_batches(checkpoint)
        dataset = context.graph.by_name[flow.target]
        merges = flow.mode in (Mode.COMPLETE, Mode.MERGE)
        own_sink = dataset.kind is not Kind.SINK and (merges or self._needs_own_sink(dataset, checkpoint, record))
        if own_sink and broken_off:
            record = self._counted(record, query_id_of(checkpoint))
        confs = {**flow.flow.spark_conf, **record.confs}
        with self._preparation.loading, self._about_to_run(checkpoint):
            self._preparation.register_inputs(flow)
            with with_confs(context.session, confs):
                frame = self._preparation.frame(flow)
                beside = StaticInputs.of(context.session.conf.get(STATIC_INPUTS_KEY, None))
                frame = pinned(frame, flow.name) if beside.pinned else frame
                # From here on the schema grows, also when this attempt fails.
                context.catalog.inferred.add(flow.name)
                sources = topic_sources(frame)
        # A broker that does not answer keeps no other flow from being loaded.
        told = check_topics(context, flow, sources, checkpoint)
        if self._trigger.kind is TriggerKind.REAL_TIME:
            check_real_time(context, flow, sources)
        trigger = self._trigger_after(read_progress(checkpoint), checkpoint, sources)
        repeats = broken_off or is_unfinished(checkpoint)
        target = self._target(record, own_sink=own_sink, repeats=repeats, delivered_before=delivered_before)
        with self._preparation.loading, with_confs(context.session, confs):
            query = start_query(context, flow, frame, trigger, checkpoint, target)
        self._hooks.started()
        reports = self._reports(query, TopicsRead(sources, told), beside, began_at)
        monitor = StreamMonitor(context, flow, query, record, target, self._trigger, reports, self._hooks)
        try:
            return monitor.until_end(began_at, repeated=self._repeated)
        except Exception as error:
            # The failure is what matters, even if the last report cannot be made.
            with suppress(Exception):
                reports.report(last=True)
            explain_failure(context, flow, sources, checkpoint, error)
            raise
        finally:
            self.progressed = self.progressed or monitor.progressed

    def _target(self, record: FlowRecord, *, own_sink: bool, repeats: bool, delivered_before: bool) -> Calls | None:
        """What takes the batches; None if Spark writes them itself."""
        context, flow = self._context, self._flow
        taker: SinkWriter | TableWriter | None = None
        if context.graph.by_name[flow.target].kind is Kind.SINK:
            taker = resumed(
                context,
                flow,
                record,
                self._attempt,
                loading=self._preparation.loading,
                stopping=self._hooks.is_stopping,
                by_spark=self._trigger.kind is TriggerKind.REAL_TIME,
                delivered_before=delivered_before,
            )
        elif own_sink:
            taker = self._targets.table(flow, record, replaces=flow.mode is Mode.COMPLETE, repeats=repeats)
        writer = sparing(context, flow, record, taker)
        return None if writer is None else Calls(writer)

    def _reports(
        self, query: StreamingQuery, topics: TopicsRead, static_inputs: StaticInputs, began_at: float
    ) -> StreamReports:
        return StreamReports(
            self._context,
            self._flow,
            query,
            topics,
            static_inputs,
            began_at,
            knows_newest=self._trigger.kind is not TriggerKind.REAL_TIME,
            polled=self._hooks.polled if self._trigger.kind.goes_on else None,
        )

    def _opening(self, record: FlowRecord, checkpoint: Path) -> FlowRecord:
        """The record with what a checkpoint is opened with, and a new one is made with."""
        if not record.confs:
            # A checkpoint that is there without a record was not made here, and opens with what it was made with.
            own = self._flow.flow.spark_conf
            # Outside of the lock, the settings of another flow may be in force in the session.
            with self._preparation.loading:
                record = replace(record, confs=format_of(checkpoint) or new_format(self._context.session, own))
        if read_progress(checkpoint) is None:
            record = replace(record, made_with=self._flow.made_with)
        return record

    def _trigger_after(self, progress: Progress | None, checkpoint: Path, sources: tuple[TopicSource, ...]) -> Trigger:
        """The trigger of a query that goes on; one that has results to write, closed by its last batch, writes them.

        So does one whose timers may be due by the clock. Spark writes them with one more batch, which it plans only
        after a batch that the same query has computed (``MicroBatchExecution.constructNextBatch``), or with what comes
        next. So it computes the last batch again, of which the sink writes nothing, and goes on from there, which takes
        more than one batch. Where a broker no longer has what that batch has read, its state would be computed without:
        the results wait for what comes next.
        """
        context, flow = self._context, self._flow
        if progress is not None and not progress.completed:
            # Spark computes it first.
            self._repeated = progress.batch_id
        due = progress is not None and (
            has_closed_results(flow, progress) or (goes_by_clock(flow) and progress.completed)
        )
        if progress is None or not due or self._trigger.kind is TriggerKind.REAL_TIME:
            return self._trigger
        if context.graph.by_name[flow.target].kind is Kind.SINK and not passes_over(context, flow):
            # Spark's own writer would get the batch again.
            return self._trigger
        if sources and not can_repeat_last_batch(context, flow, sources, checkpoint):
            return self._trigger
        context.fence()
        reopen_batch(checkpoint, progress.batch_id)
        self._repeated = progress.batch_id
        return Trigger() if self._trigger.kind is TriggerKind.ONCE else self._trigger

    @contextmanager
    def _about_to_run(self, checkpoint: Path) -> Iterator[None]:
        """Call a query to run it: readers store schemas, and tables are read from their first commit if possible."""
        context = self._context

        def reads(text: str) -> bool:
            name = context.catalog.names.name_behind(text)
            table = context.state.table(name) if name is not None else None
            return table is not None and reads_commits(table, checkpoint)

        with in_query_context(replace(query_context(), runs=True, reads_commits=reads)):
            yield

    def _counted(self, record: FlowRecord, query_id: str | None) -> FlowRecord:
        """Count what Delta's own sink has committed, before another one goes on in its place."""
        context, flow = self._context, self._flow
        if query_id is None or committed_transaction(context.table_path(flow.target), query_id) is None:
            return record
        counter = CommitCounter(context, flow, record.epoch, query_id, record.counted_version)
        counter.count()
        counted = replace(record, counted_version=counter.counted_version)
        # At once, so that no later start looks at the same commits again.
        context.fence()
        write_record(context.state.record_file(flow), counted)
        return counted

    def _needs_own_sink(self, dataset: ResolvedDataset, checkpoint: Path, record: FlowRecord) -> bool:
        """True when Delta's sink will not do, which passes over a batch that is in the table without computing it.

        It knows no rules, and takes no batch without some of its rows; Spark cannot go on with state that was not
        computed again; and a batch that was written with rules, which are gone now, it would write once more.
        """
        context, flow = self._context, self._flow
        if dataset.dataset.expectations or flow.analysis.operators:
            return True
        if spares(context, flow):
            return True
        progress = read_progress(checkpoint)
        if progress is None or progress.completed:
            return False
        newest = committed_transaction(context.table_path(flow.target), context.state.transaction(record))
        return newest is not None and newest >= progress.batch_id
