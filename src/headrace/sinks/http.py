"""Sends rows as JSON over HTTP, in requests of several rows with an idempotency key each.

The key is a digest of the content and of its position in the batch, so a repeated batch, split in the same way, has the
same keys. Source of the header: the IETF's draft "The Idempotency-Key HTTP Header Field".
"""

from __future__ import annotations

import hashlib
import queue
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from headrace.errors import PipelineError
from headrace.sinks.http_client import (
    MAX_RESPONSE_LENGTH,
    TRANSIENT_STATUS,
    open_client,
    response_text,
    retry_after_s,
    secrets_of,
    transport_errors,
)
from headrace.sinks.rejected_rows import RejectedRow, RejectedRows
from headrace.sinks.retrying import CircuitBreaker, CircuitOpen, Clock, Patience, RateLimiter, with_retries

if TYPE_CHECKING:
    import httpx2

# The content of the request is invalid, or too large.
_ROW_ERROR_STATUS = frozenset({400, 413, 415, 422})
_QUEUED_CHUNKS = 4
_KEY_LENGTH = 32
_BREAKER_FAILURES, _BREAKER_PAUSE_S = 10, 5.0


class Body(str, Enum):
    """The body of a request."""

    ARRAY = "array"  # of the rows
    LINES = "lines"  # a row a line
    OBJECT = "object"  # one row

    @property
    def content_type(self) -> str:
        """The value of the header ``Content-Type``."""
        return "application/x-ndjson" if self is Body.LINES else "application/json"

    def of(self, rows: Sequence[str]) -> bytes:
        """The body with rows of JSON."""
        if self is Body.ARRAY:
            return f"[{','.join(rows)}]".encode()
        return "".join(f"{row}\n" for row in rows).encode() if self is Body.LINES else rows[0].encode()


@dataclass(frozen=True)
class HttpPlace:
    """The endpoint of an HTTP sink, and how to send to it.

    Attributes:
        url: of the server; it may contain a secret, as may the headers.
        method: POST, PUT or PATCH.
        headers: of each request.
        body: the format of the body.
        rows: the maximum number of rows per request.
        lanes: the maximum number of parallel requests.
        timeout_s: the timeout of a request.
        per_second: the maximum number of requests that begin per second; None for no limit.
        key_header: the header with the idempotency key.
        patience: the retry policy of a request.
    """

    url: str = field(repr=False)
    method: str = "POST"
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: Body = Body.ARRAY
    rows: int = 100
    lanes: int = 4
    timeout_s: float = 30.0
    per_second: float | None = None
    key_header: str = "Idempotency-Key"
    patience: Patience = field(default_factory=Patience)


@dataclass(frozen=True)
class Chunk:
    """The rows of one request, and its position in the batch."""

    position: str
    rows: tuple[str, ...]

    def halves(self) -> tuple[Chunk, Chunk]:
        """The same rows, in two requests."""
        middle = len(self.rows) // 2
        return Chunk(f"{self.position}.0", self.rows[:middle]), Chunk(f"{self.position}.1", self.rows[middle:])


class _HttpError(Exception):
    """A response with a status other than success."""

    def __init__(self, status: int, wait_s: float, text: str) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.wait_s = wait_s
        self.text = text


