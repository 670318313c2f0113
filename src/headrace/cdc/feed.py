"""What a flow that applies changes does with the columns of its source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from headrace.cdc.scd_spec import ScdSpec
from headrace.model.cdc import NO_COLUMNS, Columns


class MergePath(str, Enum):
    """How a batch of change events or a snapshot becomes rows. Users see the values, and commits store them."""

    LATEST_EVENT = "the newest event of a key decides"
    RECOMPUTED_KEYS = "the rows of changed keys are recomputed"
    COMPARED_SNAPSHOT = "rows are compared with the snapshot"

    @classmethod
    def _missing_(cls, value: object) -> MergePath | None:
        # Commits of version 0.1 have this text.
        return cls.RECOMPUTED_KEYS if value == "rows are built anew" else None


@dataclass(frozen=True)
class ChangeFeed:
    """How the events of a source become rows of a target.

    Attributes:
        spec: the columns of the target and how events change them.
        sequence: the expression that orders events, as Spark formats it.
        sequence_type: Spark's JSON of its type.
        source_json: Spark's JSON of the source's columns, which a quarantine table stores.
        derivable_from_rows: the sequence of a row can be computed from the columns of the target.
        derivable_in_merge: a MERGE condition, which may not call Python, can compute it too.
        is_delta_change_feed: the source is the change feed of a Delta table, which marks deleted rows itself.
        is_debezium: the source is parsed Debezium messages, which mark them too.
        missing_columns: columns of the target that the source once had and no longer has, with Spark's JSON of their
            types.
        ignore_null_columns: the columns in which NULL keeps the old value, as declared.
        tracked: the columns whose change begins a version, as declared.
        by_commit: of events with the same sequence the later commit wins; ``sequence`` contains the commit.
        sequence_depends_on: what besides the event determines its sequence, for messages; None for nothing.
        system: the expression for when an event became known, as Spark formats it; None unless bitemporal.
        system_type: Spark's JSON of its type.
    """

    spec: ScdSpec
    sequence: str
    sequence_type: str
    source_json: str
    derivable_from_rows: bool
    derivable_in_merge: bool
    is_delta_change_feed: bool = False
    is_debezium: bool = False
    missing_columns: Mapping[str, str] = field(default_factory=dict)
    ignore_null_columns: Columns = NO_COLUMNS
    tracked: Columns | None = None
    by_commit: bool = False
    sequence_depends_on: str | None = None
    system: str | None = None
    system_type: str | None = None

    @property
    def merge_path(self) -> tuple[MergePath, str]:
        """How batches are merged, and why; a batch with truncates always takes ``MergePath.RECOMPUTED_KEYS``."""
        spec = self.spec
        if spec.bitemporal:
            return MergePath.RECOMPUTED_KEYS, "what is known changes what was believed at each time"
        if spec.keeps_versions:
            return MergePath.RECOMPUTED_KEYS, "a late event changes versions before and after it"
        if not spec.events_are_full_rows:
            return (
                MergePath.RECOMPUTED_KEYS,
                "a row is made of several events, because an event may leave columns as they were",
            )
        if not self.derivable_from_rows:
            return (
                MergePath.RECOMPUTED_KEYS,
                f"the table does not show {self.sequence}, so its rows cannot tell how old they are",
            )
        if not self.derivable_in_merge:
            return (
                MergePath.RECOMPUTED_KEYS,
                f"a MERGE cannot compute {self.sequence}: it calls Python or changes with time",
            )
        return MergePath.LATEST_EVENT, f"events set every column, and the table shows {self.sequence}"

    @property
    def signature(self) -> str:
        """The meaning of the rows and retained events of earlier batches, as text: if it is equal, they stay usable."""
        spec = self.spec
        nulls = f", NULL leaves {self.ignore_null_columns} as it was" if self.ignore_null_columns != NO_COLUMNS else ""
        sets = ", events say what they set" if spec.partial else ""
        hidden = "" if self.derivable_from_rows or not spec.events_are_full_rows else ", which the table does not show"
        kind = "bitemporal" if spec.bitemporal else f"type {spec.scd_type.value}"
        begins = (
            f", a version begins with a change of {self.tracked}" if spec.versioning_columns and self.tracked else ""
        )
        known = f", known since {self.system}" if spec.bitemporal else ""
        keys = _listed(sorted(spec.keys, key=str.casefold))
        return f"{kind} by {keys} in the order of {self.sequence}{known}{hidden}{nulls}{sets}{begins}"

    def is_compatible_with(self, other: ChangeFeed) -> bool:
        """True if the events of two flows into one table can be ordered together and lead to the same rows."""
        same = (self.spec, self.sequence_type, self.system_type, self.derivable_from_rows)
        if same != (other.spec, other.sequence_type, other.system_type, other.derivable_from_rows):
            return False
        # A sequence that is derived from rows has to be the same expression in all flows.
        return self.sequence == other.sequence or not self.derivable_from_rows


def _listed(names: Iterable[str]) -> str:
    return f"({', '.join(names)})"
