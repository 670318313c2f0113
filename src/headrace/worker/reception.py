"""Those who connect to the worker: answers them, refuses verbs that it cannot run, and keeps the others in a queue."""

from __future__ import annotations

import os
import selectors
import socket
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.worker.frames import close_all, receive, send
from headrace.worker.modules import ImportedCode
from headrace.worker.place import UnsafePlace, check_peer
from headrace.worker.traits import differences
from headrace.worker.verb_process import VerbRequest

# A message of a process of this user arrives at once, unless the process was stopped in the middle of it.
MESSAGE_TIMEOUT_S = 5.0


@dataclass
class Waiting:
    """A caller whose verb has not started."""

    connection: socket.socket
    request: VerbRequest


class Reception:
    """The callers of one worker whose verbs have not started."""

    def __init__(
        self, listener: socket.socket, events: selectors.BaseSelector, traits: Mapping[str, Any], code: ImportedCode
    ) -> None:
        self._listener = listener
        self._events = events
        self._traits = traits
        self._code = code
        self.queue: deque[Waiting] = deque()
        self.is_stopping = False
        # Whether the imported code has changed, so that the worker starts again.
        self.is_outdated = False
        self._stoppers: list[socket.socket] = []

    @property
    def is_closed(self) -> bool:
        """Whether no verb is accepted any more."""
        return self.is_stopping or self.is_outdated

    def listen(self, status: Callable[[], Mapping[str, Any]], stop_verb: Callable[[], None]) -> None:
        """Answer everybody who connects.

        Args:
            status: what the worker does.
            stop_verb: stops the running verb, as its user would.
        """
        self._listener.settimeout(0.0)
        self._events.register(self._listener, selectors.EVENT_READ, lambda: self._accept(status, stop_verb))

    def end_with(self, owner: int) -> None:
        """Accept no verb any more once a process has ended, of which *owner* is a file; what runs may finish.

        For the callers of verbs may live.
        """

        def ended() -> None:
            self._events.unregister(owner)
            os.close(owner)
            self.is_stopping = True

        self._events.register(owner, selectors.EVENT_READ, ended)

    def next(self) -> Waiting:
        """The first of the queue, who leaves it."""
        waiting = self.queue.popleft()
        self._events.unregister(waiting.connection)
        return waiting

    def close_in_fork(self) -> None:
        """Close what a forked process has of those who wait: they must see the worker's end, and that of its verbs."""
        for waiting in self.queue:
            close_all(waiting.request.files)
        for stopper in self._stoppers:
            stopper.close()

    def _accept(self, status: Callable[[], Mapping[str, Any]], stop_verb: Callable[[], None]) -> None:
        try:
            connection, _address = self._listener.accept()
        except OSError:
            return
        files: list[int] = []
        try:
            check_peer(connection)
            connection.settimeout(MESSAGE_TIMEOUT_S)
            message, files = receive(connection)
            self._answer(connection, message or {}, files, status, stop_verb)
        except (UnsafePlace, OSError, KeyError, TypeError, ValueError, AttributeError):
            close_all(files)
            connection.close()

    def _answer(
        self,
        connection: socket.socket,
        message: Mapping[str, Any],
        files: list[int],
        status: Callable[[], Mapping[str, Any]],
        stop_verb: Callable[[], None],
    ) -> None:
        match message.get("ask"):
            case "verb":
                self._take(connection, message, files, status)
            case "status":
                send(connection, status())
                connection.close()
            case "stop":
                self.is_stopping = True
                if message.get("now"):
                    stop_verb()
                # It is closed when the worker ends.
                self._stoppers.append(connection)
            case _:
                raise ValueError("unknown request")

    def _take(
        self,
        connection: socket.socket,
        message: Mapping[str, Any],
        files: list[int],
        status: Callable[[], Mapping[str, Any]],
    ) -> None:
        refusal = self._refusal(message, status())
        if refusal is not None:
            send(connection, refusal)
            close_all(files)
            connection.close()
            return
        waiting = Waiting(connection, VerbRequest.of(message, files))
        self.queue.append(waiting)
        self._events.register(connection, selectors.EVENT_READ, lambda: self._leave(waiting))

    def _refusal(self, message: Mapping[str, Any], status: Mapping[str, Any]) -> dict[str, Any] | None:
        if self.is_closed:
            return {"refused": "stopping", "reason": "the worker is stopping"}
        differing = differences(self._traits, message["traits"])
        if differing:
            return {"refused": "differs", "reason": f"different from the worker: {', '.join(differing)}"}
        changed = self._code.changed()
        if changed is not None:
            self.is_outdated = True
            return {"refused": "outdated", "reason": f"{changed} has changed since the worker started"}
        is_busy = status["verb_pid"] is not None or bool(self.queue)
        return {"refused": "busy", **status} if is_busy and not message.get("wait") else None

    def _leave(self, waiting: Waiting) -> None:
        self._events.unregister(waiting.connection)
        self.queue.remove(waiting)
        close_all(waiting.request.files)
        waiting.connection.close()
