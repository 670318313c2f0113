"""A request, its states, and the document that has all of them. Pure.

Law: a request that was answered is in the document, in one state, until it is removed because of its age. One that can
be repeated runs until its end is known, and starts again if its process was killed; any other one starts at most once.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from enum import Enum
from hashlib import sha256
from typing import Any

from headrace.model.outcome import UpdateState

_FORMAT = 1
_DAY_S = 86_400.0
# What has ended is kept for so long, and so many of them; what waits longer is not run any more.
KEPT_S, MOST_KEPT = 7 * _DAY_S, 500
_EXPIRES_AFTER_S = _DAY_S
MOST_WAITING = 16
# How long a request waits for whoever holds the lease of the pipeline.
BUSY_PAUSE_S = 15.0
# How long after the end of a process that was killed its update is started again, each time.
RETRY_PAUSES_S = (5.0, 60.0)
# Exit codes of the command line.
_DONE, _LEASED, _INTERRUPTED = 0, 3, 130
# What the ids of retries begin with; no client may choose such an id.
RETRY_PREFIX = "retry-"


class UnreadableRequests(ValueError):
    """A document that has no requests of this version."""


class RequestState(str, Enum):
    """The state of a request."""

    WAITING = "WAITING"
    RUNNING = "RUNNING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"
    # It waited too long.
    EXPIRED = "EXPIRED"
    # Nobody saw how it ended.
    LOST = "LOST"

    @property
    def has_ended(self) -> bool:
        """True for the last state of a request."""
        return self not in (RequestState.WAITING, RequestState.RUNNING)


class Lane(str, Enum):
    """Requests of one lane run one after another; those of several lanes beside each other."""

    UPDATE = "update"
    MAINTENANCE = "maintenance"
    READING = "reading"
    QUICK = "quick"


@dataclass(frozen=True)
class Action:
    """What is asked for.

    Attributes:
        verb: of the command line, or ``stop``, ``cancel`` or ``reject``, which the server does itself.
        arguments: of the verb: its options, and what follows them.
        lane: where it waits.
        merges: a request that waits answers a later one for the same.
        repeats: started again with the same id, it does nothing again.
    """

    verb: str
    arguments: tuple[str, ...] = ()
    lane: Lane = Lane.QUICK
    merges: bool = False
    repeats: bool = False


@dataclass(frozen=True)
class Asker:
    """Who asks: the name of a token, and the address of the request."""

    user: str
    address: str


@dataclass(frozen=True)
class Request:
    """A request. Times are seconds since 1970.

    Attributes:
        id: given by who asks, or made.
        action: what is asked for.
        asker: who asks.
        asked_at: when it was stored.
        fingerprint: of all that was sent; another request with the same id has another one.
        state: of the request.
        is_recorded: the log of operations has it.
        not_before: when it may start.
        started_at: when it was started; None while it waits.
        ended_at: when it ended.
        host: where it was started.
        pid: of its process.
        process_started_at: tells the process apart from a later one with its id.
        is_stopping: somebody has asked it to stop.
        retries: how often it was started again after its process was killed.
        merged_into: the request whose update answers this one too; empty for none.
        exit_code: of the command line; None if it is unknown.
        update_id: of the update that ran.
        code: of the error.
        message: the error, or why it waits, on one line.
    """

    id: str
    action: Action
    asker: Asker
    asked_at: float
    fingerprint: str = ""
    state: RequestState = RequestState.WAITING
    is_recorded: bool = False
    not_before: float = 0.0
    started_at: float | None = None
    ended_at: float | None = None
    host: str = ""
    pid: int | None = None
    process_started_at: float | None = None
    is_stopping: bool = False
    retries: int = 0
    merged_into: str = ""
    exit_code: int | None = None
    update_id: str = ""
    code: str = ""
    message: str = ""

    @property
    def file_name(self) -> str:
        """The beginning of the names of its files."""
        return file_name_of(self.id)

    @property
    def update_request_id(self) -> str:
        """What its update is asked for by: each of them runs once at most."""
        return f"{RETRY_PREFIX}{self.retries}-{_digest(self.id)}" if self.retries else self.id

    def to_json(self) -> dict[str, Any]:
        """The request for readers."""
        return {
            **self.as_asked(),
            "state": self.state.value,
            "started_at": _iso(self.started_at),
            "ended_at": _iso(self.ended_at),
            "merged_into": self.merged_into or None,
            "exit_code": self.exit_code,
            "update_id": self.update_id or None,
            "code": self.code or None,
            "message": self.message or None,
        }

    def as_asked(self) -> dict[str, Any]:
        """What does not change until it is removed."""
        return {
            "id": self.id,
            "verb": self.action.verb,
            "arguments": list(self.action.arguments),
            "user": self.asker.user,
            "asked_at": _iso(self.asked_at),
        }


@dataclass(frozen=True)
class Ended:
    """How a process ended.

    Attributes:
        exit_code: negative for a signal, None if nobody saw it.
        document: what it printed as JSON; None for nothing.
        last_line: the last line that it printed beside it.
    """

    exit_code: int | None
    document: Any = None
    last_line: str = ""


def file_name_of(request_id: str) -> str:
    """The beginning of the names of the files of a request."""
    return f"request-{_digest(request_id)}"


def _digest(request_id: str) -> str:
    return sha256(request_id.encode()).hexdigest()[:24]


def begun(request: Request, now: float, host: str) -> Request:
    """The request whose process is started. Store it before."""
    return replace(
        request, state=RequestState.RUNNING, started_at=now, host=host, pid=None, process_started_at=None, message=""
    )


def after(request: Request, ended: Ended, now: float) -> Request:
    """The request after its process has ended."""
    document = ended.document if isinstance(ended.document, Mapping) else {}
    code, text = _error(document)
    known = replace(
        request,
        exit_code=ended.exit_code,
        update_id=str(document.get("update_id") or ""),
        code=code,
        message=text or (ended.last_line if ended.exit_code else ""),
    )
    if ended.exit_code == _LEASED and not request.is_stopping:
        # Another update runs, or another process with the same id: it waits for them.
        return replace(known, state=RequestState.WAITING, not_before=now + BUSY_PAUSE_S)
    if request.action.repeats and not request.is_stopping:
        if ended.exit_code is None:
            return replace(known, state=RequestState.WAITING, not_before=now)
        # The update of the request was killed with its server, or its process was.
        was_killed = ended.exit_code < 0 or document.get("state") == UpdateState.LOST.value
        if was_killed and request.retries < len(RETRY_PAUSES_S):
            pause_s = RETRY_PAUSES_S[request.retries]
            again = replace(known, state=RequestState.WAITING, retries=request.retries + 1, not_before=now + pause_s)
            return replace(again, message="Its process was killed. It is started again, and goes on where it stopped.")
    return replace(known, state=_last_state(request, ended, code), ended_at=now)


def _last_state(request: Request, ended: Ended, code: str) -> RequestState:
    if ended.exit_code == _DONE:
        return RequestState.COMPLETED
    if ended.exit_code is None:
        # What it printed is whole, so it came to its end.
        found = RequestState.FAILED if code else RequestState.COMPLETED
        return RequestState.LOST if ended.document is None else found
    is_canceled = ended.exit_code == _INTERRUPTED or (request.is_stopping and ended.exit_code < 0)
    return RequestState.CANCELED if is_canceled else RequestState.FAILED


def closed(request: Request, state: RequestState, now: float, code: str = "", message: str = "") -> Request:
    """The request in a last state, without a process."""
    return replace(request, state=state, ended_at=now, code=code, message=message)


def as_of(request: Request, other: Request) -> Request:
    """A request with the result of the one that it was merged into."""
    return replace(
        request,
        state=other.state,
        started_at=other.started_at,
        ended_at=other.ended_at,
        exit_code=other.exit_code,
        update_id=other.update_id,
        code=other.code,
        message=other.message,
    )


def waiting_for(requests: Iterable[Request], action: Action) -> Request | None:
    """The request that waits for the same, into which a new one is merged."""
    if not action.merges:
        return None
    known = (one for one in requests if one.action == action and not one.merged_into)
    return next((one for one in known if one.state is RequestState.WAITING), None)


def next_to_start(requests: Iterable[Request], lane: Lane, now: float) -> Request | None:
    """The request of a lane that starts now: the oldest one that may, if none runs."""
    in_lane = [one for one in requests if one.action.lane is lane and not one.merged_into]
    if any(one.state is RequestState.RUNNING for one in in_lane):
        return None
    waiting = (one for one in in_lane if one.state is RequestState.WAITING and one.is_recorded)
    return next((one for one in waiting if one.not_before <= now), None)


def expired(requests: Iterable[Request], now: float) -> list[Request]:
    """Those that have waited too long, in their last state."""
    waiting = (one for one in requests if one.state is RequestState.WAITING)
    return [
        replace(closed(one, RequestState.EXPIRED, now, one.code, one.message), is_recorded=True)
        for one in waiting
        if one.asked_at + _EXPIRES_AFTER_S < now
    ]


def kept(requests: Mapping[str, Request], now: float) -> dict[str, Request]:
    """The requests without those that ended long ago, or before many others."""
    ended = [one for one in requests.values() if one.state.has_ended]
    # One that was merged goes before the one whose result it has.
    over = sorted(ended, key=lambda one: (one.ended_at or 0, not one.merged_into))
    too_many = max(0, len(over) - MOST_KEPT)
    gone = {one.id for number, one in enumerate(over) if number < too_many or (one.ended_at or 0) + KEPT_S < now}
    return {key: one for key, one in requests.items() if key not in gone}


def requests_text(requests: Iterable[Request], storage: str) -> str:
    """The document."""
    found = [{**asdict(one), "state": one.state.value} for one in requests]
    for one in found:
        one["action"] = {**one["action"], "lane": one["action"]["lane"].value}
    return json.dumps({"format": _FORMAT, "storage": storage, "requests": found}, indent=1)


def parse_requests(content: bytes) -> tuple[str, dict[str, Request]]:
    """The storage and the requests of a document.

    Raises:
        UnreadableRequests: another version wrote it, or it is damaged.
    """
    try:
        document = json.loads(content)
        if document["format"] != _FORMAT:
            raise UnreadableRequests(f"its format is {document['format']}, not {_FORMAT}")
        found = [_request(one) for one in document["requests"]]
        return str(document["storage"]), {one.id: one for one in found}
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        if isinstance(error, UnreadableRequests):
            raise
        raise UnreadableRequests("it is damaged") from error


def _request(document: Mapping[str, Any]) -> Request:
    action = document["action"]
    made = Action(**{**action, "arguments": tuple(action["arguments"]), "lane": Lane(action["lane"])})
    asker = Asker(**document["asker"])
    return Request(**{**document, "action": made, "asker": asker, "state": RequestState(document["state"])})


def _error(document: Mapping[str, Any]) -> tuple[str, str]:
    error = document.get("error")
    if not isinstance(error, Mapping):
        return "", ""
    return str(error.get("code") or ""), " ".join(str(error.get("message") or "").split())[:500]


def _iso(moment: float | None) -> str | None:
    return None if moment is None else datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
