"""Versions of snapshots: their order, how they are stored, and which a flow has processed."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from headrace.model.schema import Schema

# Types of versions, each with Spark's JSON of the type, a serializer to text and its inverse.
_KINDS: Mapping[type, tuple[str, Callable[[Any], str], Callable[[str], Any]]] = {
    int: ('"long"', str, int),
    str: ('"string"', str, str),
    float: ('"double"', repr, float),
    bytes: ('"binary"', lambda value: base64.b64encode(value).decode(), base64.b64decode),
    datetime: ('"timestamp"', datetime.isoformat, datetime.fromisoformat),
    date: ('"date"', date.isoformat, date.fromisoformat),
    Decimal: ('"decimal(38,18)"', str, Decimal),
}
# The type of the version if snapshots are read from a dataset.
TIME_OF_UPDATE = _KINDS[datetime][0]


class InvalidSnapshotVersion(Exception):
    """A value cannot be the version of a snapshot."""


@dataclass(frozen=True)
class SnapshotProgress:
    """The snapshot that a flow started last.

    Attributes:
        number: how many were started before it.
        version: its version.
        previous: version of the snapshot before it; None for the first.
    """

    number: int
    version: Any
    previous: Any = None

    def to_json(self) -> dict[str, Any]:
        """The stored form."""
        return {"number": self.number, "version": _stored(self.version), "before": _stored(self.previous)}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> SnapshotProgress:
        """The progress from its stored form."""
        return SnapshotProgress(int(raw["number"]), _read(raw["version"]), _read(raw["before"]))


@dataclass(frozen=True)
class SnapshotState:
    """The state before the next snapshot.

    Attributes:
        version: version of the newest snapshot in the table; None without one.
        table: columns of the table; None if it does not exist or is cleared.
    """

    version: Any = None
    table: Schema | None = None


def type_of(version: Any) -> str:
    """Spark's JSON of the type of a version.

    Raises:
        InvalidSnapshotVersion: the value cannot be a version.
    """
    return _kind(version)[0]


def is_later(version: Any, previous: Any) -> bool:
    """True if *version* comes after *previous*; every version comes after None.

    Raises:
        InvalidSnapshotVersion: the value cannot be a version, or cannot be compared with the previous one.
    """
    _kind(version)
    if previous is None:
        return True
    try:
        return bool(version > previous)
    except TypeError as error:
        kinds = f"{type(version).__name__} and {type(previous).__name__}"
        raise InvalidSnapshotVersion(
            f"{version!r} cannot be compared with the previous version {previous!r}: {kinds}"
        ) from error


def _kind(version: Any) -> tuple[str, Callable[[Any], str], Callable[[str], Any]]:
    known = None if isinstance(version, bool) else _KINDS.get(type(version))
    if known is None:
        kinds = ", ".join(kind.__name__ for kind in _KINDS)
        raise InvalidSnapshotVersion(f"{version!r} has type {type(version).__name__}, but must be one of {kinds}")
    return known


def _stored(version: Any) -> list[str] | None:
    return None if version is None else [type(version).__name__, _kind(version)[1](version)]


def _read(raw: Any) -> Any:
    if raw is None:
        return None
    name, text = raw
    return next(read for kind, (_, _, read) in _KINDS.items() if kind.__name__ == name)(text)
