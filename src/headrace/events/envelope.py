"""One row of ``system/events``, as a dictionary with the columns of :mod:`headrace.events.schema`."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

from headrace.errors import InternalError
from headrace.events.details import details_of, event_of
from headrace.events.levels import Json, Level
from headrace.events.types import BatchDone, Event, UpdateTotals
from headrace.events.upkeep import LogTrimmed

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Origin:
    """The pipeline and update that the events belong to, and the host."""

    pipeline_id: str
    pipeline_name: str
    update_id: str
    host: str | None = None
    pipeline_type: str = "WORKSPACE"


@dataclass(frozen=True)
class Stamp:
    """The time of an event, and its position in the order of the log."""

    seq_no: int
    timestamp: datetime
    instance: str
    unique: str

    @property
    def id(self) -> str:
        """The row's id: as text it sorts like the sequence, so that readers can skip files by it."""
        return f"{id_floor(self.seq_no)}-{self.unique}"


def seq_no_at(moment: datetime) -> int:
    """The sequence number for a moment: microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def id_floor(seq_no: int) -> str:
    """The lower bound of all ids with this sequence number; greater than every id with a lower one."""
    return f"{seq_no:016x}"


def seq_no_of(row_id: str) -> int:
    """The sequence number that a row's id begins with."""
    return int(row_id[:16], 16)


def to_row(event: Event, *, origin: Origin, stamp: Stamp, redact: Callable[[str], str] = str) -> dict[str, Any]:
    """The row for an event in :data:`headrace.events.schema.SCHEMA`.

    Applies *redact* to every text that is not a name or an enumeration.

    Events that sum up earlier ones have the names of these, and no text that was not redacted before. They stay as they
    are: otherwise a secret that is a part of a flow's name would change the name in its sums.
    """
    clean = _cleaner_for(event, redact)
    error = getattr(event, "error", None)
    return {
        "id": stamp.id,
        "sequence": {
            "control_plane_seq_no": None,
            "data_plane_id": {"instance": stamp.instance, "seq_no": stamp.seq_no},
        },
        "origin": {**asdict(origin), **_subject(event)},
        "timestamp": stamp.timestamp,
        "message": clean(event.message),
        "level": event.level.value,
        "maturity_level": event.maturity.value,
        "error": _error(error, clean, fatal=event.level is Level.ERROR) if error else None,
        "details": json.dumps(_cleaned(details_of(event), clean), default=str),
        "event_type": event.event_type,
        "truncation": None,
    }


def from_row(row: Mapping[str, Any]) -> Event | None:
    """The event of a row; None if this version does not know its type.

    Law: ``from_row(to_row(event, ...)) == event`` if nothing was redacted.
    """
    return event_of(row["event_type"], json.loads(row["details"]), row["origin"], row["message"])


def redacted(event: Event, redact: Callable[[str], str]) -> Event:
    """The event as readers of its row get it: without secrets.

    Law: ``redacted(event, redact) == from_row(to_row(event, ..., redact=redact))``.
    """
    clean = _cleaner_for(event, redact)
    body = json.loads(json.dumps(_cleaned(details_of(event), clean), default=str))
    found = event_of(event.event_type, body, _subject(event), clean(event.message))
    if found is None:
        raise InternalError(f"an event of type {event.event_type} cannot be read back")
    return found


def _cleaner_for(event: Event, redact: Callable[[str], str]) -> Callable[[str], str]:
    return _cleaner(str if isinstance(event, (UpdateTotals, LogTrimmed)) else redact)


def _cleaner(redact: Callable[[str], str]) -> Callable[[str], str]:
    def clean(text: str) -> str:
        # Lone surrogates, as in a file name that is not UTF-8, cannot be stored.
        return redact(text).encode("utf-8", "replace").decode("utf-8")

    return clean


def _subject(event: Event) -> dict[str, Any]:
    flow: str | None = getattr(event, "flow", None)
    subject: dict[str, Any] = {
        "flow_name": flow,
        "dataset_name": getattr(event, "dataset", None),
    }
    if isinstance(event, BatchDone):
        # As in the vendor's log, a full refresh changes the id of a flow, but not its name.
        subject |= {
            "flow_id": f"{flow}#{event.epoch}",
            "epoch": event.epoch,
            "batch_id": event.batch_id,
        }
    return subject


def _error(error: Json, clean: Callable[[str], str], *, fatal: bool) -> dict[str, Any]:
    place = error.get("location")
    frame = {
        "declaring_class": None,
        "method_name": None,
        "file_name": clean(str(place["file"])) if place else None,
        "line_number": place.get("line") if place else None,
    }
    return {
        "fatal": fatal,
        "exceptions": [
            {
                "class_name": str(error.get("code", "")),
                "message": clean(str(error.get("message", ""))),
                "stack": [frame] if place else [],
            }
        ],
    }


def _cleaned(value: Any, clean: Callable[[str], str]) -> Any:
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        # Not a text: a secret such as a year would make it unreadable.
        return value.isoformat()
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, Mapping):
        return {str(key): _cleaned(item, clean) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_cleaned(item, clean) for item in value]
    if value is None or isinstance(value, (bool, int, float)):
        return value
    return clean(str(value))
