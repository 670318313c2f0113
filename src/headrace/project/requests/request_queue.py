"""Takes the requests of a pipeline in a thread: stored first, then in the event log, then started.

One process takes the requests of a pipeline, by a lease of its own. Whenever it dies, the next one finds in the file of
the requests what waits and what was started.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.errors import PipelineError
from headrace.project.lease import Lease
from headrace.project.requests.request import Action, Asker, Request
from headrace.project.requests.request_book import RequestBook
from headrace.project.requests.request_file import RequestFile
from headrace.project.requests.request_runner import QueueContext, RequestRunner
from headrace.project.scheduling.child_process import ChildRunner
from headrace.settings.storage import MonitoringFile
from headrace.stores.paths import storage_path

_FAILED_S, _HELD_S, _STOPPING_S = 15.0, 10.0, 0.05
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
        self._wake, self._pause = threading.Event(), threading.Event()
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
        found = self.book.submit(request_id, fingerprint, action, asker)
        self._wake.set()
        return found

    def stop(self) -> None:
        """Ask it to end; returns at once."""
        self._is_stopping = True
        self._wake.set()

    def join(self) -> None:
        """Wait until it has ended, with the verbs that it has started."""
        self._thread.join()

    def _run(self) -> None:
        while not self._is_stopping:
            pause_s, why = _FAILED_S, ""
            try:
                self._lead()
            except PipelineError as error:
                pause_s = _HELD_S if error.code == "LEASE.HELD" else _FAILED_S
                why = error.detail.rstrip(".") or error.message
            except OSError as error:
                why = f"The storage cannot be written: {error.strerror or type(error).__name__}"
            except Exception as error:  # noqa: BLE001 - the thread must not die of a defect, nor print secrets
                why = f"It has a bug: {type(error).__name__}: {error}"
            self.book.close(self._context.redact(why) or "The server is stopping")
            if not self._is_stopping:
                self._say_once(f"requests are not taken: {why}")
                self._wake.clear()
                self._wake.wait(pause_s)

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
            self._said = ""
            while not self._is_stopping:
                lease.check()
                self._wake.clear()
                pause_s = self._runner.step()
                if not self._is_stopping:
                    self._wake.wait(pause_s)
            self._finish()

    def _finish(self) -> None:
        """Stop the verbs that run, and wait for them. What waits is run by the next server."""
        deadline = self._context.now() + self._context.settings.stop_timeout_s + _END_S
        with suppress(PipelineError, OSError):
            self._runner.stop_all()
            while self._runner.look_after() and self._context.now() < deadline:
                self._pause.wait(_STOPPING_S)

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
