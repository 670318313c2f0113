"""The rows that a set of change events leads to: the reference that every faster implementation has to match."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from headrace.cdc.events import Change, Event, resolve_sequence_conflicts, sort_key
from headrace.cdc.scd_spec import ScdSpec


@dataclass(frozen=True)
class Version:
    """A row of a key from the sequence *start* (inclusive) to *end* (exclusive; None: still valid)."""

    key: tuple[Any, ...]
    row: tuple[Any, ...]
    start: Any
    end: Any = None


@dataclass(frozen=True)
class BitemporalVersion:
    """A version that was known from the system time *since* (inclusive) to *until* (exclusive; None: still known)."""

    version: Version
    since: Any
    until: Any = None


def target_rows(events: Iterable[Event], spec: ScdSpec) -> list[Version]:
    """The rows of a target after all events, ordered by key and start.

    Law: the result depends on the set of events alone, not on their order, repetitions or batches.

    Args:
        events: events of any keys, in any order; truncates are for SCD type 1 only.
        spec: how events become rows.

    Returns:
        Every version for SCD type 2; for type 1 the open ones, whose ``start`` is the sequence since which they exist.
    """
    by_key: dict[Any, list[Event]] = defaultdict(list)
    truncated: Any = None
    for event in events:
        if event.change is Change.TRUNCATE:
            truncated = max(truncated, sort_key(event.sequence)) if truncated is not None else sort_key(event.sequence)
        else:
            by_key[sort_key(event.key)].append(event)
    found: list[Version] = []
    for key in sorted(by_key):
        # Events that are not newer than a truncate have no effect.
        valid = (event for event in by_key[key] if truncated is None or sort_key(event.sequence) > truncated)
        found += history(valid, spec)
    return found if spec.keeps_versions else [version for version in found if version.end is None]


def history(events: Iterable[Event], spec: ScdSpec) -> list[Version]:
    """The versions of one key, in order.

    Versions do not overlap, and at most the last one is open. An upsert that changes no tracked column updates the
    version that is open at its sequence; a delete ends that version.
    """
    versions: list[Version] = []
    for event in resolve_sequence_conflicts(events, spec.columns, upserts_win=spec.upserts_win):
        current = versions[-1] if versions and versions[-1].end is None else None
        if event.change is Change.DELETE:
            if current is not None:
                versions[-1] = replace(current, end=event.sequence)
            continue
        row = _set(current.row if current is not None else (None,) * len(spec.columns), event, spec)
        if current is None:
            versions.append(Version(event.key, row, event.sequence))
        elif _tracked(row, spec) == _tracked(current.row, spec):
            versions[-1] = replace(current, row=row)
        else:
            versions[-1] = replace(current, end=event.sequence)
            versions.append(Version(event.key, row, event.sequence))
    return versions


def bitemporal_history(events: Iterable[Event], spec: ScdSpec) -> list[BitemporalVersion]:
    """The bitemporal versions of one key, ordered by start and by when they were first known.

    Law: at each system time the known versions are the :func:`history` of the events known by then; of events with the
    same sequence, those that became known last count.
    """
    events = list(events)
    found: list[BitemporalVersion] = []
    open_since: dict[Version, Any] = {}
    for time in sorted({event.system for event in events}, key=sort_key):
        known = [event for event in events if sort_key(event.system) <= sort_key(time)]
        last = {
            sort_key(event.sequence): event.system for event in sorted(known, key=lambda event: sort_key(event.system))
        }
        now = history((event for event in known if event.system == last[sort_key(event.sequence)]), spec)
        found += [
            BitemporalVersion(version, open_since.pop(version), time) for version in [*open_since] if version not in now
        ]
        open_since |= {version: time for version in now if version not in open_since}
    found += [BitemporalVersion(version, since) for version, since in open_since.items()]
    return sorted(found, key=lambda one: (sort_key(one.version.start), sort_key(one.since)))


def _set(before: tuple[Any, ...], event: Event, spec: ScdSpec) -> tuple[Any, ...]:
    """The row after an upsert: columns that the event does not set keep their values."""
    return tuple(
        event.row.get(column) if _sets(event, column, spec) else old
        for column, old in zip(spec.columns, before, strict=True)
    )


def _sets(event: Event, column: str, spec: ScdSpec) -> bool:
    if event.sets is not None and column not in event.sets and column not in spec.keys:
        return False
    return event.row.get(column) is not None or column not in spec.ignore_null_columns


def _tracked(row: tuple[Any, ...], spec: ScdSpec) -> tuple[Any, ...]:
    return tuple(value for column, value in zip(spec.columns, row, strict=True) if column in spec.versioning_columns)
