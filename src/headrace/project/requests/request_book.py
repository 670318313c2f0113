"""All requests of a pipeline while this process takes them: in memory, and in their file before anybody sees them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

from headrace.errors import PipelineError
from headrace.project.requests.request import (
    MOST_WAITING,
    Action,
    Asker,
    Request,
    RequestState,
    kept,
    waiting_for,
)
from headrace.project.requests.request_file import RequestFile


class RequestBook:
    """The requests. Its methods may be called from any thread; one thread alone moves requests from state to state.

    Args:
        now: the time in seconds since 1970.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._lock = threading.RLock()
        self._file: RequestFile | None = None
        self._requests: dict[str, Request] = {}
        self._why_closed = PipelineError("SERVE.NO_QUEUE", reason="The server is starting")

    def open(self, file: RequestFile) -> None:
        """Take the requests of a file. Those of the storage that this one is a copy of belong to the original.

        Raises:
            PipelineError: SERVE.REQUESTS_UNREADABLE.
            OSError: the file cannot be read.
        """
        is_copy, found = file.read()
        with self._lock:
            self._requests = {} if is_copy else found
            self._file = file

    @property
    def is_open(self) -> bool:
        """Whether this process takes requests."""
        with self._lock:
            return self._file is not None

    def close(self, reason: str) -> None:
        """Take none any more."""
        with self._lock:
            self._file = None
            self._why_closed = PipelineError("SERVE.NO_QUEUE", reason=reason)

    def known(self, request_id: str, fingerprint: str) -> Request | None:
        """The request that was stored before with this id; None if the id is new.

        Raises:
            PipelineError: SERVE.ID_USED; SERVE.NO_QUEUE if another process takes requests.
        """
        with self._lock:
            self._opened()
            known = self._requests.get(request_id)
            if known is not None and known.fingerprint != fingerprint:
                raise PipelineError("SERVE.ID_USED", id=request_id, verb=known.action.verb)
            return known

    def submit(self, request_id: str, fingerprint: str, action: Action, asker: Asker) -> Request:
        """Store a request; the one that is there if it was stored before.

        Raises:
            PipelineError: SERVE.ID_USED, SERVE.QUEUE_FULL; SERVE.NO_QUEUE if another process takes requests.
            OSError: it cannot be stored.
        """
        with self._lock:
            known = self.known(request_id, fingerprint)
            if known is not None:
                return known
            waiting = [one for one in self._requests.values() if one.state is RequestState.WAITING]
            if len(waiting) >= MOST_WAITING:
                raise PipelineError("SERVE.QUEUE_FULL", most=MOST_WAITING)
            other = waiting_for(waiting, action)
            into = other.id if other is not None else ""
            made = Request(request_id, action, asker, self._now(), fingerprint, merged_into=into)
            self.store(made)
            return made

    def find(self, request_id: str) -> Request:
        """The request with an id.

        Raises:
            PipelineError: SERVE.NO_REQUEST; SERVE.NO_QUEUE if another process takes requests.
        """
        with self._lock:
            self._opened()
            if request_id not in self._requests:
                raise PipelineError("SERVE.NO_REQUEST", id=request_id)
            return self._requests[request_id]

    def all(self) -> list[Request]:
        """All requests, in the order in which they were stored.

        Raises:
            PipelineError: SERVE.NO_QUEUE if another process takes requests.
        """
        with self._lock:
            self._opened()
            return list(self._requests.values())

    def store(self, *changed: Request) -> None:
        """Add or replace requests, in one write.

        Raises:
            PipelineError: LEASE.LOST.
            OSError: the file cannot be written; nothing has changed.
        """
        with self._lock:
            requests = kept({**self._requests, **{one.id: one for one in changed}}, self._now())
            self._opened().write(requests.values())
            self._requests = requests

    def close_waiting(self, one: Request) -> None:
        """Store the end of a request that waited; the first one that was merged into it waits in its place."""
        with self._lock:
            merged = [other for other in self._requests.values() if other.merged_into == one.id]
            first = [replace(other, merged_into="") for other in merged[:1]]
            self.store(one, *first, *(replace(other, merged_into=first[0].id) for other in merged[1:]))

    def _opened(self) -> RequestFile:
        if self._file is None:
            raise self._why_closed
        return self._file
