"""Runs one flow from its start to its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from pyspark.sql.streaming.query import StreamingQuery

from headrace.checkpoints.offsets import (
    Progress,
    clear_drafts_of_batches,
    query_id_of,
    read_progress,
    reopen_batch,
)
from headrace.checkpoints.state_formats import format_of
from headrace.delta_log.tables import committed_transaction, table_state
from headrace.graph.resolved import Mode, ResolvedDataset, ResolvedFlow
from headrace.model.datasets import Kind
from headrace.model.static_inputs import STATIC_INPUTS_KEY, StaticInputs
from headrace.model.triggers import Trigger, TriggerKind
from headrace.plan.backfills import Load
from headrace.runtime.failpoints import Failpoint
from headrace.runtime.ports import Canceled, Completed, Report
from headrace.sources.kafka_offsets import Told
from headrace.spark.analysis.static_inputs import FolderListings, pinned
from headrace.spark.deadletter.dead_letter_writer import spares, sparing
from headrace.spark.execution.real_time import check_real_time
from headrace.spark.execution.snapshot_flow import SnapshotFlowExecution
from headrace.spark.monitoring.changed_files import ChangedFiles
from headrace.spark.monitoring.lag import LagReporter
from headrace.spark.monitoring.lost_offsets import LossReporter
from headrace.spark.monitoring.query_monitor import End, QueryMonitor
from headrace.spark.monitoring.state_reporter import StateReporter
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
from headrace.spark.replay.backfill_run import LoadRun
from headrace.spark.session.clone import on_clone
from headrace.spark.session.query_context import in_query_context, query_context
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.sinks.progress_counter import ProgressCounter
from headrace.spark.sinks.resume import resumed
from headrace.spark.sinks.sink_factory import deliveries, passes_over, with_delivery
from headrace.spark.sinks.sink_writer import SinkWriter
from headrace.spark.tables.commit_counter import CommitCounter
from headrace.spark.tables.compaction import COMPACT_ABOVE_FILES
from headrace.spark.tables.table_writer import TableWriter
from headrace.spark.tables.writer_factory import WriterFactory
from headrace.spark.update.batch_writer import BatchWriter, Calls, Counter
from headrace.spark.update.context import UpdateContext
from headrace.storage.change_detection import goes_by_clock, has_closed_results
from headrace.storage.flow_record import FlowRecord, write_record
from headrace.storage.initial_snapshot import reads_commits

# How often the progress of counting is stored while a query runs.
_STORE_EVERY_S = 60.0


class ReportProgress(Protocol):
    """Says what there is to say of the topics that a running query reads."""

    def __call__(self, *, last: bool = False) -> None:
        """Say it, if there is news; at the end of the query in any case."""


class StreamFlowExecution:
    """One attempt of one flow.

    Args:
        context: what the flows of the update share.
        preparation: prepares tables and inputs.
        flow: what to run.
        trigger: when a stream looks for new input.
        started: called once the query runs.
        current: called once a stream has done a first batch or waits for input.
        patience_s: how long the running batch may still take once the flow should end early, None before that.
        tidy: called after many batches.
    """

    def __init__(
        self,
        context: UpdateContext,
        preparation: Preparation,
        flow: ResolvedFlow,
        trigger: Trigger,
        attempt: int,
        *,
        started: Callable[[], None],
        current: Callable[[], None],
        patience_s: Callable[[], float | None],
        tidy: Callable[[], None],
        looks: Callable[[], None],
    ) -> None:
        self._context = context
        self._looks = looks
        self._preparation = preparation
        self._flow = flow
        self._trigger = trigger
        self._attempt = attempt
        self._targets = WriterFactory(context, attempt)
        self._started = started
        self._current = current
        self._patience_s = patience_s
        self._tidy = tidy
        # The batch that is computed once more; what comes behind it is new.
        self._repeated = -1
        # True when a batch was done before the attempt failed.
        self.progressed = False

    def run(self) -> Report:
        """Run the flow to its end; raises what made it fail."""
        if self._flow.mode.streams:
            self._finish_open_batch()
            return self._stream(self._flow)
        if self._flow.mode is Mode.SNAPSHOT:
            return self._snapshots(self._flow)
        return self._batch(self._flow)

    def _finish_open_batch(self) -> None:
        """Before real-time mode, end a batch that was begun otherwise: Spark would give its number to another one.

        A sink that is noted to have the batch would then pass over what it never got.
        """
        context, flow = self._context, self._flow
        checkpoint = context.state.checkpoint(flow, context.state.progress_of(flow).epoch)
        if self._trigger.kind is TriggerKind.REAL_TIME and _is_unfinished(checkpoint):
            real_time, self._trigger = self._trigger, Trigger(TriggerKind.ONCE)
            self._stream(flow)
            self._trigger = real_time

    def load(self, load: Load) -> Report:
        """Run a stream's query as a batch over a range; raises what made it fail."""
        run = LoadRun(self._context, self._preparation, self._flow, self._targets, self._attempt, self._started)
        return run.complete(load)

    def _batch(self, flow: ResolvedFlow) -> Report:
        """A materialized view, or a flow that runs once."""
        context = self._context
        record = context.state.progress_of(flow)
        began_at = context.now()
        replaces = flow.mode is Mode.REPLACE
        with self._preparation.loading:
            inputs = self._preparation.register_inputs(flow)
            with with_confs(context.session, flow.flow.spark_conf):
                frame = on_clone(self._preparation.frame(flow), context.work_group(flow.name))
        self._started()
        record, stored = with_delivery(context, flow, record), record
        if record != stored:
            context.fence()
            write_record(context.state.record_file(flow), record)
        target: BatchWriter | None = deliveries(context, flow, record, self._attempt, once=True)
        target = target or self._targets.table(flow, record, replaces=replaces)
        state = table_state(context.table_path(flow.target))
        target.write(frame, state.version + 1 if replaces and state else 0)
        written = table_state(context.table_path(flow.target))
        done = replace(
            record,
            fingerprint=flow.analysis.fingerprint,
            started_at=began_at,
            inputs=inputs,
            resetting=False,
            target_id=written.table_id if written else "",
            left=context.state.stores(flow).left(),
        )
        context.fence()
        write_record(context.state.record_file(flow), done)
        self.progressed = True
        return Completed(flow.name)

    def _snapshots(self, flow: ResolvedFlow) -> Report:
        """A flow that compares each snapshot with what is there."""
        context = self._context
        with self._preparation.loading:
            inputs = self._preparation.register_inputs(flow)
        self._started()
        record = context.state.progress_of(flow)
        target, comparing = self._targets.comparing(flow, record)
        group = context.work_group(flow.name)
        stopping = lambda: self._patience_s() is not None  # noqa: E731 - one question
        taking = SnapshotFlowExecution(context, self._preparation, flow, target, comparing, group, stopping)
        try:
            report = taking.run(record, inputs)
        finally:
            self.progressed = target.batches > 0
        if target.batches:
            self._tidy()
        return report

    def _stream(self, flow: ResolvedFlow) -> Report:
        context = self._context
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
        delivers = dataset.kind is Kind.SINK
        merges = flow.mode in (Mode.COMPLETE, Mode.MERGE)
        own_sink = not delivers and (merges or self._needs_own_sink(dataset, checkpoint, record))
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
        real_time = self._trigger.kind is TriggerKind.REAL_TIME
        told = check_topics(context, flow, sources, checkpoint)
        if real_time:
            check_real_time(context, flow, sources)
        trigger = self._trigger_after(read_progress(checkpoint), checkpoint, sources)
        repeats = broken_off or _is_unfinished(checkpoint)
        taker: SinkWriter | TableWriter | None = None
        if delivers:
            taker = resumed(
                context,
                flow,
                record,
                self._attempt,
                loading=self._preparation.loading,
                stopping=lambda: self._patience_s() is not None,
                by_spark=real_time,
                delivered_before=delivered_before,
            )
        elif own_sink:
            taker = self._targets.table(flow, record, replaces=flow.mode is Mode.COMPLETE, repeats=repeats)
        writer = sparing(context, flow, record, taker)
        target = None if writer is None else Calls(writer)
        with self._preparation.loading, with_confs(context.session, confs):
            query = start_query(context, flow, frame, trigger, checkpoint, target)
        self._started()
        tell = self._teller(query, sources, told, beside, began_at)
        try:
            return self._followed(query, record, target, began_at, tell)
        except Exception as error:
            # What failed is to be told, and not that nothing can be told of it.
            with suppress(Exception):
                tell(last=True)
            explain_failure(context, flow, sources, checkpoint, error)
            raise

    def _teller(
        self,
        query: StreamingQuery,
        sources: tuple[TopicSource, ...],
        told: Mapping[int, Told],
        beside: StaticInputs,
        began_at: float,
    ) -> ReportProgress:
        """What says how a running query gets on, and what it does without."""
        context, flow, kind = self._context, self._flow, self._trigger.kind
        # In real time the newest offsets that Spark knows are older than what was read.
        reads_topics = bool(sources) and kind is not TriggerKind.REAL_TIME
        lag = LagReporter(context, flow, query, reads_topics=reads_topics)
        changes = ChangedFiles(context, flow, query, began_at)
        losses = LossReporter(context, flow, query, sources, told)
        state = StateReporter(context, flow, query)
        listings = FolderListings(query, beside.listed_every_s or float("inf"), context.now)

        def tell(*, last: bool = False) -> None:
            lag.tell(last=last)
            changes.tell(last=last)
            losses.tell()
            state.tell(last=last)
            listings.look()
            if kind.goes_on and not last:
                self._looks()

        return tell

    def _opening(self, record: FlowRecord, checkpoint: Path) -> FlowRecord:
        """The record with what a checkpoint is opened with, and a new one is made with."""
        if not record.confs:
            # A checkpoint that is there without a record was not made here, and opens with what it was made with.
            own = self._flow.flow.spark_conf
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

    def _followed(
        self, query: StreamingQuery, record: FlowRecord, target: Calls | None, began_at: float, tell: ReportProgress
    ) -> Report:
        """Count what a running query commits, and record where it ended."""
        context, flow = self._context, self._flow
        counter = _counter(context, flow, record, query) if target is None else None
        look = _Look(context, flow, record, target, counter, self._tidy, tell)
        ends = goes_by_clock(flow) and not self._trigger.kind.goes_on
        watch = QueryMonitor(
            query,
            look=look,
            current=self._current,
            patience_s=self._patience_of_query,
            now=context.now,
            drains_behind=self._repeated if ends else None,
        )
        try:
            end = watch.until_end()
        except Exception as error:
            self.progressed = _batches(target, counter) > 0
            if counter is not None:
                counter.count()
            if target is not None and target.error is not None:
                raise target.error from error
            raise
        tell(last=True)
        counted_version = record.counted_version
        checkpoint = context.state.checkpoint(flow, record.epoch)
        if counter is not None:
            context.at(Failpoint.WRITTEN)
            counter.count()
            context.at(Failpoint.COUNTED)
            counted_version = counter.counted_version
        if end is End.WITHIN_BATCH and self._trigger.kind is not TriggerKind.REAL_TIME:
            return Canceled(flow.name)
        done = replace(
            record,
            fingerprint=flow.analysis.fingerprint,
            sources=tuple(source.digest for source in flow.analysis.sources),
            started_at=began_at,
            counted_version=counted_version,
            running=end is End.WITHIN_BATCH or (end is End.DRAINED and _is_unfinished(checkpoint)),
            made_with=flow.made_with,
            left=context.state.stores(flow).left(),
        )
        context.fence()
        write_record(context.state.record_file(flow), done)
        if _batches(target, counter):
            self._tidy()
        # A stream without end has done all that it should whenever it is stopped; another may have left input unread.
        whole = end in (End.BY_ITSELF, End.DRAINED) or self._trigger.kind.goes_on
        return Completed(flow.name) if whole else Canceled(flow.name)

    def _patience_of_query(self) -> float | None:
        """None in real time until the query is to end: what it sends meanwhile comes again."""
        patience_s = self._patience_s()
        return patience_s if patience_s is None or self._trigger.kind is not TriggerKind.REAL_TIME else 0.0

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


