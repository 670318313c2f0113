"""One row of ``system/events``: the vendor's columns, including the fields that only its service can fill.

Source: the vendor's event log schema (columns id, sequence, origin, timestamp, message, level, maturity_level, error,
details, event_type, truncation). ``origin.epoch`` is ours.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any

import pyarrow as pa

from headrace.errors import InternalError
from headrace.events.details import details_of, event_of
from headrace.events.levels import Json, Level
from headrace.events.types import BatchDone, Event, UpdateTotals
from headrace.events.upkeep import LogTrimmed

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Fields of ``origin`` that are always null here; they exist for queries written for the vendor's log.
_SERVICE_FIELDS = (
    "cloud",
    "region",
    "org_id",
    "cluster_id",
    "maintenance_id",
    "table_id",
    "table_name",
    "sink_name",
    "request_id",
    "graph_id",
    "materialization_name",
    "uc_resource_id",
)
_ORIGIN = pa.struct(
    [
        *(
            pa.field(name, pa.string())
            for name in (
                "pipeline_id",
                "pipeline_name",
                "pipeline_type",
                "update_id",
                "dataset_name",
                "flow_name",
                "flow_id",
                "host",
                *_SERVICE_FIELDS,
            )
        ),
        pa.field("batch_id", pa.int64()),
        pa.field("epoch", pa.int64()),
    ]
)
_FRAME = pa.struct(
    [
        pa.field("declaring_class", pa.string()),
        pa.field("method_name", pa.string()),
        pa.field("file_name", pa.string()),
        pa.field("line_number", pa.int64()),
    ]
)
_EXCEPTION = pa.struct(
    [
        pa.field("class_name", pa.string()),
        pa.field("message", pa.string()),
        pa.field("stack", pa.list_(pa.field("element", _FRAME))),
    ]
)
_ERROR = pa.struct(
    [
        pa.field("fatal", pa.bool_()),
        pa.field("exceptions", pa.list_(pa.field("element", _EXCEPTION))),
    ],
)
_SEQUENCE = pa.struct(
    [
        pa.field("control_plane_seq_no", pa.int64()),
        pa.field(
            "data_plane_id",
            pa.struct([pa.field("instance", pa.string()), pa.field("seq_no", pa.int64())]),
        ),
    ]
)
_TRUNCATED = pa.struct([pa.field("field_name", pa.string())])

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string()),
        pa.field("sequence", _SEQUENCE),
        pa.field("origin", _ORIGIN),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("message", pa.string()),
        pa.field("level", pa.string()),
        pa.field("maturity_level", pa.string()),
        pa.field("error", _ERROR),
        pa.field("details", pa.string()),
        pa.field("event_type", pa.string()),
        pa.field(
            "truncation",
            pa.struct([pa.field("truncated_fields", pa.list_(pa.field("element", _TRUNCATED)))]),
        ),
    ]
)


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
    """The row for an event in :data:`SCHEMA`; applies *redact* to every text that is not a name or an enumeration.

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
