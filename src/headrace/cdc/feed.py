"""What is known of a flow that applies changes, once its source was looked at."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.cdc.shape import Shape


@dataclass(frozen=True)
class Feed:
    """How the events of a source become rows of a target.

    Attributes:
        shape: of the rows.
        sequence: what events are ordered by, as Spark spells it.
        sequence_type: Spark's JSON of the type that events are ordered by.
        source_json: Spark's JSON of the source's columns, which a quarantine keeps.
        told_by_rows: the sequence of a row can be computed from its columns.
        told_in_merge: in a condition of a MERGE as well, which may not call Python.
    """

    shape: Shape
    sequence: str
    sequence_type: str
    source_json: str
    told_by_rows: bool
    told_in_merge: bool

    @property
    def meaning(self) -> str:
        """What rows and remembered events of earlier batches say, in words: the same where they may be gone on with."""
        shape = self.shape
        nulls = f", NULL leaves {_listed(sorted(shape.null_keeps))} as it was" if shape.null_keeps else ""
        sets = ", events say what they set" if shape.partial else ""
        told = "" if self.told_by_rows or not shape.whole_rows else ", which the table does not show"
        keys = f"type {shape.scd_type.value} by {_listed(shape.keys)}"
        return f"{keys} in the order of {self.sequence}{told}{nulls}{sets}"

    def agrees_with(self, other: Feed) -> bool:
        """True when the events of two flows into one table can be ordered with each other, and mean the same rows."""
        same = (self.shape, self.sequence_type, self.told_by_rows)
        if same != (other.shape, other.sequence_type, other.told_by_rows):
            return False
        # Rows that tell a sequence tell it to all of the flows.
        return self.sequence == other.sequence or not self.told_by_rows


def _listed(names: Iterable[str]) -> str:
    return f"({', '.join(names)})"
