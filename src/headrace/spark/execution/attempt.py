"""One attempt of one flow, from preparation to its final report. Runs in its own thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from headrace.errors import PipelineError
from headrace.graph.resolved_flows import RefreshFlow, SnapshotFlow, StoredFlow, StreamingFlow
from headrace.model.names import QualifiedName
from headrace.model.triggers import TriggerKind
from headrace.plan.branches import start_over_command
from headrace.plan.steps import FlowStep, TableStep
from headrace.runtime.ports import Canceled, Completed, Current, Failed, Idle, NothingNew, Report, Started
from headrace.runtime.retry import retryable
from headrace.spark.errors.changed_sources import name_of, with_schema_change
from headrace.spark.errors.spark_errors import failure_report, full_text
from headrace.spark.execution.attempt_hooks import FlowExecution, Hooks
from headrace.spark.execution.batch_flow import BatchFlowExecution
from headrace.spark.execution.snapshot_flow import SnapshotFlowExecution
from headrace.spark.execution.stream_flow import StreamFlowExecution
from headrace.spark.expectations.freshness import FreshnessCheck
from headrace.spark.jvm.callback_connections import close_idle_connections
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.replay.backfill_run import BackfillRun
from headrace.spark.tables.writer_factory import WriterFactory
from headrace.spark.update.context import UpdateContext

# A view with a short interval does not keep a core busy with polling.
_MIN_POLL_INTERVAL_S = 0.5
_MAX_TRACES_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class Signals:
    """Signals to an attempt.

    Attributes:
        stop: set when the update should end.
        slots: limits how many views run at a time.
        stop_timeout_s: how long a running batch may still take; None until a stop is requested.
    """

    stop: threading.Event
    slots: threading.Semaphore
    stop_timeout_s: Callable[[], float | None]


class Attempt:
    """One attempt of a step.

    Args:
        context: shared by the flows of the update.
        preparation: prepares tables and inputs.
        step: the step to run.
        table: the step for the target, which runs first.
        attempt: its number within the update, from 1.
        report: receives every report, from this thread.
        compact: called with a table after many batches were written to it.
        watch_jobs: called with the flow and a group of Spark jobs that belong to it.
        signals: when to end early.
    """

    def __init__(
        self,
        context: UpdateContext,
        preparation: Preparation,
        step: FlowStep,
        table: TableStep | None,
        attempt: int,
        *,
        report: Callable[[Report], None],
        compact: Callable[[QualifiedName], None],
        watch_jobs: Callable[[StoredFlow, str], None],
        signals: Signals,
    ) -> None:
        self._context = context
        self._preparation = preparation
        self._step = step
        self._flow = step.flow
        self._table = table
        self._report = report
        self._signals = signals
        self._attempt = attempt
        self._progressed = False
        self._freshness = FreshnessCheck(context, step.flow)
        self._hooks = Hooks(
            on_start=lambda: report(Started(step.flow.name)),
            on_current=lambda: report(Current(step.flow.name)),
            stop_timeout_s=signals.stop_timeout_s,
            compact=lambda: compact(step.flow.target),
            on_poll=self._freshness.poll,
            watch_jobs=lambda group: watch_jobs(step.flow, group),
        )

    def run(self) -> None:
        """Run the step and always report its end; otherwise the update would wait forever."""
        try:
            self._report(self._execute())
        except BaseException as error:  # noqa: BLE001 - whatever a flow raises is that flow's failure
            self._report(self._failure(error))

    def _execute(self) -> Report:
        step, flow, context = self._step, self._flow, self._context
        if step.conditional:
            changes = context.state.detect_changes(context.graph, flow)
            if not changes.is_due:
                self._freshness.evaluate()
                return NothingNew(flow.name, changes.reason)
        self._preparation.prepare(flow, self._table)
        if step.backfill is not None:
            self._hooks.watch_jobs(context.work_group(flow.name))
            backfilled = self._backfill().complete(step.backfill)
            if not step.streams:
                return backfilled
        if step.restart is not None:
            self._preparation.restart(flow, step.restart)
        if step.trigger.kind is TriggerKind.INTERVAL and isinstance(flow, RefreshFlow | SnapshotFlow):
            return self._refresh_until_stopped(due=step.reset or self._table is not None)
        report = self._run()
        if isinstance(report, Completed) and not step.trigger.kind.is_continuous:
            self._freshness.evaluate()
        return report

    def _backfill(self) -> BackfillRun:
        writers = WriterFactory(self._context, self._attempt)
        return BackfillRun(self._context, self._preparation, self._flow, writers, self._attempt, self._hooks.on_start)

    def _run(self) -> Report:
        execution = self._execution()
        self._hooks.watch_jobs(self._context.work_group(self._flow.name))
        try:
            return execution.run()
        finally:
            self._progressed = self._progressed or execution.progressed

    def _execution(self) -> FlowExecution:
        context, preparation, flow, attempt = self._context, self._preparation, self._flow, self._attempt
        if isinstance(flow, StreamingFlow):
            return StreamFlowExecution(context, preparation, flow, self._step.trigger, attempt, self._hooks)
        if isinstance(flow, SnapshotFlow):
            return SnapshotFlowExecution(context, preparation, flow, attempt, self._hooks)
        full = self._step.reset and not self._progressed
        return BatchFlowExecution(context, preparation, flow, attempt, self._hooks, full=full)

    def _refresh_until_stopped(self, *, due: bool) -> Report:
        """Compute a view if it is *due*, then whenever its inputs have changed, until the update stops.

        A flow that calls a function for snapshots calls it at each poll.
        """
        flow, context, signals = self._flow, self._context, self._signals
        calls_function = isinstance(flow, SnapshotFlow) and flow.calls_function
        while not signals.stop.is_set():
            # The function may return other snapshots than when the flow was resolved.
            if due or calls_function or context.state.detect_changes(context.graph, flow).is_due:
                with signals.slots:
                    if signals.stop.is_set():
                        break
                    report = self._run()
                if isinstance(report, Failed):
                    return report
                due = False
                # Each computation may be a separate stream.
                close_idle_connections(context.session)
            self._report(Current(flow.name))
            self._report(Idle(flow.name))
            self._freshness.poll()
            signals.stop.wait(max(self._step.trigger.interval_s or 0.0, _MIN_POLL_INTERVAL_S))
        return Completed(flow.name)

    def _failure(self, error: BaseException) -> Report:
        flow, context, signals = self._flow, self._context, self._signals
        if signals.stop_timeout_s() == 0:
            return Canceled(flow.name)
        try:
            rules = context.graph.by_name[flow.target].dataset.expectations
            report = failure_report(
                flow.flow,
                error,
                context.root,
                rules,
                lambda path: name_of(path, context),
                lambda _flow: start_over_command(context.graph, flow),
            )
            report = with_schema_change(report, flow, context)
            if signals.stop.is_set() and retryable(report):
                # Interrupted work fails in many ways, all of them transient.
                return Canceled(flow.name)
            self._write_trace(error)
            return replace(self._redacted(report), progressed=self._progressed)
        except Exception:  # noqa: BLE001 - the JVM that would explain the error may have ended
            reason = context.reporting.redact(f"{type(error).__name__}: {error}")[:500]
            location = flow.flow.location
            lost = PipelineError("FLOW.FAILED", location=location, flow=flow.name, condition="no answer", reason=reason)
            return Failed(flow.name, lost)

    def _write_trace(self, error: BaseException) -> None:
        text = full_text(error)
        traces = self._context.reporting.traces
        with suppress(OSError):
            if traces.is_file() and traces.stat().st_size > _MAX_TRACES_BYTES:
                # The same failure may repeat for days; the event log has it too.
                return
            traces.parent.mkdir(parents=True, exist_ok=True)
            with traces.open("a", encoding="utf-8") as stream:
                stream.write(f"flow {self._flow.name}\n{self._context.reporting.redact(text)}\n")

    def _redacted(self, report: Failed) -> Failed:
        params = {key: self._context.reporting.redact(value) for key, value in report.error.params.items()}
        error = PipelineError(report.error.code, location=report.error.location, **params)
        return replace(report, error=error)
