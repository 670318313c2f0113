"""What a scheduler stores, as one document: which times and changes are decided, and the runs that came of them.

A decision and the run that it asks for are one write, so a scheduler that dies has made both or neither.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from types import MappingProxyType
from typing import Any

from headrace.model.outcome import UpdateCause

_FORMAT = 1


class UnreadableState(ValueError):
    """A document that is no state of this version."""


@dataclass(frozen=True)
class Mark:
    """How far a schedule is decided; times are seconds since 1970.

    Attributes:
        digest: of the timing. A schedule with another one starts over.
        since: when it was first seen; periods are counted from here.
        until: times up to this one are decided.
        seen: what was observed when it last fired; empty for nothing.
        fired_at: when it last fired; None for never.
    """

    digest: str
    since: float
    until: float
    seen: str = ""
    fired_at: float | None = None


@dataclass(frozen=True)
class Firing:
    """A request of a schedule for an update.

    Attributes:
        schedule: its name.
        due_at: when it was due.
        cause: why, for the event log.
        refresh: selectors of the datasets; empty for all.
        is_continuous: the update runs until it is stopped.
        starts: how many updates were started for it.
        failures: how many of them failed.
    """

    schedule: str
    due_at: float
    cause: UpdateCause
    refresh: tuple[str, ...] = ()
    is_continuous: bool = False
    starts: int = 0
    failures: int = 0

    @property
    def key(self) -> str:
        """Tells it apart from all other firings of the pipeline."""
        return f"{self.schedule}@{self.due_at:.3f}"


@dataclass(frozen=True)
class Run:
    """One update, for one or several firings.

    Attributes:
        firings: whose requests it answers, oldest first.
        not_before: when it may start.
        started_at: when it was started; None while it waits.
        host: where.
        pid: of the process; None if it was not recorded.
        process_started_at: tells the process apart from a later one with the same id.
    """

    firings: tuple[Firing, ...]
    not_before: float = 0.0
    started_at: float | None = None
    host: str = ""
    pid: int | None = None
    process_started_at: float | None = None

    @property
    def refresh(self) -> tuple[str, ...]:
        """The selectors of all firings; empty for all datasets."""
        if any(not firing.refresh for firing in self.firings):
            return ()
        return tuple(dict.fromkeys(name for firing in self.firings for name in firing.refresh))

    @property
    def cause(self) -> UpdateCause:
        """Why it runs: the cause of the first firing, or that it is started again after a failure."""
        if all(firing.failures for firing in self.firings):
            return UpdateCause.RETRY_ON_FAILURE
        return self.firings[0].cause

    @property
    def is_continuous(self) -> bool:
        """True if it runs until it is stopped."""
        return any(firing.is_continuous for firing in self.firings)

    @property
    def request_id(self) -> str:
        """The id of the update's request.

        Law: the same for the same firings with the same numbers of starts, so one that was started twice runs once.
        """
        starts = max(firing.starts for firing in self.firings)
        first = self.firings[0]
        text = json.dumps(sorted((firing.key, firing.starts) for firing in self.firings))
        return f"schedule-{first.due_at:.0f}-{sha256(text.encode()).hexdigest()[:20]}-{starts}"


@dataclass(frozen=True)
class LastRun:
    """How the last update of a schedule ended.

    Attributes:
        state: of the update in the event log, or why there was none: ``WRONG``, ``NOT_APPROVED``, ``NOT_STARTED``.
        ended_at: when the scheduler noticed.
        started_at: when it was started.
        due_at: when it was due.
        update_id: in the event log; empty if unknown.
        message: the error, on one line; empty without one.
        retries_at: when it is started again; None if it is not.
    """

    state: str
    started_at: float
    ended_at: float
    due_at: float
    update_id: str = ""
    message: str = ""
    retries_at: float | None = None


@dataclass(frozen=True)
class State:
    """Everything that a scheduler knows of its pipeline's schedules.

    Attributes:
        leader: the number of the scheduler that wrote it; those with a lower number have been replaced.
        storage: of the pipeline. In a copy of a storage, the processes that are named belong to the original.
        marks: by the name of the schedule.
        running: the run that was started.
        waiting: the run that follows it.
        last: by the name of the schedule.
    """

    leader: int = 0
    storage: str = ""
    marks: Mapping[str, Mark] = field(default_factory=lambda: MappingProxyType({}))
    running: Run | None = None
    waiting: Run | None = None
    last: Mapping[str, LastRun] = field(default_factory=lambda: MappingProxyType({}))

    def with_mark(self, name: str, mark: Mark) -> State:
        """The same with another mark of a schedule."""
        return replace(self, marks=MappingProxyType({**self.marks, name: mark}))

    def with_last(self, name: str, last: LastRun) -> State:
        """The same with another last run of a schedule."""
        return replace(self, last=MappingProxyType({**self.last, name: last}))

    def to_json(self) -> dict[str, Any]:
        """The document."""
        return {
            "format": _FORMAT,
            "leader": self.leader,
            "storage": self.storage,
            "marks": {name: asdict(mark) for name, mark in self.marks.items()},
            "running": _run_json(self.running),
            "waiting": _run_json(self.waiting),
            "last": {name: asdict(last) for name, last in self.last.items()},
        }

    @classmethod
    def from_json(cls, document: Any) -> State:
        """The state of a document.

        Raises:
            UnreadableState: another version wrote it, or it is damaged.
        """
        try:
            if document["format"] != _FORMAT:
                raise UnreadableState(f"its format is {document['format']}, not {_FORMAT}")
            return cls(
                int(document["leader"]),
                str(document["storage"]),
                MappingProxyType({str(name): Mark(**mark) for name, mark in document["marks"].items()}),
                _run_of(document["running"]),
                _run_of(document["waiting"]),
                MappingProxyType({str(name): LastRun(**last) for name, last in document["last"].items()}),
            )
        except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
            if isinstance(error, UnreadableState):
                raise
            raise UnreadableState(f"{type(error).__name__} in it") from error


def parse_state(content: bytes) -> State:
    """The state of a file's content.

    Raises:
        UnreadableState: another version wrote it, or it is damaged.
    """
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise UnreadableState("it is not JSON") from error
    return State.from_json(document)


def state_text(state: State) -> str:
    """The content of the file of a state."""
    return json.dumps(state.to_json(), indent=1, sort_keys=True)


def _run_json(run: Run | None) -> dict[str, Any] | None:
    return None if run is None else {**asdict(run), "firings": [_firing_json(one) for one in run.firings]}


def _firing_json(firing: Firing) -> dict[str, Any]:
    return {**asdict(firing), "cause": firing.cause.value, "refresh": list(firing.refresh)}


def _run_of(document: Any) -> Run | None:
    if document is None:
        return None
    firings = tuple(
        Firing(**{**one, "cause": UpdateCause(one["cause"]), "refresh": tuple(one["refresh"])})
        for one in document["firings"]
    )
    if not firings:
        raise UnreadableState("a run has no firing")
    return Run(**{**document, "firings": firings})
