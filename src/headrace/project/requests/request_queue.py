"""Takes the requests of a pipeline in a thread: stored first, then in the log of operations, then started.

One process takes the requests of a pipeline, by a lease of its own, while there are any. Whenever it dies, the next one
finds in the file of the requests what waits and what was started.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.errors import PipelineError
from headrace.project.lease import Lease
from headrace.project.requests.request import Action, Asker, Request
from headrace.project.requests.request_book import RequestBook
from headrace.project.requests.request_file import RequestFile, stored_requests
from headrace.project.requests.request_runner import QueueContext, RequestRunner
from headrace.project.scheduling.child_process import ChildRunner
from headrace.settings.storage import MonitoringFile
from headrace.stores.paths import storage_path

_FAILED_S, _HELD_S, _STOPPING_S = 15.0, 10.0, 0.05
# How long a request waits for the lease; how long the lease is kept without a request; how often is looked whether
# another process has left requests behind.
_TAKE_S, _KEEP_S, _LOOK_S = 20.0, 60.0, 30.0
# A verb that is stopped may need this time besides the stop timeout of its pipeline.
_END_S = 45.0


class RequestQueue:
    """The requests of one pipeline, while no other process takes them.

    Args:
        context: what it works on.
        runner: starts verbs.
    """

    def __init__(self, context: QueueContext, runner: ChildRunner) -> None:
        self.book = RequestBook(context.now)
        self._context = context
        self._runner = RequestRunner(context, self.book, runner)
        self._wake = threading.Event()
        # Whoever asks waits for the end of an attempt to take the lease.
        self._attempt = threading.Condition()
        self._attempts = 0
        self._is_wanted = False
        self._is_stopping = False
        self._said = ""
        name = f"headrace-requests-{context.settings.name}"
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def submit(self, request_id: str, fingerprint: str, action: Action, asker: Asker) -> Request:
        """Store a request, and run it when it is its turn; the one that is there if it was stored before.

        Raises:
            PipelineError: SERVE.ID_USED, SERVE.QUEUE_FULL; SERVE.NO_QUEUE if another process takes requests.
            OSError: it cannot be stored.
        """
        self._open()
        found = self.book.submit(request_id, fingerprint, action, asker)
        self._is_wanted = True
        self._wake.set()
        return found

    def known(self, request_id: str, fingerprint: str) -> Request | None:
        """The request that was stored before with an id; None if the id is new.

        Raises:
            PipelineError: SERVE.ID_USED; SERVE.NO_QUEUE if another process takes requests.
        """
        self._open()
        return self.book.known(request_id, fingerprint)

    def _open(self) -> None:
        """Take the lease if this process does not have it, and wait for what comes of that."""
        with self._attempt:
            if self.book.is_open:
                return
            before = self._attempts
            self._is_wanted = True
            self._wake.set()
            self._attempt.wait_for(lambda: self.book.is_open or self._attempts > before, _TAKE_S)

    def stop(self) -> None:
        """Ask it to end; returns at once."""
        self._is_stopping = True
        self._wake.set()

    def join(self) -> None:
        """Wait until it has ended, with the verbs that it has started."""
        self._thread.join()

    def _run(self) -> None:
        while not self._is_stopping:
            if not self._is_wanted and not self._is_left_behind():
                self._wake.wait(_LOOK_S)
                self._wake.clear()
                continue
            pause_s, why = 0.0, ""
            self._is_wanted = False
            try:
                self._lead()
            except PipelineError as error:
                pause_s = _HELD_S if error.code == "LEASE.HELD" else _FAILED_S
                why = error.detail.rstrip(".") or error.message
            except OSError as error:
                pause_s, why = _FAILED_S, f"The storage cannot be written: {error.strerror or type(error).__name__}"
            except Exception as error:  # noqa: BLE001 - the thread must not die of a defect, nor print secrets
                pause_s, why = _FAILED_S, f"It has a bug: {type(error).__name__}: {error}"
            with self._attempt:
                self.book.close(self._context.redact(why) or "Nobody has asked for anything")
                self._attempts += 1
                self._attempt.notify_all()
            if why and not self._is_stopping:
                self._say_once(f"requests are not taken: {why}")
                # Sooner if somebody asks for something, and waits for the answer.
                self._wake.wait(pause_s)
                self._wake.clear()
        with self._attempt:
            self._attempts += 1
            self._attempt.notify_all()

    def _is_left_behind(self) -> bool:
        """Whether requests are stored that have not ended."""
        try:
            return any(not one.state.has_ended for one in stored_requests(self._context.settings).values())
        except (PipelineError, OSError):
            # Whoever asks for something learns why.
            return False

    def _lead(self) -> None:
        """Take the lease, and run requests until it is lost, or the thread has to end.

        Raises:
            PipelineError: LEASE.HELD, LEASE.LOST, and others.
            OSError: the storage cannot be read or written.
        """
        context, layout = self._context, self._context.settings.layout
        lease_file = storage_path(layout.monitoring(MonitoringFile.REQUEST_LEASE))
        if isinstance(lease_file, Path):
            lease_file.parent.mkdir(parents=True, exist_ok=True)
        with Lease(lease_file, context.host, context.now) as lease:
            lease.when_lost(self._wake.set)
            path = storage_path(layout.monitoring(MonitoringFile.REQUESTS))
            self.book.open(RequestFile(path, context.settings.storage, context.host, lease))
            self._runner.recover()
            with self._attempt:
                self._attempt.notify_all()
            self._said = ""
            ends_at = context.now() + _KEEP_S
            while not self._is_stopping:
                lease.check()
                self._wake.clear()
                pause_s = self._runner.step()
                if self._is_wanted or self._runner.has_work:
                    self._is_wanted, ends_at = False, context.now() + _KEEP_S
                elif context.now() >= ends_at:
                    return
                if not self._is_stopping:
                    self._wake.wait(pause_s)
            self._finish()

    def _finish(self) -> None:
        """Stop the verbs that run, and wait for them. What waits is run by the next server."""
        deadline = self._context.now() + self._context.settings.stop_timeout_s + _END_S
        with suppress(PipelineError, OSError):
            self._runner.stop_all()
            while self._runner.look_after() and self._context.now() < deadline:
                time.sleep(_STOPPING_S)

    def _say_once(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._context.say(self._context.redact(f"{self._context.settings.name}: {text}"))


@contextmanager
def running_queues(queues: Iterable[RequestQueue]) -> Iterator[None]:
    """Take requests inside the block. At its end, verbs that run are stopped in an orderly way."""
    threads = tuple(queues)
    for queue in threads:
        queue.start()
    try:
        yield
    finally:
        for queue in threads:
            queue.stop()
        for queue in threads:
            queue.join()
