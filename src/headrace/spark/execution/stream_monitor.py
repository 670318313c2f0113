"""Monitors a running stream: reports, compacts, and records where it ended."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.streaming.query import StreamingQuery

from headrace.checkpoints.offsets import read_progress
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.triggers import Trigger, TriggerKind
from headrace.runtime.failpoints import Failpoint
from headrace.runtime.ports import Canceled, Completed, Report
from headrace.spark.execution.attempt_hooks import Hooks
from headrace.spark.execution.stream_reports import StreamReports
from headrace.spark.monitoring.query_monitor import End, QueryMonitor
from headrace.spark.sinks.progress_counter import ProgressCounter
from headrace.spark.tables.compaction import COMPACT_ABOVE_FILES
from headrace.spark.update.batch_writer import BatchFunction
from headrace.spark.update.context import UpdateContext
from headrace.storage.change_detection import uses_clock_timers
from headrace.storage.flow_record import FlowRecord, write_record
from headrace.stores.paths import StoragePath


class StreamMonitor:
    """Monitors one running query.

    Args:
        context: shared by the flows of the update.
        flow: whose query it is.
        query: the query.
        record: the flow's record when the query started.
        target: the ``foreachBatch`` function; None if Spark writes the batches itself.
        trigger: when the query looks for new input.
        reports: its reports.
        hooks: reports to the attempt.
    """

    def __init__(
        self,
        context: UpdateContext,
        flow: ResolvedFlow,
        query: StreamingQuery,
        record: FlowRecord,
        target: BatchFunction | None,
        trigger: Trigger,
        reports: StreamReports,
        hooks: Hooks,
    ) -> None:
        self._context = context
        self._flow = flow
        self._query = query
        self._record = record
        self._target = target
        self._trigger = trigger
        self._reports = reports
        self._hooks = hooks
        self._counter = ProgressCounter(context, flow, record.epoch, query) if target is None else None
        self._compacted_at = 0
        # Whether a batch was finished before the query failed.
        self.progressed = False

    def until_end(self, began_at: float, *, repeated: int) -> Report:
        """Monitor the query until it ends, and record where it ended.

        Args:
            began_at: when the attempt began, in seconds since 1970.
            repeated: the batch that is computed again, -1 for none.

        Raises:
            Exception: whatever made the query fail.
        """
        context, flow, record = self._context, self._flow, self._record
        target = self._target
        ends = uses_clock_timers(flow) and not self._trigger.kind.is_continuous
        monitor = QueryMonitor(
            self._query,
            poll=self._poll,
            on_current=self._hooks.on_current,
            stop_timeout_s=self._stop_timeout_s,
            now=context.reporting.now,
            drain_after_batch=repeated if ends else None,
        )
        try:
            end = monitor.until_end()
        except Exception as error:
            self._count()
            self.progressed = self._batches() > 0
            if target is not None and target.error is not None:
                raise target.error from error
            raise
        self._reports.report(last=True)
        if self._counter is not None:
            context.guard.failpoint(Failpoint.WRITTEN)
            self._count()
            context.guard.failpoint(Failpoint.COUNTED)
        checkpoint = context.state.checkpoint(flow, record.epoch)
        if end is End.WITHIN_BATCH and self._trigger.kind is not TriggerKind.REAL_TIME:
            return Canceled(flow.name)
        done = replace(
            record,
            fingerprint=flow.analysis.fingerprint,
            code=context.code_digest,
            sources=tuple(source.digest for source in flow.analysis.sources),
            started_at=began_at,
            running=end is End.WITHIN_BATCH or (end is End.DRAINED and is_unfinished(checkpoint)),
            state_signature=flow.state_signature,
            table_versions=context.state.stores(flow).table_versions(),
        )
        context.guard.fence()
        write_record(context.state.record_file(flow), done)
        if self._batches():
            self._hooks.compact()
        # A continuous stream is complete whenever it is stopped; another one may have unread input.
        is_complete = end in (End.BY_ITSELF, End.DRAINED) or self._trigger.kind.is_continuous
        return Completed(flow.name) if is_complete else Canceled(flow.name)

    def _stop_timeout_s(self) -> float | None:
        """None until a stop is requested. In real-time mode then 0: the next run sends the interrupted rows again."""
        timeout_s = self._hooks.stop_timeout_s()
        return timeout_s if timeout_s is None or self._trigger.kind is not TriggerKind.REAL_TIME else 0.0

    def _poll(self) -> None:
        """Report, count, and occasionally compact."""
        self._reports.report()
        done = self._batches()
        if done - self._compacted_at >= COMPACT_ABOVE_FILES:
            self._compacted_at = done
            self._hooks.compact()
        self._count()

    def _count(self) -> None:
        if self._counter is not None:
            self._counter.count()

    def _batches(self) -> int:
        counted = 0 if self._counter is None else self._counter.batches
        return counted + (0 if self._target is None else self._target.batches)


def is_unfinished(checkpoint: StoragePath) -> bool:
    """Whether the last batch of a checkpoint is planned but not completed."""
    progress = read_progress(checkpoint)
    return progress is not None and not progress.completed
