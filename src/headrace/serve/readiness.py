"""Whether the server can show its pipelines, for probes of Kubernetes and of load balancers."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial

from starlette.responses import PlainTextResponse, Response

# Less than the patience of probes in our manifests.
TIMEOUT_S = 5.0
# Probes need no token: whoever sends many must not load the storage.
_LEAST_AGE_S = 2.0
_LOG = logging.getLogger(__name__)


class Readiness:
    """Answers a probe: 200 if all pipelines can be read, else 503.

    The answers have no names, as anybody may ask; the log has them. A storage that hangs costs one thread.

    Args:
        checks: by the name of a pipeline, reads from its storage; raises what keeps it from being read.
        is_stopping: true once the server stops.
        clock: seconds that never go back.
        redact: removes secrets from a text.
        timeout_s: in which time a storage has to answer.
    """

    def __init__(
        self,
        checks: Mapping[str, Callable[[], None]],
        is_stopping: Callable[[], bool],
        clock: Callable[[], float],
        redact: Callable[[str], str],
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self._checks = {name: _Check(check, clock, timeout_s) for name, check in checks.items()}
        self._is_stopping = is_stopping
        self._redact = redact
        self._logged: frozenset[str] = frozenset()

    async def answer(self) -> Response:
        """The answer to a probe; for one event loop."""
        if self._is_stopping():
            return PlainTextResponse("not ready: the server stops\n", 503)
        reasons = await asyncio.gather(*(check.reason() for check in self._checks.values()))
        unread = {name: reason for name, reason in zip(self._checks, reasons, strict=True) if reason}
        self._log(unread)
        if unread:
            return PlainTextResponse(f"not ready: {len(unread)} of {len(self._checks)} pipelines\n", 503)
        return PlainTextResponse("ready\n")

    def _log(self, unread: Mapping[str, str]) -> None:
        """Log what has changed since the last probe."""
        for name in unread.keys() - self._logged:
            _LOG.warning("not ready: pipeline %s: %s", name, self._redact(" ".join(unread[name].split())))
        for name in self._logged - unread.keys():
            _LOG.warning("ready again: pipeline %s", name)
        self._logged = frozenset(unread)


class _Check:
    """The newest check of a storage; one at a time runs."""

    def __init__(self, check: Callable[[], None], clock: Callable[[], float], timeout_s: float) -> None:
        self._check, self._clock, self._timeout_s = check, clock, timeout_s
        self._started_at = 0.0
        self._found: Future[str] | None = None

    async def reason(self) -> str:
        """Why the storage cannot be read; empty if it can."""
        found = self._found
        if found is None or (found.done() and self._clock() - self._started_at >= _LEAST_AGE_S):
            found = self._start()
        rest_s = self._started_at + self._timeout_s - self._clock()
        # Of a storage that hangs for longer, nobody waits for the answer.
        if not found.done() and rest_s > 0:
            answered = asyncio.Event()
            found.add_done_callback(partial(_wake, asyncio.get_running_loop(), answered))
            with suppress(TimeoutError):
                await asyncio.wait_for(answered.wait(), rest_s)
        return found.result() if found.done() else f"its storage has not answered within {self._timeout_s:g} s"

    def _start(self) -> Future[str]:
        found: Future[str] = Future()
        self._found, self._started_at = found, self._clock()
        # The process ends also while a storage hangs.
        threading.Thread(target=self._run, args=(found,), name="readiness", daemon=True).start()
        return found

    def _run(self, found: Future[str]) -> None:
        try:
            self._check()
        except Exception as error:  # noqa: BLE001 - whatever it is, the pipeline cannot be read
            found.set_result(str(error) or type(error).__name__)
        else:
            found.set_result("")


def _wake(loop: asyncio.AbstractEventLoop, answered: asyncio.Event, _found: Future[str]) -> None:
    # The server may have stopped meanwhile.
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(answered.set)
