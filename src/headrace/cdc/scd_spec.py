"""How change events become rows: the part of a flow's declaration that its result depends on, with every name known."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

START_AT, END_AT = "__START_AT", "__END_AT"
# Of tables with two times: since when a version was known, and until when.
SYSTEM_START_AT, SYSTEM_END_AT = "__SYSTEM_START_AT", "__SYSTEM_END_AT"
ALL_TIMES = (START_AT, END_AT, SYSTEM_START_AT, SYSTEM_END_AT)


class ScdType(str, Enum):
    """How much of the past a table keeps: the current row of each key, or every version of it."""

    ONE = "1"
    TWO = "2"


@dataclass(frozen=True)
class ScdSpec:
    """The columns of a target and how events change them.

    Attributes:
        keys: columns that tell rows apart.
        columns: those of the target in its order, all keys among them, without the times that it has beside its own.
        scd_type: how much of the past is kept.
        tracked: columns whose change begins a new version; the others are updated in the version that is open.
        null_keeps: columns in which a NULL leaves what was there.
        partial: events say themselves which columns they set; each leaves the others as they were.
        upserts_win: of a delete and an upsert with one sequence the upsert counts, and otherwise the delete.
        bitemporal: beside every version that holds, those are kept that were once believed to; ``scd_type`` is two.
    """

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    scd_type: ScdType = ScdType.ONE
    tracked: tuple[str, ...] = ()
    null_keeps: frozenset[str] = frozenset()
    partial: bool = False
    upserts_win: bool = False
    bitemporal: bool = False

    @property
    def times(self) -> tuple[str, ...]:
        """The columns that the target has beside its own."""
        found = (START_AT, END_AT) if self.scd_type is ScdType.TWO else ()
        return (*found, SYSTEM_START_AT, SYSTEM_END_AT) if self.bitemporal else found

    @property
    def whole_rows(self) -> bool:
        """True when each event sets every column, so that the newest alone says what a row is."""
        return not self.partial and not self.null_keeps

    @property
    def begins_versions(self) -> tuple[str, ...]:
        """The columns whose change begins a new version: none where only the current row is kept."""
        return self.tracked if self.scd_type is ScdType.TWO else ()
