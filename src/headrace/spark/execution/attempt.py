"""One attempt of one flow, from its preparation to what is reported of its end; runs in a thread of its own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

from headrace.errors import PipelineError
from headrace.graph.resolved import Mode
from headrace.model.names import QualifiedName
from headrace.model.triggers import TriggerKind
from headrace.plan.steps import FlowStep, TableStep
from headrace.runtime.ports import Canceled, Completed, Current, Failed, Idle, NothingNew, Report, Started
from headrace.runtime.retry import retryable
from headrace.spark.errors.changed_sources import name_of, with_schema_change
from headrace.spark.errors.spark_errors import failed, whole_text
from headrace.spark.execution.batch_flow import BatchFlowExecution
from headrace.spark.execution.hooks import FlowExecution, Hooks
from headrace.spark.execution.snapshot_flow import SnapshotFlowExecution
from headrace.spark.execution.stream_flow import StreamFlowExecution
from headrace.spark.expectations.freshness import Freshness
from headrace.spark.jvm.callback_connections import close_idle_connections
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.replay.backfill_run import LoadRun
from headrace.spark.tables.writer_factory import WriterFactory
from headrace.spark.update.context import UpdateContext

# However short its interval is, a view that has nothing to compute does not keep a core busy with looking.
_LOOK_AT_INPUTS_EVERY_S = 0.5
_LONGEST_TRACES_BYTES = 16 * 1024 * 1024


@dataclass(frozen=True)
class Signals:
    """What an attempt heeds: *stop* is set once the update is to end, *room* limits how many views work at a time.

    ``stop_timeout_s`` says how long a running batch may still take, None while nobody asked for a stop.
    """

    stop: threading.Event
    room: threading.Semaphore
    stop_timeout_s: Callable[[], float | None]


class Attempt:
    """One try of a step.

    Args:
        context: what the flows of the update share.
        preparation: prepares tables and inputs.
        step: what to do.
        table: what happens to the target first.
        attempt: the how manieth it is, from 1.
        report: gets every report, from this thread.
        compact: gets a table that many batches were written to.
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
        self._freshness = Freshness(context, step.flow)
        self._hooks = Hooks(
            started=lambda: report(Started(step.flow.name)),
            current=lambda: report(Current(step.flow.name)),
            stop_timeout_s=signals.stop_timeout_s,
            compact=lambda: compact(step.flow.target),
            polled=self._freshness.look,
        )

    def run(self) -> None:
        """Do the step and report its end, whatever that is, or the update would wait forever."""
        try:
            self._report(self._done())
        except BaseException as error:  # noqa: BLE001 - whatever a flow raises is that flow's failure
            self._report(self._ended_by(error))

    def _done(self) -> Report:
        step, flow, context = self._step, self._flow, self._context
        if step.conditional:
            news = context.state.news(context.graph, flow)
            if not news.started:
                self._freshness.judge()
                return NothingNew(flow.name, news.reason)
        self._preparation.prepare(flow, self._table)
        if step.load is not None:
            loaded = self._backfill().complete(step.load)
            if not step.streams:
                return loaded
        if step.restart is not None:
            self._preparation.restart(flow, step.restart)
        if step.trigger.kind is TriggerKind.INTERVAL and flow.mode in (Mode.REPLACE, Mode.SNAPSHOT):
            return self._keep_fresh(due=step.reset or self._table is not None)
        report = self._run()
        if isinstance(report, Completed) and not step.trigger.kind.goes_on:
            self._freshness.judge()
        return report

    def _backfill(self) -> LoadRun:
        writers = WriterFactory(self._context, self._attempt)
        return LoadRun(self._context, self._preparation, self._flow, writers, self._attempt, self._hooks.started)

    def _run(self) -> Report:
        execution = self._execution()
        try:
            return execution.run()
        finally:
            self._progressed = self._progressed or execution.progressed

    def _execution(self) -> FlowExecution:
        context, preparation, flow, attempt = self._context, self._preparation, self._flow, self._attempt
        if flow.mode.streams:
            return StreamFlowExecution(context, preparation, flow, self._step.trigger, attempt, self._hooks)
        if flow.mode is Mode.SNAPSHOT:
            return SnapshotFlowExecution(context, preparation, flow, attempt, self._hooks)
        return BatchFlowExecution(context, preparation, flow, attempt, self._hooks)

    def _keep_fresh(self, *, due: bool) -> Report:
        """Compute a view when it is *due*, then whenever its inputs have changed, until the update is stopped.

        A flow that asks a function for snapshots is asked again each time.
        """
        flow, context, signals = self._flow, self._context, self._signals
        while not signals.stop.is_set():
            # What a function would give now was not known when the flow was resolved.
            if due or flow.asks or context.state.news(context.graph, flow).started:
                with signals.room:
                    if signals.stop.is_set():
                        break
                    report = self._run()
                if isinstance(report, Failed):
                    return report
                due = False
                # Each computation may be a stream of its own.
                close_idle_connections(context.session)
            self._report(Current(flow.name))
            self._report(Idle(flow.name))
            self._freshness.look()
            signals.stop.wait(max(self._step.trigger.interval_s or 0.0, _LOOK_AT_INPUTS_EVERY_S))
        return Completed(flow.name)

    def _ended_by(self, error: BaseException) -> Report:
        flow, context, signals = self._flow, self._context, self._signals
        if signals.stop_timeout_s() == 0:
            return Canceled(flow.name)
        try:
            rules = context.graph.by_name[flow.target].dataset.expectations
            report = failed(flow.flow, error, context.root, rules, lambda path: name_of(path, context))
            report = with_schema_change(report, flow, context)
            if signals.stop.is_set() and retryable(report):
                # What was interrupted fails in many ways, and each of them may pass.
                return Canceled(flow.name)
            self._keep_trace(error)
            return replace(self._redacted(report), progressed=self._progressed)
        except Exception:  # noqa: BLE001 - the JVM that would explain the error may be gone
            reason = context.redact(f"{type(error).__name__}: {error}")[:500]
            place = flow.flow.location
            lost = PipelineError("FLOW.FAILED", location=place, flow=flow.name, condition="no answer", reason=reason)
            return Failed(flow.name, lost)

    def _keep_trace(self, error: BaseException) -> None:
        text = whole_text(error)
        traces = self._context.traces
        with suppress(OSError):
            if traces.is_file() and traces.stat().st_size > _LONGEST_TRACES_BYTES:
                # The same failure again and again, for days: the event log has it too.
                return
            traces.parent.mkdir(parents=True, exist_ok=True)
            with traces.open("a", encoding="utf-8") as stream:
                stream.write(f"flow {self._flow.name}\n{self._context.redact(text)}\n")

    def _redacted(self, report: Failed) -> Failed:
        params = {key: self._context.redact(value) for key, value in report.error.params.items()}
        error = PipelineError(report.error.code, location=report.error.location, **params)
        return replace(report, error=error)
