"""The JVM that the worker keeps: drains what it prints between verbs, and ends it."""

from __future__ import annotations

import os
import selectors
import signal
import time
from collections.abc import Callable
from contextlib import suppress

from headrace.worker.lending import KeptJvm

# A JVM whose input is closed stops Spark and exits; one that hangs is killed.
_EXIT_TIMEOUT_S = 10.0
_CHUNK = 1 << 16


class JvmKeeper:
    """Holds at most one JVM, and waits for those that are ending."""

    def __init__(self, events: selectors.BaseSelector) -> None:
        self._events = events
        self.jvm: KeptJvm | None = None
        self._process: int | None = None
        # Processes that are ending, by their files, with their ids and the time at which they are killed.
        self._late: dict[int, tuple[int, float]] = {}

    def keep(self, jvm: KeptJvm) -> None:
        """Keep a JVM; one that was kept before ends."""
        self.end()
        try:
            self._process = os.pidfd_open(jvm.pid)
        except OSError:
            os.close(jvm.stdin)
            os.close(jvm.output)
            return
        self.jvm = jvm

    def end(self) -> None:
        """End the JVM: closing its input makes it exit."""
        jvm, process = self.jvm, self._process
        if jvm is None or process is None:
            return
        self.pause()
        self.jvm = self._process = None
        os.close(jvm.stdin)
        os.close(jvm.output)
        self._late[process] = jvm.pid, time.monotonic() + _EXIT_TIMEOUT_S
        self._events.register(process, selectors.EVENT_READ, lambda: self._forget(process))

    def pause(self) -> None:
        """Leave the JVM's output, and the news of its end, to a verb."""
        if self.jvm is not None and self.jvm.output in self._events.get_map():
            self._events.unregister(self.jvm.output)
        if self._process is not None and self._process in self._events.get_map():
            self._events.unregister(self._process)

    def resume(self, ended: Callable[[], None]) -> None:
        """Read what the JVM prints while no verb does, and call *ended* if it ends by itself.

        Its last lines may contain secrets of the last verb, which are not known here, so that nothing is kept of them.
        """
        if self.jvm is None or self._process is None:
            return
        output = self.jvm.output
        self._events.register(output, selectors.EVENT_READ, lambda: self._drain(output))

        def exited() -> None:
            self.end()
            ended()

        self._events.register(self._process, selectors.EVENT_READ, exited)

    def timeout_s(self, longest_s: float) -> float:
        """How long the worker may wait for an event."""
        if not self._late:
            return longest_s
        return max(min(longest_s, min(at for _pid, at in self._late.values()) - time.monotonic()), 0.0)

    def kill_late(self) -> None:
        """Kill what should have exited by now."""
        for process, (pid, at) in self._late.items():
            if time.monotonic() >= at:
                with suppress(ProcessLookupError):
                    signal.pidfd_send_signal(process, signal.SIGKILL)
                self._late[process] = pid, time.monotonic() + _EXIT_TIMEOUT_S

    def close_process(self) -> None:
        """Close what a forked process does not need."""
        if self._process is not None:
            os.close(self._process)
            self._process = None

    def wait(self) -> None:
        """Wait for everything that is ending."""
        while self._late:
            for key, _mask in self._events.select(self.timeout_s(1.0)):
                if key.fileobj in self._late:
                    key.data()
            self.kill_late()

    def _forget(self, process: int) -> None:
        self._events.unregister(process)
        pid, _at = self._late.pop(process)
        os.close(process)
        # It is the child of a verb that has ended: of this process, if that is the first one of a container.
        with suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)

    def _drain(self, output: int) -> None:
        if not os.read(output, _CHUNK):
            # It has closed its output; its end is an event of its own.
            self._events.unregister(output)
