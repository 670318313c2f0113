"""Runs the flows of an update, each in a thread of its own: the Spark side of the runtime's port."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Sequence

from headrace.plan.steps import FlowStep, TableStep
from headrace.runtime.ports import Report
from headrace.spark.execution.attempt import Attempt, Signals
from headrace.spark.jvm.callback_connections import close_idle_connections
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.tables.compaction import Compaction, cancel_group
from headrace.spark.update.context import UpdateContext

# How long the end of an update waits for a flow that was told to stop.
_CLOSE_PATIENCE_S = 15.0
# Between the report of a flow's end and the end of its work.
_MOMENT_S = 0.5


class ThreadedFlows:
    """Fills the runtime's FlowStarter port. :meth:`ask_to_stop` may be called from a signal handler."""

    def __init__(self, context: UpdateContext) -> None:
        self._context = context
        self._reports: queue.SimpleQueue[Report | None] = queue.SimpleQueue()
        self._preparation = Preparation(context)
        self._maintenance = Compaction(context)
        self._stop_asked = threading.Event()
        self._stop = threading.Event()
        self._abandoned = threading.Event()
        self._threads: dict[str, threading.Thread] = {}
        self._ended: dict[str, threading.Event] = {}
        # Streams of a continuous update wait for input most of the time; views are work while they run.
        self._room = threading.Semaphore(context.max_parallel_flows)

    def announce(self, tables: Iterable[TableStep]) -> None:
        """Called once, before any flow begins: say which tables are to be reset."""
        self._preparation.announce(tables)

    def begin(self, step: FlowStep, table: TableStep | None, attempt: int) -> None:
        """Start a flow in a thread of its own."""
        ended = threading.Event()
        running = Attempt(
            self._context,
            self._preparation,
            step,
            table,
            attempt,
            report=self._reports.put,
            compact=self._maintenance.ask,
            signals=Signals(self._stop, self._room, self._stop_timeout_s),
        )

        def run() -> None:
            running.run()
            # The thread itself takes a while to end: py4j closes its connection then.
            ended.set()
            close_idle_connections(self._context.session)

        thread = threading.Thread(target=run, name=f"flow {step.flow.name} #{attempt}", daemon=True)
        self._threads[step.flow.name], self._ended[step.flow.name] = thread, ended
        thread.start()

    def wait(self, timeout_s: float | None) -> Sequence[Report]:
        """Reports since the last call; blocks until there is one, the time is up, or a stop is asked for."""
        found: list[Report] = []
        try:
            first = self._reports.get(timeout=timeout_s)
            found += [first] if first is not None else []
            while True:
                more = self._reports.get_nowait()
                found += [more] if more is not None else []
        except queue.Empty:
            return found

    def ask_to_stop(self) -> None:
        """Ask for the update to end early; wakes up :meth:`wait`."""
        self._stop_asked.set()
        self._reports.put(None)

    def abandon(self) -> None:
        """Stop at once, without grace: another update has taken over."""
        self._abandoned.set()
        self._stop.set()
        self._maintenance.break_off()
        self.ask_to_stop()

    def break_off(self) -> None:
        """Stop at once, without grace, and interrupt what is one batch as a whole: somebody has asked twice."""
        self.abandon()
        self._interrupt()

    @property
    def stopping(self) -> bool:
        """True once somebody asked for a stop."""
        return self._stop_asked.is_set()

    def stop(self) -> None:
        """Let running batches end within the grace time, interrupt the others."""
        self._stop.set()
        self._maintenance.break_off()
        # Streams look at the time themselves; what is one batch as a whole has to be interrupted from outside.
        timer = threading.Timer(self._stop_timeout_s() or 0.0, self._interrupt)
        timer.daemon = True
        timer.start()

    def close(self) -> None:
        """Leave nothing running: called when the update is over, however it ended."""
        # Flows first: one that still runs may ask for maintenance, and must not go on while that is waited for.
        if not self._all_ended():
            self.abandon()
            self._interrupt()
            for thread in self._threads.values():
                thread.join(_CLOSE_PATIENCE_S)
        self._maintenance.close(self._stop_asked.is_set)
        # Those of the flows that ended last were used since the last call.
        for _ in range(2):
            close_idle_connections(self._context.session)

    def _all_ended(self) -> bool:
        """Whether no flow runs any more; one whose end was reported takes a moment to say so."""
        deadline = time.monotonic() + _MOMENT_S
        return all(ended.wait(max(deadline - time.monotonic(), 0.0)) for ended in self._ended.values())

    def _interrupt(self) -> None:
        for flow, thread in self._threads.items():
            if thread.is_alive():
                cancel_group(self._context, self._context.work_group(flow))

    def _stop_timeout_s(self) -> float | None:
        """How long a running batch may still take; None while nobody asked for a stop."""
        if self._abandoned.is_set():
            return 0.0
        return self._context.stop_timeout_s if self._stop.is_set() else None
