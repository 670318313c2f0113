"""What is known of a flow that applies changes, once its source was looked at."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from headrace.cdc.scd_spec import ScdSpec, ScdType
from headrace.model.cdc import NO_COLUMNS, Columns


class MergePath(str, Enum):
    """How a batch of change events, or a snapshot, becomes rows; the value is for the reader."""

    NEWEST = "the newest event of a key decides"
    REBUILT = "rows are built anew"
    COMPARED = "rows are compared with the snapshot"


@dataclass(frozen=True)
class ChangeFeed:
    """How the events of a source become rows of a target.

    Attributes:
        shape: of the rows.
        sequence: what events are ordered by, as Spark spells it.
        sequence_type: Spark's JSON of the type that events are ordered by.
        source_json: Spark's JSON of the source's columns, which a quarantine keeps.
        told_by_rows: the sequence of a row can be computed from its columns.
        told_in_merge: in a condition of a MERGE as well, which may not call Python.
        of_commits: the source is the change feed of a Delta table, which says itself which rows are gone.
        of_envelopes: the source are opened messages of Debezium, which say the same.
        gone: columns of the target that events bring nothing for, each with Spark's JSON of its type: their source had
            them once.
        null_keeps: the columns in which a NULL leaves what was there, as declared.
        tracked: the columns whose change begins a version, as declared.
        by_commit: of events with one sequence the one of the later commit counts; ``sequence`` has the commit in it.
        ordered_by: what the sequence of an event depends on beside the event, for the reader; None for nothing.
        system: what tells since when an event is known, as Spark spells it; None unless the table has two times.
        system_type: Spark's JSON of its type.
    """

    shape: ScdSpec
    sequence: str
    sequence_type: str
    source_json: str
    told_by_rows: bool
    told_in_merge: bool
    of_commits: bool = False
    of_envelopes: bool = False
    gone: Mapping[str, str] = field(default_factory=dict)
    null_keeps: Columns = NO_COLUMNS
    tracked: Columns | None = None
    by_commit: bool = False
    ordered_by: str | None = None
    system: str | None = None
    system_type: str | None = None

    @property
    def path(self) -> tuple[MergePath, str]:
        """The way that its batches take, and why; those with truncates are built anew whatever it is."""
        shape = self.shape
        if shape.bitemporal:
            return MergePath.REBUILT, "what is known changes what was believed at each time"
        if shape.scd_type is ScdType.TWO:
            return MergePath.REBUILT, "a late event changes versions before and after it"
        if not shape.whole_rows:
            return MergePath.REBUILT, "a row is made of several events, because an event may leave columns as they were"
        if not self.told_by_rows:
            return (
                MergePath.REBUILT,
                f"the table does not show {self.sequence}, so its rows cannot tell how old they are",
            )
        if not self.told_in_merge:
            return MergePath.REBUILT, f"a MERGE cannot compute {self.sequence}: it calls Python or changes with time"
        return MergePath.NEWEST, f"events set every column, and the table shows {self.sequence}"

    @property
    def meaning(self) -> str:
        """What rows and remembered events of earlier batches say, in words: the same where they may be gone on with."""
        shape = self.shape
        nulls = f", NULL leaves {self.null_keeps} as it was" if self.null_keeps != NO_COLUMNS else ""
        sets = ", events say what they set" if shape.partial else ""
        told = "" if self.told_by_rows or not shape.whole_rows else ", which the table does not show"
        kind = "bitemporal" if shape.bitemporal else f"type {shape.scd_type.value}"
        begins = f", a version begins with a change of {self.tracked}" if shape.begins_versions and self.tracked else ""
        known = f", known since {self.system}" if shape.bitemporal else ""
        keys = _listed(sorted(shape.keys, key=str.casefold))
        return f"{kind} by {keys} in the order of {self.sequence}{known}{told}{nulls}{sets}{begins}"

    def agrees_with(self, other: ChangeFeed) -> bool:
        """True when the events of two flows into one table can be ordered with each other, and mean the same rows."""
        same = (self.shape, self.sequence_type, self.system_type, self.told_by_rows)
        if same != (other.shape, other.sequence_type, other.system_type, other.told_by_rows):
            return False
        # Rows that tell a sequence tell it to all of the flows.
        return self.sequence == other.sequence or not self.told_by_rows


def _listed(names: Iterable[str]) -> str:
    return f"({', '.join(names)})"
