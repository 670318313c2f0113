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
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from headrace.worker.frames import close_all, receive, send
from headrace.worker.kept_jvm import JvmKeeper
from headrace.worker.lending import KeptJvm, Lender
from headrace.worker.modules import ImportedCode
from headrace.worker.place import UnsafePlace, check_peer
from headrace.worker.traits import differences
from headrace.worker.verb_process import VerbProcess, VerbRequest

_BACKLOG = 64
# A message of a process of this user arrives at once, unless the process was stopped in the middle of it.
_MESSAGE_TIMEOUT_S = 5.0
_POLL_S = 1.0


@dataclass
class Waiting:
    """A caller whose verb has not started."""

    connection: socket.socket
    request: VerbRequest


@dataclass
class Running:
    """The verb that has the JVM."""

    pid: int
    process: int
    channel: socket.socket
    request: VerbRequest
    # None once the caller is gone, and for a verb that only warms up.
    caller: socket.socket | None
    is_warm_up: bool
    started_at: float = field(default_factory=time.time)
    # Whether the JVM has something of the verb in it.
    is_using: bool = False


class Worker:
    """The worker of one project."""

    def __init__(
        self,
        listener: socket.socket,
        traits: Mapping[str, Any],
        warm_up: Callable[[], VerbRequest],
        idle_s: float,
        code: ImportedCode,
    ) -> None:
        self._listener = listener
        self._traits = traits
        self._warm_up = warm_up
        self._idle_s = idle_s
        self._code = code
        self._events = selectors.DefaultSelector()
        self._jvm = JvmKeeper(self._events)
        self._running: Running | None = None
        self._queue: deque[Waiting] = deque()
        self._stoppers: list[socket.socket] = []
        self._is_stopping = False
        # Whether the imported code has changed, so that the worker starts again.
        self.is_outdated = False
        self._needs_warm_up = True
        self._verbs = 0
        self._active_at = time.monotonic()

    def serve(self) -> VerbProcess | None:
        """Serve until the worker is stopped or idle for long; in a forked process, returns what it is to run."""
        signals = self._receive_signals()
        self._listener.settimeout(0.0)
        self._events.register(self._listener, selectors.EVENT_READ, self._accept)
        self._events.register(signals, selectors.EVENT_READ, lambda: self._signalled(signals))
        while not self._is_over():
            if (forked := self._start_next()) is not None:
                return forked
            for key, _mask in self._events.select(self._jvm.timeout_s(_POLL_S)):
                key.data()
            self._jvm.kill_late()
        return None

    def close(self) -> None:
        """End the JVM, and wait for it."""
        self._jvm.end()
        self._jvm.wait()

    def _is_over(self) -> bool:
        if self._running is not None:
            return False
        if self._is_stopping or self.is_outdated:
            return not self._queue
        return not self._queue and time.monotonic() - self._active_at > self._idle_s

    def _start_next(self) -> VerbProcess | None:
        if self._running is not None:
            return None
        if self._queue:
            waiting = self._queue.popleft()
            self._events.unregister(waiting.connection)
            return self._fork(waiting.request, waiting.connection)
        if self._needs_warm_up and not self._is_stopping and not self.is_outdated:
            self._needs_warm_up = False
            return self._fork(self._warm_up(), None)
        return None

    def _fork(self, request: VerbRequest, caller: socket.socket | None) -> VerbProcess | None:
        ours, theirs = socket.socketpair()
        gc.freeze()
        self._jvm.pause()
        pid = os.fork()
        if pid == 0:
            ours.close()
            return self._forked(request, caller, theirs)
        theirs.close()
        close_all(request.files)
        ours.settimeout(_MESSAGE_TIMEOUT_S)
        process = os.pidfd_open(pid)
        self._running = Running(pid, process, ours, request, caller, caller is None)
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
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        kept = self._jvm.jvm
        files = {kept.stdin, kept.output} if kept else set()
        for key in tuple(self._events.get_map().values()):
            if key.fileobj is not caller and key.fd not in files:
                _close(key.fileobj)
        for waiting in self._queue:
            close_all(waiting.request.files)
        for stopper in self._stoppers:
            stopper.close()
        self._jvm.close_process()
        # Closed, and nothing in it unregistered: the worker shares it.
        self._events.close()
        return VerbProcess(request, Lender(kept, channel), caller)

    def _accept(self) -> None:
        try:
            connection, _address = self._listener.accept()
        except OSError:
            return
        try:
            check_peer(connection)
        except (UnsafePlace, OSError):
            connection.close()
            return
        connection.settimeout(_MESSAGE_TIMEOUT_S)
        try:
            message, files = receive(connection)
        except OSError:
            connection.close()
            return
        try:
            self._answer(connection, message or {}, files)
        except (OSError, KeyError, TypeError, ValueError, AttributeError):
            close_all(files)
            connection.close()

    def _answer(self, connection: socket.socket, message: Mapping[str, Any], files: list[int]) -> None:
        match message.get("ask"):
            case "verb":
                self._take(connection, message, files)
            case "status":
                send(connection, self._status())
                connection.close()
            case "stop":
                self._is_stopping = True
                if message.get("now") and self._running is not None:
                    signal.pidfd_send_signal(self._running.process, signal.SIGTERM)
                # It is closed when the worker ends.
                self._stoppers.append(connection)
            case _:
                raise ValueError("unknown request")

    def _take(self, connection: socket.socket, message: Mapping[str, Any], files: list[int]) -> None:
        refusal = self._refusal(message)
        if refusal is not None:
            send(connection, refusal)
            close_all(files)
            connection.close()
            return
        waiting = Waiting(connection, VerbRequest.of(message, files))
        self._active_at = time.monotonic()
        self._queue.append(waiting)
        self._events.register(connection, selectors.EVENT_READ, lambda: self._leave(waiting))

    def _refusal(self, message: Mapping[str, Any]) -> dict[str, Any] | None:
        if self._is_stopping or self.is_outdated:
            return {"refused": "stopping", "reason": "the worker is stopping"}
        differing = differences(self._traits, message["traits"])
        if differing:
            return {"refused": "differs", "reason": f"different from the worker: {', '.join(differing)}"}
        changed = self._code.changed()
        if changed is not None:
            self.is_outdated = True
            return {"refused": "outdated", "reason": f"{changed} has changed since the worker started"}
        running = self._running
        is_busy = (running is not None and not running.is_warm_up) or bool(self._queue)
        if is_busy and not message.get("wait"):
            return {"refused": "busy", **self._status()}
        return None

    def _leave(self, waiting: Waiting) -> None:
        self._events.unregister(waiting.connection)
        self._queue.remove(waiting)
        close_all(waiting.request.files)
        waiting.connection.close()

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
            self._needs_warm_up = not running.is_warm_up
        self._jvm.resume(self._jvm_ended)

    def _jvm_ended(self) -> None:
        self._needs_warm_up = True

    def _required(self) -> Running:
        if self._running is None:
            raise RuntimeError("no verb is running")
        return self._running

    def _status(self) -> dict[str, Any]:
        running = self._running
        state = "stopping" if self._is_stopping else "idle"
        if running is not None:
            state = "warming up" if running.is_warm_up else "busy"
        return {
            "pid": os.getpid(),
            "state": state,
            "verb_pid": running.pid if running and not running.is_warm_up else None,
            "started_at": running.started_at if running and not running.is_warm_up else None,
            "waiting": len(self._queue),
            "verbs": self._verbs,
            "jvm_pid": self._jvm.jvm.pid if self._jvm.jvm else None,
            "ends_after_idle_s": self._idle_s,
        }

    def _receive_signals(self) -> socket.socket:
        ours, theirs = socket.socketpair()
        ours.settimeout(0.0)
        theirs.settimeout(0.0)
        signal.set_wakeup_fd(theirs.detach(), warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: None)
        return ours

    def _signalled(self, signals: socket.socket) -> None:
        """Stop as a verb does that is signalled: the running one may end its batches."""
        signals.recv(_BACKLOG)
        self._is_stopping = True
        if self._running is not None:
            signal.pidfd_send_signal(self._running.process, signal.SIGTERM)


def _close(file: Any) -> None:
    if isinstance(file, int):
        os.close(file)
    else:
        file.close()
