"""Rows as JSON to a server over HTTP: in requests of several rows, each with a key by which a repeat is told.

The key is made of what is sent and of where in the batch it stands, so that a batch that comes again, cut in the same
way, has the same keys. Source of the header: the IETF's draft "The Idempotency-Key HTTP Header Field".
"""

from __future__ import annotations

import hashlib
import logging
import queue
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from enum import Enum
from threading import Event, Thread
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit

from headrace.errors import PipelineError
from headrace.sinks.refusals import Refusals, RefusedRow
from headrace.sinks.retrying import Breaker, BreakerOpen, Clock, Pace, Patience, tried

if TYPE_CHECKING:
    import httpx2

# The server, or what is before it, is busy or down.
_PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
# The server says that what it was given is wrong, or too much.
_ROWS_STATUS = frozenset({400, 413, 415, 422})
_WAITING_CHUNKS = 4
_LONGEST_ANSWER = 200
_MOST_ANSWER_BYTES = 64 * 1024
_KEY_LENGTH = 32
_BREAKER_FAILURES, _BREAKER_PAUSE_S = 10, 5.0


class Body(str, Enum):
    """What a request carries."""

    ARRAY = "array"  # of the rows
    LINES = "lines"  # a row a line
    OBJECT = "object"  # one row

    @property
    def content_type(self) -> str:
        """As its header names it."""
        return "application/x-ndjson" if self is Body.LINES else "application/json"

    def of(self, rows: Sequence[str]) -> bytes:
        """The bytes for rows of JSON."""
        if self is Body.ARRAY:
            return f"[{','.join(rows)}]".encode()
        return "".join(f"{row}\n" for row in rows).encode() if self is Body.LINES else rows[0].encode()


