"""The rows that a set of change events leads to: the definition that every faster way has to agree with."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from headrace.cdc.events import Change, Event, rank, without_ties
from headrace.cdc.scd_spec import ScdSpec, ScdType


@dataclass(frozen=True)
class Version:
    """A row of a key from the sequence *start* on, until before *end*, or until now when that is None."""

    key: tuple[Any, ...]
    row: tuple[Any, ...]
    start: Any
    end: Any = None


@dataclass(frozen=True)
class Belief:
    """A version that was believed to hold from *since* on, until before *until*, or until now when that is None."""

    version: Version
    since: Any
    until: Any = None


def table(events: Iterable[Event], shape: ScdSpec) -> list[Version]:
    """The rows of a target after all of the events, in the order of key and start.

    Law: the result depends on the set of events alone, not on their order, on repetitions, or on how they are batched.

    Args:
        events: of any keys, in any order; truncates are for tables that keep the current rows only.
        shape: how events become rows.

    Returns:
        Every version for SCD type 2; for type 1 the open ones, whose ``start`` is the sequence they exist since.
    """
    by_key: dict[Any, list[Event]] = defaultdict(list)
    truncated: Any = None
    for event in events:
        if event.change is Change.TRUNCATE:
            truncated = max(truncated, rank(event.sequence)) if truncated is not None else rank(event.sequence)
        else:
            by_key[rank(event.key)].append(event)
    found: list[Version] = []
    for key in sorted(by_key):
        # What is not newer than a truncate might as well not have happened.
        valid = (event for event in by_key[key] if truncated is None or rank(event.sequence) > truncated)
        found += history(valid, shape)
    return found if shape.scd_type is ScdType.TWO else [version for version in found if version.end is None]


def history(events: Iterable[Event], shape: ScdSpec) -> list[Version]:
    """The versions of one key, in their order.

    Versions do not overlap, and at most the last one is open. An upsert that changes no tracked column is taken into
    the version that is open at its sequence; a delete ends it.
    """
    versions: list[Version] = []
    for event in without_ties(events, shape.columns, upserts_win=shape.upserts_win):
        current = versions[-1] if versions and versions[-1].end is None else None
        if event.change is Change.DELETE:
            if current is not None:
                versions[-1] = replace(current, end=event.sequence)
            continue
        row = _set(current.row if current is not None else (None,) * len(shape.columns), event, shape)
        if current is None:
            versions.append(Version(event.key, row, event.sequence))
        elif _tracked(row, shape) == _tracked(current.row, shape):
            versions[-1] = replace(current, row=row)
        else:
            versions[-1] = replace(current, end=event.sequence)
            versions.append(Version(event.key, row, event.sequence))
    return versions


def beliefs(events: Iterable[Event], shape: ScdSpec) -> list[Belief]:
    """What was believed of one key over time, in the order of the versions' starts and of when they were first known.

    Law: at each system time the versions that are believed are the :func:`history` of the events known by then; of
    those with one sequence the ones that were known last count.
    """
    events = list(events)
    found: list[Belief] = []
    open_since: dict[Version, Any] = {}
    for time in sorted({event.system for event in events}, key=rank):
        known = [event for event in events if rank(event.system) <= rank(time)]
        last = {rank(event.sequence): event.system for event in sorted(known, key=lambda event: rank(event.system))}
        now = history((event for event in known if event.system == last[rank(event.sequence)]), shape)
        found += [Belief(version, open_since.pop(version), time) for version in [*open_since] if version not in now]
        open_since |= {version: time for version in now if version not in open_since}
    found += [Belief(version, since) for version, since in open_since.items()]
    return sorted(found, key=lambda belief: (rank(belief.version.start), rank(belief.since)))


def _set(before: tuple[Any, ...], event: Event, shape: ScdSpec) -> tuple[Any, ...]:
    """The row after an upsert: what the event does not set stays as it was."""
    return tuple(
        event.row.get(column) if _sets(event, column, shape) else old
        for column, old in zip(shape.columns, before, strict=True)
    )


def _sets(event: Event, column: str, shape: ScdSpec) -> bool:
    if event.sets is not None and column not in event.sets and column not in shape.keys:
        return False
    return event.row.get(column) is not None or column not in shape.null_keeps


def _tracked(row: tuple[Any, ...], shape: ScdSpec) -> tuple[Any, ...]:
    return tuple(value for column, value in zip(shape.columns, row, strict=True) if column in shape.begins_versions)
