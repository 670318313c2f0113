"""Change data capture flows, as declared by the user."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Columns:
    """Some columns: those that are listed, or all but those."""

    listed: tuple[str, ...] = ()
    all_but: bool = True

    def __str__(self) -> str:
        listed = f"({', '.join(sorted(name.casefold() for name in self.listed))})"
        if not self.all_but:
            return listed
        return f"all columns but {listed}" if self.listed else "all columns"

    def chosen(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The selected ones of *names*, in their order; case does not matter."""
        listed = {name.casefold() for name in self.listed}
        return tuple(name for name in names if (name.casefold() in listed) is not self.all_but)

    def unknown(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The listed columns that are not among *names*."""
        known = {name.casefold() for name in names}
        return tuple(name for name in self.listed if name.casefold() not in known)


ALL_COLUMNS = Columns()
NO_COLUMNS = Columns(all_but=False)
# The third value of stored_as_scd_type, besides "1" and "2".
BITEMPORAL = "bitemporal"
_NO_HISTORY = "an SCD type 1 table keeps no history; set stored_as_scd_type=2"


@dataclass(frozen=True)
class ApplyChanges:
    """How the events of a source change a streaming table.

    Expressions are SQL text or a Spark Column, opaque here.

    Attributes:
        source: the name of the dataset or table with the events; None if the flow has its own query.
        keys: the key columns; names or Columns.
        sequence_by: orders the events.
        deletes: true for an event that deletes its row.
        truncates: true for an event that deletes all rows that are not newer.
        columns: the columns of the source that the target has.
        ignore_null_columns: columns in which NULL keeps the old value.
        sets: the column with the names of the columns that an event sets.
        scd_type: as the user wrote it.
        tracked: columns whose change begins a new version.
        system_sequence_by: when an event became known, for bitemporal tables.
        reads_feed: the source is a table that CDC flows merge into, and its change feed is read.
    """

    source: str | None
    keys: tuple[Any, ...]
    sequence_by: Any
    deletes: Any = None
    truncates: Any = None
    columns: Columns = ALL_COLUMNS
    ignore_null_columns: Columns = NO_COLUMNS
    sets: Any = None
    scd_type: str = "1"
    tracked: Columns = ALL_COLUMNS
    system_sequence_by: Any = None
    reads_feed: bool = False

    @property
    def bitemporal(self) -> bool:
        """True if the table is bitemporal."""
        return self.scd_type == BITEMPORAL


@dataclass(frozen=True)
class CompareSnapshots:
    """How successive full snapshots of a source change a streaming table.

    Attributes:
        source: the name of the dataset or table; None if the flow's function returns the next snapshot.
        keys: the key columns; names or Columns.
        scd_type: as the user wrote it.
        tracked: columns whose change begins a new version.
    """

    source: str | None
    keys: tuple[Any, ...]
    scd_type: str = "1"
    tracked: Columns = ALL_COLUMNS

    @property
    def calls_function(self) -> bool:
        """True if a function returns the snapshots."""
        return self.source is None


def conflict(changes: ApplyChanges) -> tuple[str, str] | None:
    """An argument that conflicts with another one, and why; None if all are compatible."""
    if changes.sets is not None and changes.ignore_null_columns != NO_COLUMNS:
        return "columns_to_update", "it already says which columns an event sets; leave out ignore_null_updates"
    if changes.truncates is not None and changes.scd_type != "1":
        return "apply_as_truncates", "only SCD type 1 tables can be truncated by an event"
    if changes.tracked != ALL_COLUMNS and changes.scd_type == "1":
        return "track_history_column_list", _NO_HISTORY
    if changes.bitemporal and changes.system_sequence_by is None:
        return "stored_as_scd_type", "a bitemporal table needs system_sequence_by (when an event became known)"
    if changes.system_sequence_by is not None and not changes.bitemporal:
        return "system_sequence_by", "only bitemporal tables have it: set stored_as_scd_type to bitemporal"
    if changes.sets is not None and changes.bitemporal:
        return "columns_to_update", "in a bitemporal table, each event sets all columns"
    return None


def snapshot_conflict(compares: CompareSnapshots) -> tuple[str, str] | None:
    """The same for snapshots."""
    if compares.tracked != ALL_COLUMNS and compares.scd_type == "1":
        return "track_history_column_list", _NO_HISTORY
    return None
