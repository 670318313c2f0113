"""Change events, and which of several events with the same key and sequence wins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Change(str, Enum):
    """What an event does."""

    UPSERT = "upsert"
    DELETE = "delete"
    # Removes all rows that are not newer than the event, which has no key.
    TRUNCATE = "truncate"


@dataclass(frozen=True)
class Event:
    """One change of one key.

    Attributes:
        key: values of the key columns; empty for a truncate.
        sequence: orders the events; a tuple for several columns.
        change: what the event does.
        row: values of the target's columns.
        sets: columns that the event sets; None for all.
        system: when the event became known; for bitemporal tables only.
    """

    key: tuple[Any, ...]
    sequence: Any
    change: Change = Change.UPSERT
    row: Mapping[str, Any] = field(default_factory=dict)
    sets: frozenset[str] | None = None
    system: Any = None


def sort_key(value: Any) -> Any:
    """A sort key that puts NULL first, also inside tuples: the order of Spark's ``max`` over structs."""
    if value is None:
        return (0,)
    if isinstance(value, (tuple, list)):
        return (1, tuple(map(sort_key, value)))
    return (1, value)


def resolve_sequence_conflicts(
    events: Iterable[Event], columns: tuple[str, ...], *, upserts_win: bool = False
) -> list[Event]:
    """One event per sequence, in ascending order: a delete wins, then the greatest row.

    Args:
        events: events of one key.
        columns: the order in which columns are compared.
        upserts_win: a delete loses instead.
    """
    best: dict[Any, Event] = {}
    for event in events:
        position = sort_key(event.sequence)
        known = best.get(position)
        if known is None or _weight(event, columns, upserts_win) > _weight(known, columns, upserts_win):
            best[position] = event
    return [best[position] for position in sorted(best)]


def _weight(event: Event, columns: tuple[str, ...], upserts_win: bool) -> Any:  # noqa: FBT001 - as its caller
    if event.change is Change.DELETE:
        return (-1,) if upserts_win else (1,)
    values = tuple(event.row.get(column) for column in columns)
    sets = tuple(sorted(event.sets)) if event.sets is not None else None
    return (0, sort_key(values), sort_key(sets))
