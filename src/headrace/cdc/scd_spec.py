"""How change events become rows: the part of a flow's declaration that determines its result, with names resolved."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

START_AT, END_AT = "__START_AT", "__END_AT"
# Bitemporal tables only: when a version became known, and when it was superseded.
SYSTEM_START_AT, SYSTEM_END_AT = "__SYSTEM_START_AT", "__SYSTEM_END_AT"
ALL_TIMES = (START_AT, END_AT, SYSTEM_START_AT, SYSTEM_END_AT)


class ScdType(str, Enum):
    """How much history a table keeps: the current row of each key, or every version of it."""

    ONE = "1"
    TWO = "2"


@dataclass(frozen=True)
class ScdSpec:
    """The columns of a target and how events change them.

    Attributes:
        keys: columns that identify a row.
        columns: columns of the target in order, including the keys and without the validity columns.
        scd_type: how much history is kept.
        tracked: columns whose change begins a new version; others are updated in the open version.
        ignore_null_columns: columns in which NULL keeps the old value.
        partial: each event names the columns that it sets and leaves the others unchanged.
        upserts_win: an upsert wins over a delete with the same sequence; otherwise the delete wins.
        bitemporal: corrected versions are kept too, with the time in which they were known; ``scd_type`` is two.
    """

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    scd_type: ScdType = ScdType.ONE
    tracked: tuple[str, ...] = ()
    ignore_null_columns: frozenset[str] = frozenset()
    partial: bool = False
    upserts_win: bool = False
    bitemporal: bool = False

    @property
    def keeps_versions(self) -> bool:
        """True if the target has a row for each version of a key (SCD type 2)."""
        return self.scd_type is ScdType.TWO

    @property
    def validity_columns(self) -> tuple[str, ...]:
        """The columns that the target adds to ``columns``."""
        found = (START_AT, END_AT) if self.keeps_versions else ()
        return (*found, SYSTEM_START_AT, SYSTEM_END_AT) if self.bitemporal else found

    @property
    def events_are_full_rows(self) -> bool:
        """True if each event sets every column, so that the newest event alone determines the row."""
        return not self.partial and not self.ignore_null_columns

    @property
    def versioning_columns(self) -> tuple[str, ...]:
        """The columns whose change begins a new version; none for SCD type 1."""
        return self.tracked if self.keeps_versions else ()