class _Look:
    """What is done at each look at a query that runs."""

    def __init__(
        self,
        context: UpdateContext,
        flow: ResolvedFlow,
        record: FlowRecord,
        target: Calls | None,
        counter: Counter | None,
        tidy: Callable[[], None],
        tell: ReportProgress,
    ) -> None:
        self._context = context
        self._flow = flow
        self._tell = tell
        self._record = record
        self._target = target
        self._counter = counter
        self._stored_at = context.now()
        self._tidied_at = 0
        self._tidy = tidy

    def __call__(self) -> None:
        """Count; now and then store how far, so that a crash after weeks leaves little to count again, and tidy up."""
        self._tell()
        done = _batches(self._target, self._counter)
        if done - self._tidied_at >= COMPACT_ABOVE_FILES:
            self._tidied_at = done
            self._tidy()
        if self._counter is None:
            return
        self._counter.count()
        counted_version = self._counter.counted_version
        if counted_version > self._record.counted_version and self._context.now() - self._stored_at > _STORE_EVERY_S:
            self._record = replace(self._record, counted_version=counted_version)
            self._context.fence()
            write_record(self._context.state.record_file(self._flow), self._record)
            self._stored_at = self._context.now()


def _is_unfinished(checkpoint: Path) -> bool:
    """Whether the batch that a query goes on with is one that was begun before."""
    progress = read_progress(checkpoint)
    return progress is not None and not progress.completed


def _counter(context: UpdateContext, flow: ResolvedFlow, record: FlowRecord, query: StreamingQuery) -> Counter:
    if context.graph.by_name[flow.target].kind is Kind.SINK:
        return ProgressCounter(context, flow, record.epoch, query)
    return CommitCounter(context, flow, record.epoch, str(query.id), record.counted_version, query)


def _batches(target: Calls | None, counter: Counter | None) -> int:
    return (target.batches if target is not None else 0) + (counter.batches if counter is not None else 0)
