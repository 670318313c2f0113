"""Versions of snapshots: which are later than others, how they are stored, and what of them a flow has taken."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from headrace.model.schema import Schema

# Kinds of versions, each with Spark's JSON of its type, and how a value becomes text and a value again.
_KINDS: Mapping[type, tuple[str, Callable[[Any], str], Callable[[str], Any]]] = {
    int: ('"long"', str, int),
    str: ('"string"', str, str),
    float: ('"double"', repr, float),
    bytes: ('"binary"', lambda value: base64.b64encode(value).decode(), base64.b64decode),
    datetime: ('"timestamp"', datetime.isoformat, datetime.fromisoformat),
    date: ('"date"', date.isoformat, date.fromisoformat),
    Decimal: ('"decimal(38,18)"', str, Decimal),
}
# Of the version of a snapshot that is taken of a dataset.
TIME_OF_UPDATE = _KINDS[datetime][0]


class NoVersion(Exception):
    """A value cannot be the version of a snapshot."""


@dataclass(frozen=True)
class Begun:
    """The snapshot that a flow has begun to take last.

    Attributes:
        number: how many were begun before it.
        version: its version.
        before: that of the one before it; None for the first.
    """

    number: int
    version: Any
    before: Any = None

    def to_json(self) -> dict[str, Any]:
        """What is stored."""
        return {"number": self.number, "version": _stored(self.version), "before": _stored(self.before)}

    @staticmethod
    def from_json(raw: Mapping[str, Any]) -> Begun:
        """What was stored."""
        return Begun(int(raw["number"]), _read(raw["version"]), _read(raw["before"]))


@dataclass(frozen=True)
class Taken:
    """What there is of snapshots before the next one.

    Attributes:
        version: of the newest one that is in the table; None when none is.
        table: the columns of the table; None when there is no table, or it is cleared.
    """

    version: Any = None
    table: Schema | None = None


def type_of(version: Any) -> str:
    """Spark's JSON of the type of a version.

    Raises:
        NoVersion: it is none.
    """
    return _kind(version)[0]


def is_later(version: Any, before: Any) -> bool:
    """Whether a version comes after another one; the first comes after None.

    Raises:
        NoVersion: it is none, or cannot be compared with the one before.
    """
    _kind(version)
    if before is None:
        return True
    try:
        return bool(version > before)
    except TypeError as error:
        kinds = f"{type(version).__name__} and {type(before).__name__}"
        raise NoVersion(f"{version!r} cannot be compared with the previous version {before!r}: {kinds}") from error


def _kind(version: Any) -> tuple[str, Callable[[Any], str], Callable[[str], Any]]:
    known = None if isinstance(version, bool) else _KINDS.get(type(version))
    if known is None:
        kinds = ", ".join(kind.__name__ for kind in _KINDS)
        raise NoVersion(f"{version!r} has type {type(version).__name__}, but must be one of {kinds}")
    return known


def _stored(version: Any) -> list[str] | None:
    return None if version is None else [type(version).__name__, _kind(version)[1](version)]


def _read(raw: Any) -> Any:
    if raw is None:
        return None
    name, text = raw
    return next(read for kind, (_, _, read) in _KINDS.items() if kind.__name__ == name)(text)
