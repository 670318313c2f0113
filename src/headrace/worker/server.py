"""The loop of the worker: forks a process for each verb, one after the other, and keeps the JVM between them.

It has one thread and never waits for anything but the next event, so that it may fork at any time. It opens no session
and reads no file of the project.
"""

from __future__ import annotations

import gc
import os
import selectors
import signal
import socket
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from headrace.worker.frames import close_all, receive, send
from headrace.worker.kept_jvm import JvmKeeper
from headrace.worker.lending import KeptJvm, Lender
from headrace.worker.modules import ImportedCode
from headrace.worker.reception import MESSAGE_TIMEOUT_S, Reception
from headrace.worker.verb_process import FOR_VERBS, VerbProcess, VerbRequest

_POLL_S = 1.0
_SIGNALS = 64


@dataclass
class Running:
    """The verb that has the JVM."""

    pid: int
    process: int
    channel: socket.socket
    # None once the caller is gone, and for a verb that only warms up.
    caller: socket.socket | None
    is_warm_up: bool
    started_at: float = field(default_factory=time.time)
    # Whether the JVM has something of the verb in it.
    is_using: bool = False
    # Its caller hears of its end before the process has ended, and may send the next verb at once.
    is_ending: bool = False


class Worker:
    """The worker of one project."""

    def __init__(
        self,
        listener: socket.socket,
        traits: Mapping[str, Any],
        warm_ups: Sequence[Callable[[], VerbRequest]],
        idle_s: float,
        code: ImportedCode,
        owner: int | None = None,
    ) -> None:
        self._warm_ups = tuple(warm_ups)
        self._idle_s = idle_s
        self._events = selectors.DefaultSelector()
        self._jvm = JvmKeeper(self._events)
        self._reception = Reception(listener, self._events, traits, code)
        self._running: Running | None = None
        self._due = deque(self._warm_ups)
        self._verbs = 0
        self._active_at = time.monotonic()
        if owner is not None:
            self._reception.end_with(owner)

    @property
    def is_outdated(self) -> bool:
        """Whether the code that it has imported has changed, so that it is to start again."""
        return self._reception.is_outdated

    def serve(self) -> VerbProcess | None:
        """Serve until the worker is stopped or idle for long; in a forked process, returns what it is to run."""
        self._receive_signals()
        self._reception.listen(self._status, self._stop_verb)
        while not self._is_over():
            if (forked := self._start_next()) is not None:
                return forked
            # Who connects now may know more of the verb than this process: what the verb has sent comes first.
            events = [key for key, _mask in self._events.select(self._jvm.timeout_s(_POLL_S))]
            for key in sorted(
                events, key=lambda key: self._running is None or key.fileobj is not self._running.channel
            ):
                # An event may have closed what another one of the same moment is about, and opened something new.
                if self._events.get_map().get(key.fd) is key:
                    key.data()
            self._jvm.kill_late()
        return None

    def close(self) -> None:
        """End the JVM, and wait for it."""
        self._jvm.end()
        self._jvm.wait()

    def _is_over(self) -> bool:
        if self._running is not None or self._reception.queue:
            return False
        return self._reception.is_closed or time.monotonic() - self._active_at > self._idle_s

    def _start_next(self) -> VerbProcess | None:
        if self._running is not None:
            return None
        if self._reception.queue:
            waiting = self._reception.next()
            return self._fork(waiting.request, waiting.connection)
        if self._due and not self._reception.is_closed:
            return self._fork(self._due.popleft()(), None)
        return None

    def _fork(self, request: VerbRequest, caller: socket.socket | None) -> VerbProcess | None:
        ours, theirs = socket.socketpair()
        gc.freeze()
        self._jvm.pause()
        # Until the fork has handlers of its own, a signal for the verb would be taken for one for the worker.
        signal.pthread_sigmask(signal.SIG_BLOCK, FOR_VERBS)
        pid = os.fork()
        if pid == 0:
            ours.close()
            return self._forked(request, caller, theirs)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, FOR_VERBS)
        theirs.close()
        close_all(request.files)
        ours.settimeout(MESSAGE_TIMEOUT_S)
        process = os.pidfd_open(pid)
        self._running = Running(pid, process, ours, caller, caller is None)
        self._events.register(process, selectors.EVENT_READ, self._ended)
        self._events.register(ours, selectors.EVENT_READ, self._hear)
        if caller is not None:
            self._verbs += 1
            self._events.register(caller, selectors.EVENT_READ, self._caller_gone)
            with suppress(OSError):
                send(caller, {"started": pid})
        return None

    def _forked(self, request: VerbRequest, caller: socket.socket | None, channel: socket.socket) -> VerbProcess:
        """Close what only the worker needs; the JVM's files stay, for the verb may need them longer than the worker."""
        os.close(signal.set_wakeup_fd(-1))
        self._reception.close_in_fork()
        for key in tuple(self._events.get_map().values()):
            if isinstance(key.fileobj, int):
                os.close(key.fileobj)
            else:
                key.fileobj.close()  # type: ignore[attr-defined]  # all others are sockets
        self._jvm.close_process()
        # Closed, and nothing in it unregistered: the worker shares it.
        self._events.close()
        return VerbProcess(request, Lender(self._jvm.jvm, channel), caller)

    def _hear(self) -> None:
        running = self._required()
        try:
            message, files = receive(running.channel)
        except OSError:
            message, files = None, []
        if message is None:
            self._events.unregister(running.channel)
            return
        if "jvm" in message:
            self._jvm.keep(KeptJvm.of(message["jvm"], *files))
        if "using" in message:
            running.is_using = bool(message["using"])
        if "end" in message:
            self._jvm.end()
        running.is_ending |= "ending" in message

    def _caller_gone(self) -> None:
        """The caller was killed, and its verb with it."""
        running = self._required()
        if running.caller is not None:
            self._events.unregister(running.caller)
            running.caller.close()
            running.caller = None
        signal.pidfd_send_signal(running.process, signal.SIGKILL)

    def _ended(self) -> None:
        running = self._required()
        _pid, status = os.waitpid(running.pid, 0)
        # What it said at last.
        running.channel.settimeout(0.0)
        while running.channel in self._events.get_map():
            self._hear()
        running.channel.close()
        self._events.unregister(running.process)
        os.close(running.process)
        if running.caller is not None:
            self._events.unregister(running.caller)
            killed = os.WIFSIGNALED(status)
            with suppress(OSError):
                send(running.caller, {"signal": os.WTERMSIG(status)} if killed else {"ended": os.WEXITSTATUS(status)})
            running.caller.close()
        self._running = None
        self._active_at = time.monotonic()
        if running.is_using:
            self._jvm.end()
            # A JVM that a failing warm-up leaves behind would fail again.
            self._due = deque(() if running.is_warm_up else self._warm_ups)

        def jvm_ended() -> None:
            self._due = deque(self._warm_ups)

        self._jvm.resume(jvm_ended)

    def _required(self) -> Running:
        if self._running is None:
            raise RuntimeError("no verb is running")
        return self._running

    def _stop_verb(self) -> None:
        if self._running is not None:
            signal.pidfd_send_signal(self._running.process, signal.SIGTERM)

    def _status(self) -> dict[str, Any]:
        running = self._running
        verb = running if running is not None and not running.is_warm_up and not running.is_ending else None
        is_warming_up = bool(self._due) if running is None else running.is_warm_up
        state = "busy" if verb is not None else "warming up" if is_warming_up else "idle"
        return {
            "pid": os.getpid(),
            "state": "stopping" if self._reception.is_closed else state,
            "verb_pid": None if verb is None else verb.pid,
            "started_at": None if verb is None else verb.started_at,
            "waiting": len(self._reception.queue),
            "verbs": self._verbs,
            "jvm_pid": None if self._jvm.jvm is None else self._jvm.jvm.pid,
            "ends_after_idle_s": self._idle_s,
        }

    def _receive_signals(self) -> None:
        """Stop as a verb does that is signalled: the running one may end its batches."""
        ours, theirs = socket.socketpair()
        ours.settimeout(0.0)
        theirs.settimeout(0.0)
        signal.set_wakeup_fd(theirs.detach(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)

        def signalled() -> None:
            ours.recv(_SIGNALS)
            self._reception.is_stopping = True
            self._stop_verb()

        self._events.register(ours, selectors.EVENT_READ, signalled)
