"""Change events as values, and which of several with one key and sequence counts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any


class Change(str, Enum):
    """What an event does."""

    UPSERT = "upsert"
    DELETE = "delete"
    # Takes away all rows that are not newer than it; it has no key.
    TRUNCATE = "truncate"


@dataclass(frozen=True)
class Event:
    """One change of one key.

    Attributes:
        key: the values of the key columns; empty for a truncate.
        sequence: what events are ordered by; a tuple for several columns.
        change: what it does.
        row: the values of the target's columns.
        sets: which columns it sets; None for all.
        system: since when it is known; of tables with two times alone.
    """

    key: tuple[Any, ...]
    sequence: Any
    change: Change = Change.UPSERT
    row: Mapping[str, Any] = field(default_factory=dict)
    sets: frozenset[str] | None = None
    system: Any = None


def rank(value: Any) -> Any:
    """A sort key in which NULL is the least, inside of tuples too: the order of Spark's ``max`` over structs."""
    if value is None:
        return (0,)
    if isinstance(value, (tuple, list)):
        return (1, tuple(map(rank, value)))
    return (1, value)


def without_ties(events: Iterable[Event], columns: tuple[str, ...], *, upserts_win: bool = False) -> list[Event]:
    """One event for each sequence, in ascending order: a delete wins, then the greatest row.

    Args:
        events: of one key.
        columns: in whose order rows are compared.
        upserts_win: a delete loses instead.
    """
    best: dict[Any, Event] = {}
    for event in events:
        at = rank(event.sequence)
        if at not in best or _weight(event, columns, upserts_win) > _weight(best[at], columns, upserts_win):
            best[at] = event
    return [best[at] for at in sorted(best)]


def _weight(event: Event, columns: tuple[str, ...], upserts_win: bool) -> Any:  # noqa: FBT001 - of without_ties
    if event.change is Change.DELETE:
        return (-1,) if upserts_win else (1,)
    values = tuple(event.row.get(column) for column in columns)
    sets = tuple(sorted(event.sets)) if event.sets is not None else None
    return (0, rank(values), rank(sets))
