"""A sample of records, and what is measured in it. Measures hold names and numbers, never values of the data."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.assistant.design.requirements import Column
from headrace.model.ddl import JsonType
from headrace.model.lateness import SHARES, Lateness
from headrace.model.schema import type_text


@dataclass(frozen=True)
class Sample:
    """Records of a source, in the order of their arrival.

    Attributes:
        source: name of the source.
        format: of the files: ``json``, ``csv``, ``parquet``, ``avro`` or ``orc``.
        files: number of files that were read, at least in part.
        files_found: number of files that are there.
        types: of the columns, as Spark's JSON.
        table: the records.
        is_whole: whether all records of all files were read.
        unreadable: number of records that could not be read, and files.
        now_s: the time of the reading, in seconds since 1970.
        keeps_types: whether the source reads the values with the types that the files have, such as Parquet.
        options: of the reader, without which the files are not read as they were, such as ``header``.
        operations: number of Debezium's change events by operation, such as ``c``; None if the records are none.
        inserted: which rows a change event inserts or a snapshot has; None if the records are no change events, or
            are not read as such.
    """

    source: str
    format: str
    files: int
    files_found: int
    types: Mapping[str, JsonType]
    table: pa.Table
    is_whole: bool
    unreadable: int
    now_s: float
    keeps_types: bool = False
    options: Mapping[str, str] = field(default_factory=dict)
    operations: Mapping[str, int] | None = None
    inserted: npt.NDArray[np.bool_] | None = None


@dataclass(frozen=True)
class TimeMeasure:
    """A column as event time.

    Attributes:
        parsed: share of its values that are timestamps.
        in_order: share of its times that are not before the time of the row before.
        ahead: number of times that are more than a day ahead of the clock; they count in no other number.
        span_s: seconds between the earliest and the newest time.
        lateness: how far times are behind the newest one of the rows before.
    """

    parsed: float
    in_order: float
    ahead: int
    span_s: float
    lateness: Lateness

    @property
    def has_order_of_arrival(self) -> bool:
        """Whether the lateness says something: some rows are late, and by less than half of the time that passed."""
        return self.lateness.late_rows > 0 and (self.lateness.suggested_s or 0) < self.span_s / 2

    def to_json(self) -> dict[str, Any]:
        """The measure as one JSON object."""
        return {
            "parsed_share": round(self.parsed, 6),
            "in_order_share": round(self.in_order, 6),
            "ahead_of_the_clock": self.ahead,
            "span_s": self.span_s,
            "rows_late": self.lateness.late_rows,
            "within_s": {f"{share * 100:g}": self.lateness.within_s(share) for share in SHARES},
            "suggested_delay_s": self.lateness.suggested_s if self.has_order_of_arrival else None,
        }


@dataclass(frozen=True)
class ColumnMeasure:
    """A column of a sample.

    Attributes:
        name: as the files have it.
        type: as Spark's JSON; a column of texts that are timestamps is a timestamp.
        nulls: number of rows without a value.
        distinct: number of distinct values.
        distinct_rows: number of distinct rows with a value in this column.
        time: None if it cannot be an event time.
        epoch: ``seconds``, ``milliseconds`` or ``microseconds`` if its numbers look like times, else None.
    """

    name: str
    type: JsonType
    nulls: int
    distinct: int
    distinct_rows: int
    time: TimeMeasure | None = None
    epoch: str | None = None

    @property
    def unique(self) -> float:
        """Share of distinct values among the distinct rows with a value."""
        return self.distinct / self.distinct_rows if self.distinct_rows else 0.0

    @property
    def column(self) -> Column:
        """The column as requirements have it."""
        return Column(self.name, self.type)


@dataclass(frozen=True)
class KeyMeasure:
    """Columns as a key.

    Attributes:
        names: of the columns.
        nulls: number of rows without a value in one of them.
        repeated: number of rows whose key is in a row before them.
        conflicting: number of those that differ from that row in another column.
    """

    names: tuple[str, ...]
    nulls: int
    repeated: int
    conflicting: int


@dataclass(frozen=True)
class ColumnSet:
    """Columns that are unique together in a sample.

    Attributes:
        names: of the columns.
        rows: number of distinct rows.
        combinations: number of combinations that the values of the columns have.
    """

    names: tuple[str, ...]
    rows: int
    combinations: int

    @property
    def repeated_by_chance(self) -> float:
        """How many pairs of rows would have the same values if these were drawn at random."""
        return self.rows * (self.rows - 1) / 2 / self.combinations


@dataclass(frozen=True)
class SampleMeasures:
    """What is measured in a sample.

    Attributes:
        columns: in their order.
        left_out: names that cannot be columns of requirements.
        rows: number of records.
        repeated_rows: number of rows that equal a row before them.
        not_utf8: number of rows with bytes that are not UTF-8.
        keys: the stated key of the source, if the sample has its columns.
        unique_sets: the smallest sets of columns that are unique together, if no column is unique alone.
        options: as in :class:`Sample`, as are the operations.
        inserted: the measures of inserted rows, if the records are read as change events. Their keys repeat in changes.
    """

    source: str
    format: str
    files: int
    files_found: int
    is_whole: bool
    unreadable: int
    columns: tuple[ColumnMeasure, ...]
    left_out: tuple[str, ...]
    rows: int
    repeated_rows: int
    not_utf8: int
    keys: KeyMeasure | None = None
    unique_sets: tuple[ColumnSet, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    operations: Mapping[str, int] | None = None
    inserted: SampleMeasures | None = None

    @property
    def key_rows(self) -> SampleMeasures:
        """The measures of the rows in which a key is unique."""
        return self if self.inserted is None else self.inserted

    def column(self, name: str | None) -> ColumnMeasure | None:
        """The column with a name; case-insensitive, as in Spark."""
        return next((one for one in self.columns if name and one.name.casefold() == name.casefold()), None)

    def to_json(self) -> dict[str, Any]:
        """The measures as one JSON object."""
        return {
            "source": self.source,
            "format": self.format,
            "files": self.files,
            "files_found": self.files_found,
            "rows": self.rows,
            "is_whole": self.is_whole,
            "unreadable": self.unreadable,
            "not_utf8": self.not_utf8,
            "repeated_rows": self.repeated_rows,
            "unique_sets": [list(one.names) for one in self.key_rows.unique_sets],
            "change_events": None if self.operations is None else dict(self.operations),
            "columns": [_column_json(column) for column in self.columns],
            "columns_left_out": list(self.left_out),
        }


def _column_json(column: ColumnMeasure) -> dict[str, Any]:
    return {
        "name": column.name,
        "type": type_text(column.type),
        "nulls": column.nulls,
        "distinct": column.distinct,
        "unique_share": round(column.unique, 6),
        "time": None if column.time is None else column.time.to_json(),
        "epoch": column.epoch,
    }