class HttpSender:
    """Sends batches, one after the other.

    Args:
        target: the endpoint.
        name: of the sink, for errors.
        clock: time and randomness.
    """

    def __init__(self, target: HttpPlace, name: str, clock: Clock) -> None:
        self._target = target
        self._name = name
        self._clock = clock
        self._rate_limiter = RateLimiter(target.per_second, clock)
        self._breaker = CircuitBreaker(_BREAKER_FAILURES, _BREAKER_PAUSE_S, clock.monotonic)
        # The status of the last failed request; empty without a response.
        self._failed_with = ""

    def send(self, batch: str, rows: Iterable[tuple[int, str]], rejected_rows: RejectedRows | None = None) -> int:
        """Send the rows of a batch; returns their number, including rejected rows.

        Args:
            batch: a unique name of the batch.
            rows: each as JSON, with a number. Rows with the same number are sent in order, never in parallel.
            rejected_rows: gets the rows that the server rejects; without it, the first rejected row is an error.

        Raises:
            PipelineError: SINK.HTTP_*: the first request that failed permanently.
        """
        lanes = [_Lane(self, batch, rejected_rows) for _ in range(self._target.lanes)]
        with self._client() as client:
            for lane in lanes:
                lane.start(client)
            count = 0
            try:
                for number, chunk in self._chunks(rows):
                    count += len(chunk.rows)
                    if not lanes[number].put(chunk) or any(lane.error for lane in lanes):
                        break
            finally:
                for lane in lanes:
                    lane.end(wait=not any(lane.error for lane in lanes))
        for lane in lanes:
            if lane.error is not None:
                raise lane.error
        return count

    def deliver(
        self, client: httpx2.Client, batch: str, chunk: Chunk, rejected_rows: RejectedRows | None = None
    ) -> None:
        """Send one request. If its rows are rejected, bisect them down to single rows."""
        try:
            with_retries(
                lambda: self._request(client, batch, chunk), self._retry_delay_s, self._target.patience, self._clock
            )
        except _HttpError as error:
            if error.status in _ROW_ERROR_STATUS and len(chunk.rows) > 1:
                for half in chunk.halves():
                    self.deliver(client, batch, half, rejected_rows)
                return
            problem = self._problem(error, chunk)
            if rejected_rows is None or error.status not in _ROW_ERROR_STATUS:
                raise problem from None
            reason = f"status {error.status}: {error.text}"
            rejected_rows.add(RejectedRow(chunk.rows[0], reason, problem.code), problem)
        except CircuitOpen:
            state = self._failed_with
            last = f"with status {state}" if state else "without a response"
            reason = f"requests failed many times in a row, most recently {last}"
            extra: dict[str, Any] = {"state": state} if state else {}
            raise PipelineError("SINK.HTTP_DOWN", name=self._name, reason=reason, **extra) from None
        except UnicodeError:
            # The error's text contains the header, which may be secret.
            reason = "a header has non-ASCII characters"
            raise PipelineError("SINK.HTTP_ADDRESS", name=self._name, reason=reason) from None
        except Exception as error:
            if not type(error).__module__.startswith("httpx2"):
                raise
            if not isinstance(error, transport_errors()):
                raise PipelineError("SINK.HTTP_ADDRESS", name=self._name, reason=type(error).__name__) from None
            raise PipelineError("SINK.HTTP_DOWN", name=self._name, reason=type(error).__name__) from None

    def _request(self, client: httpx2.Client, batch: str, chunk: Chunk) -> None:
        import httpx2  # noqa: PLC0415 - an extra

        target = self._target
        content = target.body.of(chunk.rows)
        key = hashlib.sha256(f"{batch}:{chunk.position}:".encode() + content).hexdigest()[:_KEY_LENGTH]
        self._breaker.check()
        self._rate_limiter.wait()
        given = {name.casefold(): value for name, value in target.headers.items()}
        headers = {
            "content-type": target.body.content_type,
            # Responses matter only in errors, so they need no compression.
            "accept-encoding": "identity",
            **given,
            target.key_header.casefold(): key,
        }
        try:
            with client.stream(target.method, target.url, content=content, headers=headers) as response:
                secrets = secrets_of(target.url, target.headers)
                text = response_text(response, target.timeout_s, self._clock.monotonic, secrets)
        except httpx2.TransportError:
            self._failed_with = ""
            self._breaker.record(failed=True)
            raise
        is_transient = response.status_code in TRANSIENT_STATUS
        if is_transient:
            self._failed_with = str(response.status_code)
        # A server that limits the rate is not down.
        self._breaker.record(failed=is_transient and response.status_code != 429)
        if not response.is_success:
            raise _HttpError(response.status_code, retry_after_s(response.headers), text)

    def _retry_delay_s(self, error: Exception) -> float | None:
        if isinstance(error, _HttpError):
            return error.wait_s if error.status in TRANSIENT_STATUS else None
        if isinstance(error, CircuitOpen):
            return _BREAKER_PAUSE_S
        return 0.0 if isinstance(error, transport_errors()) else None

    def _problem(self, error: _HttpError, chunk: Chunk) -> PipelineError:
        said = f'"{error.text}"' if error.text else "empty"
        if error.status in TRANSIENT_STATUS:
            reason = f"status {error.status}, response: {said}"
            return PipelineError("SINK.HTTP_DOWN", name=self._name, reason=reason, state=str(error.status))
        code = "SINK.HTTP_ROW" if error.status in _ROW_ERROR_STATUS else "SINK.HTTP_REFUSED"
        row = chunk.rows[0][:MAX_RESPONSE_LENGTH]
        return PipelineError(code, name=self._name, status=error.status, said=said, row=row)

    def _chunks(self, rows: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Chunk]]:
        """The requests with their lanes; equal rows in equal order give equal requests."""
        pending: dict[int, list[str]] = {}
        sent = 0
        for number, row in rows:
            lane = number % self._target.lanes
            lane_rows = pending.setdefault(lane, [])
            lane_rows.append(row)
            if len(lane_rows) == self._target.rows:
                yield lane, Chunk(str(sent), tuple(pending.pop(lane)))
                sent += 1
        for lane in sorted(pending):
            yield lane, Chunk(str(sent), tuple(pending[lane]))
            sent += 1

    def _client(self) -> Any:
        try:
            return open_client(self._target.timeout_s, connections=self._target.lanes)
        except ModuleNotFoundError:
            raise PipelineError(
                "SOURCE.PACKAGE_MISSING", format="http", package="httpx2", install="headrace[http]"
            ) from None


class _Lane:
    """Sends its requests in order, in its own thread."""

    def __init__(self, sender: HttpSender, batch: str, rejected_rows: RejectedRows | None) -> None:
        self._sender = sender
        self._batch = batch
        self._rejected_rows = rejected_rows
        self._chunks: queue.Queue[Chunk | None] = queue.Queue(_QUEUED_CHUNKS)
        self._ended = Event()
        self._thread: Thread | None = None
        self.error: BaseException | None = None

    def start(self, client: httpx2.Client) -> None:
        """Start the thread."""
        self._thread = Thread(target=self._work, args=(client,), name="headrace-http", daemon=True)
        self._thread.start()

    def put(self, chunk: Chunk) -> bool:
        """Add a request; False if an earlier one has failed."""
        while not self._ended.is_set():
            try:
                self._chunks.put(chunk, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def end(self, *, wait: bool) -> None:
        """Return when all requests are sent; without *wait*, when the running one is."""
        if not wait:
            self._ended.set()
        while not self._ended.is_set():
            try:
                self._chunks.put(None, timeout=0.1)
            except queue.Full:
                continue
            break
        if self._thread is not None:
            self._thread.join()

    def _work(self, client: httpx2.Client) -> None:
        try:
            while not self._ended.is_set():
                try:
                    chunk = self._chunks.get(timeout=0.1)
                except queue.Empty:
                    continue
                if chunk is None:
                    return
                self._sender.deliver(client, self._batch, chunk, self._rejected_rows)
        except BaseException as error:  # noqa: BLE001 - raised where the batch is sent
            self.error = error
        finally:
            self._ended.set()
