"""Flows that apply changes, as declared by the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Columns:
    """Some columns: those that are listed, or all but those."""

    listed: tuple[str, ...] = ()
    all_but: bool = True

    def chosen(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Those of *names*, in their order; case does not matter."""
        listed = {name.casefold() for name in self.listed}
        return tuple(name for name in names if (name.casefold() in listed) is not self.all_but)

    def unknown(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """What is listed and not among *names*."""
        known = {name.casefold() for name in names}
        return tuple(name for name in self.listed if name.casefold() not in known)


ALL_COLUMNS = Columns()
NO_COLUMNS = Columns(all_but=False)


@dataclass(frozen=True)
class ApplyChanges:
    """How the events of a source change a streaming table.

    Expressions are SQL text or a Column of Spark's, kept opaque here.

    Attributes:
        source: the name of a dataset or table that is read as a stream.
        keys: what tells rows apart; names or Columns.
        sequence_by: what events are ordered by.
        deletes: true for an event that takes its row away.
        truncates: true for an event that takes all rows away which are not newer.
        columns: of the source, those of the target.
        null_keeps: columns in which a NULL leaves what was there.
        sets: the column with the names of the columns that an event sets.
        scd_type: as the user wrote it.
        tracked: columns whose change begins a new version.
    """

    source: str
    keys: tuple[Any, ...]
    sequence_by: Any
    deletes: Any = None
    truncates: Any = None
    columns: Columns = ALL_COLUMNS
    null_keeps: Columns = NO_COLUMNS
    sets: Any = None
    scd_type: str = "1"
    tracked: Columns = ALL_COLUMNS


def conflict(changes: ApplyChanges) -> tuple[str, str] | None:
    """The argument that another one leaves no room for, and why; None when all of them go together."""
    if changes.sets is not None and changes.null_keeps != NO_COLUMNS:
        return "columns_to_update", "it says itself which columns an event sets, without ignore_null_updates"
    if changes.truncates is not None and changes.scd_type != "1":
        return "apply_as_truncates", "only a table that keeps the current rows can be truncated by an event"
    return None
