"""What is known of a flow that applies changes, once its source was looked at."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.cdc.shape import Shape


@dataclass(frozen=True)
class Feed:
    """How the events of a source become rows of a target.

    Attributes:
        shape: of the rows.
        sequence_type: Spark's JSON of the type that events are ordered by.
        source_json: Spark's JSON of the source's columns, which a quarantine keeps.
        told_by_rows: the sequence of a row can be computed from its columns.
        told_in_merge: in a condition of a MERGE as well, which may not call Python.
    """

    shape: Shape
    sequence_type: str
    source_json: str
    told_by_rows: bool
    told_in_merge: bool