@dataclass(frozen=True)
class HttpPlace:
    """Where requests go, and how.

    Attributes:
        url: of the server; it may hold a secret, as may the headers.
        method: POST, PUT or PATCH.
        headers: of each request.
        body: how rows are put into it.
        rows: of a request, at most.
        lanes: how many requests are under way at a time, at most.
        timeout_s: how long one may take.
        per_second: how many begin in a second, at most; None for no limit.
        key_header: which has the key by which a repeat is told.
        patience: how long a request is tried.
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
    """The rows of one request, and its place in the batch."""

    place: str
    rows: tuple[str, ...]

    def halves(self) -> tuple[Chunk, Chunk]:
        """The same rows in two requests."""
        middle = len(self.rows) // 2
        return Chunk(f"{self.place}.0", self.rows[:middle]), Chunk(f"{self.place}.1", self.rows[middle:])


class _Refused(Exception):
    """A status other than that of success."""

    def __init__(self, status: int, wait_s: float, said: str) -> None:
        super().__init__(f"status {status}")
        self.status = status
        self.wait_s = wait_s
        self.said = said


class HttpSender:
    """Sends the rows of one batch after the other.

    Args:
        place: where to.
        name: of the sink, for what goes wrong.
        clock: time and chance.
    """

    def __init__(self, place: HttpPlace, name: str, clock: Clock) -> None:
        self._place = place
        self._name = name
        self._clock = clock
        self._pace = Pace(place.per_second, clock)
        self._breaker = Breaker(_BREAKER_FAILURES, _BREAKER_PAUSE_S, clock.monotonic)
        # The status of the last request that failed; empty where nobody answered.
        self._failed_with = ""

    def send(self, batch: str, rows: Iterable[tuple[int, str]], refusals: Refusals | None = None) -> int:
        """Send the rows of a batch; how many there were, those that were refused among them.

        Args:
            batch: by a name that no other batch has.
            rows: each as JSON, with a number: rows of one number are sent in their order, one request after the other.
            refusals: gets the rows that the server does not take; without, the first of them is an error.

        Raises:
            PipelineError: SINK.HTTP_*: the first request that failed for good.
        """
        lanes = [_Lane(self, batch, refusals) for _ in range(self._place.lanes)]
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

    def deliver(self, client: httpx2.Client, batch: str, chunk: Chunk, refusals: Refusals | None = None) -> None:
        """Send one request; one whose rows are refused is cut in two until a single row is found."""
        try:
            tried(lambda: self._request(client, batch, chunk), self._passing, self._place.patience, self._clock)
        except _Refused as refused:
            if refused.status in _ROWS_STATUS and len(chunk.rows) > 1:
                for half in chunk.halves():
                    self.deliver(client, batch, half, refusals)
                return
            problem = self._problem(refused, chunk)
            if refusals is None or refused.status not in _ROWS_STATUS:
                raise problem from None
            reason = f"status {refused.status}: {refused.said}"
            refusals.add(RefusedRow(chunk.rows[0], reason, problem.code), problem)
        except BreakerOpen:
            state = self._failed_with
            reason = f"it failed many times in a row, last with {f'status {state}' if state else 'no answer'}"
            told: dict[str, Any] = {"state": state} if state else {}
            raise PipelineError("SINK.HTTP_DOWN", name=self._name, reason=reason, **told) from None
        except UnicodeError:
            # Its text has the header in it, which may be a secret.
            reason = "a header has non-ASCII characters"
            raise PipelineError("SINK.HTTP_ADDRESS", name=self._name, reason=reason) from None
        except Exception as error:
            if not type(error).__module__.startswith("httpx2"):
                raise
            if not isinstance(error, _transport_error()):
                raise PipelineError("SINK.HTTP_ADDRESS", name=self._name, reason=type(error).__name__) from None
            raise PipelineError("SINK.HTTP_DOWN", name=self._name, reason=type(error).__name__) from None

    def _request(self, client: httpx2.Client, batch: str, chunk: Chunk) -> None:
        import httpx2  # noqa: PLC0415 - an extra

        place = self._place
        content = place.body.of(chunk.rows)
        key = hashlib.sha256(f"{batch}:{chunk.place}:".encode() + content).hexdigest()[:_KEY_LENGTH]
        self._breaker.ask()
        self._pace.wait()
        given = {name.casefold(): value for name, value in place.headers.items()}
        headers = {
            "content-type": place.body.content_type,
            # What a server says is of no use but in an error: it need not be unpacked.
            "accept-encoding": "identity",
            **given,
            place.key_header.casefold(): key,
        }
        try:
            with client.stream(place.method, place.url, content=content, headers=headers) as answer:
                said = self._said(answer)
        except httpx2.TransportError:
            self._failed_with = ""
            self._breaker.told(failed=True)
            raise
        passing = answer.status_code in _PASSING_STATUS
        if passing:
            self._failed_with = str(answer.status_code)
        # One that asks for patience is not down.
        self._breaker.told(failed=passing and answer.status_code != 429)
        if not answer.is_success:
            raise _Refused(answer.status_code, asked_wait_s(answer.headers), said)

    def _said(self, answer: httpx2.Response) -> str:
        """The beginning of an answer, without secrets; one that goes on and on is left where it is."""
        deadline = self._clock.monotonic() + self._place.timeout_s
        read = bytearray()
        for piece in answer.iter_raw():
            read += piece
            if len(read) > _MOST_ANSWER_BYTES or self._clock.monotonic() > deadline:
                break
        if answer.headers.get("content-encoding", "identity").strip().casefold() not in ("", "identity"):
            return ""
        text = _decoded(bytes(read[:_MOST_ANSWER_BYTES]), answer.charset_encoding or "utf-8")
        return self._masked(text.strip())[:_LONGEST_ANSWER]

    def _passing(self, error: Exception) -> float | None:
        if isinstance(error, _Refused):
            return error.wait_s if error.status in _PASSING_STATUS else None
        if isinstance(error, BreakerOpen):
            return _BREAKER_PAUSE_S
        return 0.0 if isinstance(error, _transport_error()) else None

    def _problem(self, refused: _Refused, chunk: Chunk) -> PipelineError:
        said = f'"{refused.said}"' if refused.said else "nothing"
        if refused.status in _PASSING_STATUS:
            reason = f"status {refused.status}, response: {said}"
            return PipelineError("SINK.HTTP_DOWN", name=self._name, reason=reason, state=str(refused.status))
        code = "SINK.HTTP_ROW" if refused.status in _ROWS_STATUS else "SINK.HTTP_REFUSED"
        row = chunk.rows[0][:_LONGEST_ANSWER]
        return PipelineError(code, name=self._name, status=refused.status, said=said, row=row)

    def _masked(self, text: str) -> str:
        for secret in sorted(_secrets(self._place), key=len, reverse=True):
            text = text.replace(secret, "***")
        return text

    def _chunks(self, rows: Iterable[tuple[int, str]]) -> Iterator[tuple[int, Chunk]]:
        """Requests with their lanes; the same for the same rows in the same order."""
        waiting: dict[int, list[str]] = {}
        sent = 0
        for number, row in rows:
            lane = number % self._place.lanes
            mine = waiting.setdefault(lane, [])
            mine.append(row)
            if len(mine) == self._place.rows:
                yield lane, Chunk(str(sent), tuple(waiting.pop(lane)))
                sent += 1
        for lane in sorted(waiting):
            yield lane, Chunk(str(sent), tuple(waiting[lane]))
            sent += 1

    def _client(self) -> Any:
        try:
            import httpx2  # noqa: PLC0415 - an extra
        except ModuleNotFoundError:
            raise PipelineError(
                "SOURCE.PACKAGE_MISSING", format="http", package="httpx2", install="headrace[http]"
            ) from None
        # It would log each address, which may hold a secret.
        logging.getLogger("httpx2").setLevel(logging.WARNING)
        limits = httpx2.Limits(max_connections=self._place.lanes)
        return httpx2.Client(timeout=self._place.timeout_s, limits=limits, follow_redirects=False)


def asked_wait_s(headers: Mapping[str, str]) -> float:
    """What ``Retry-After`` asks for, as seconds or as a date; 0 where it is neither."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        wanted, told = parsedate_to_datetime(text), parsedate_to_datetime(headers.get("Date", ""))
        return max((wanted - told).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _decoded(data: bytes, charset: str) -> str:
    try:
        return data.decode(charset, "replace")
    except (LookupError, ValueError):
        # What the server names is no charset.
        return data.decode("utf-8", "replace")


def _transport_error() -> tuple[type[Exception], ...]:
    """What passes when a server, or the way to it, is back; not what is wrong with an address."""
    import httpx2  # noqa: PLC0415 - an extra

    return (httpx2.NetworkError, httpx2.TimeoutException, httpx2.RemoteProtocolError, httpx2.ProxyError)


def _secrets(place: HttpPlace) -> set[str]:
    """What a server may send back of what it was sent, and nobody else is to see."""
    url = urlsplit(place.url)
    parts = {place.url, f"{url.path}?{url.query}", url.path, url.query, url.password or "", url.username or ""}
    parts |= {value for values in parse_qs(url.query).values() for value in values}
    for value in place.headers.values():
        # With the scheme before it, and without.
        parts |= {value, value.partition(" ")[2]}
    # A path of one slash, and values such as "1", are in any text.
    return {part for known in parts for part in (known, unquote(known)) if len(part) > 3}


class _Lane:
    """Sends its requests one after the other, in a thread of its own."""

    def __init__(self, sender: HttpSender, batch: str, refusals: Refusals | None) -> None:
        self._sender = sender
        self._batch = batch
        self._refusals = refusals
        self._chunks: queue.Queue[Chunk | None] = queue.Queue(_WAITING_CHUNKS)
        self._ended = Event()
        self._thread: Thread | None = None
        self.error: BaseException | None = None

    def start(self, client: httpx2.Client) -> None:
        """Begin."""
        self._thread = Thread(target=self._work, args=(client,), name="headrace-http", daemon=True)
        self._thread.start()

    def put(self, chunk: Chunk) -> bool:
        """Add a request; False once one has failed."""
        while not self._ended.is_set():
            try:
                self._chunks.put(chunk, timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def end(self, *, wait: bool) -> None:
        """Return once all requests are sent, or the running one where nothing is worth waiting for."""
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
                self._sender.deliver(client, self._batch, chunk, self._refusals)
        except BaseException as error:  # noqa: BLE001 - raised where the batch is sent
            self.error = error
        finally:
            self._ended.set()
