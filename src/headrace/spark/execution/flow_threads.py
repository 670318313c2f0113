"""Runs the flows of an update, each in its own thread. Implements the runtime's port with Spark."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Sequence

from headrace.plan.steps import FlowStep, TableStep
from headrace.runtime.ports import Report
from headrace.spark.execution.attempt import Attempt, Signals
from headrace.spark.jvm.callback_connections import close_idle_connections
from headrace.spark.monitoring.task_reporter import TaskReporter
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.tables.compaction import Compaction, cancel_group
from headrace.spark.update.context import UpdateContext

# How long the end of an update waits for a flow that was asked to stop.
_CLOSE_TIMEOUT_S = 15.0
# Maximum time between the report of a flow's end and the end of its work.
_END_TIMEOUT_S = 0.5


class ThreadedFlows:
    """Implements the runtime's FlowStarter port. :meth:`request_stop` may be called from a signal handler."""

    def __init__(self, context: UpdateContext) -> None:
        self._context = context
        self._reports: queue.SimpleQueue[Report | None] = queue.SimpleQueue()
        self._preparation = Preparation(context)
        self._compaction = Compaction(context)
        self._tasks = TaskReporter(context)
        self._stop_requested = threading.Event()
        self._stop = threading.Event()
        self._abandoned = threading.Event()
        self._threads: dict[str, threading.Thread] = {}
        self._ended: dict[str, threading.Event] = {}
        # Limits views only: streams of a continuous update wait for input most of the time.
        self._slots = threading.Semaphore(context.max_parallel_flows)

    def announce(self, tables: Iterable[TableStep]) -> None:
        """Announce the tables to reset. Called once, before any flow starts."""
        self._preparation.announce(tables)

    def start(self, step: FlowStep, table: TableStep | None, attempt: int) -> None:
        """Start a flow in its own thread."""
        ended = threading.Event()
        running = Attempt(
            self._context,
            self._preparation,
            step,
            table,
            attempt,
            report=self._reports.put,
            compact=self._compaction.request,
            watch_jobs=self._tasks.watch,
            signals=Signals(self._stop, self._slots, self._stop_timeout_s),
        )

        def run() -> None:
            running.run()
            # The thread takes a while to end, because py4j closes its connection.
            ended.set()
            close_idle_connections(self._context.session)

        thread = threading.Thread(target=run, name=f"flow {step.flow.name} #{attempt}", daemon=True)
        self._threads[step.flow.name], self._ended[step.flow.name] = thread, ended
        thread.start()

    def wait(self, timeout_s: float | None) -> Sequence[Report]:
        """Reports since the last call. Blocks until there is one, the timeout ends, or a stop is requested."""
        found: list[Report] = []
        try:
            first = self._reports.get(timeout=timeout_s)
            found += [first] if first is not None else []
            while True:
                more = self._reports.get_nowait()
                found += [more] if more is not None else []
        except queue.Empty:
            return found

    def request_stop(self) -> None:
        """Request that the update ends early. Wakes up :meth:`wait`."""
        self._stop_requested.set()
        self._reports.put(None)

    def abandon(self) -> None:
        """Stop at once, without a timeout: another update has taken over."""
        self._abandoned.set()
        self._stop.set()
        self._compaction.cancel()
        self.request_stop()

    def stop_now(self) -> None:
        """Stop at once, without a timeout, and interrupt flows of one batch: the user has requested a stop twice."""
        self.abandon()
        self._interrupt()

    @property
    def is_stopping(self) -> bool:
        """True once a stop was requested."""
        return self._stop_requested.is_set()

    def stop(self) -> None:
        """Let running batches end within the stop timeout, then interrupt them."""
        self._stop.set()
        self._compaction.cancel()
        # Streams check the timeout themselves; flows of one batch must be interrupted from outside.
        timer = threading.Timer(self._stop_timeout_s() or 0.0, self._interrupt)
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """Stop everything that still runs. Called at the end of an update, however it ended."""
        self._tasks.close()
        # Flows first: a running flow may request compaction, and must not continue while this waits for compaction.
        if not self._all_ended():
            self.abandon()
            self._interrupt()
            for thread in self._threads.values():
                thread.join(_CLOSE_TIMEOUT_S)
        self._compaction.close(self._stop_requested.is_set)
        # The last flows used their connections since the last call.
        for _ in range(2):
            close_idle_connections(self._context.session)

    def _all_ended(self) -> bool:
        """Whether all flows have ended. A flow ends shortly after the report of its end."""
        deadline = time.monotonic() + _END_TIMEOUT_S
        return all(ended.wait(max(deadline - time.monotonic(), 0.0)) for ended in self._ended.values())

    def _interrupt(self) -> None:
        for flow, thread in self._threads.items():
            if thread.is_alive():
                cancel_group(self._context, self._context.work_group(flow))

    def _stop_timeout_s(self) -> float | None:
        """How long a running batch may still take; None until a stop is requested."""
        if self._abandoned.is_set():
            return 0.0
        return self._context.stop_timeout_s if self._stop.is_set() else None
