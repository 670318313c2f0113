"""Synthetic events: a seeded source without a server, for tests, demonstrations and measurements.

Row n depends only on the options and n, not on batches and tasks. So a repeated batch is the same, and two streams with
the same options have the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.autoloader.discovery import Clock
from headrace.autoloader.reading.conversion.arrow_types import NoArrowType, arrow_schema
from headrace.model.ddl import InvalidDdl, JsonType, parse_struct
from headrace.options.option import Kind, Option, OptionTable
from headrace.options.parse import parse_options
from headrace.sources.stream_source import Offset, PreparedSource, ReadContext
from headrace.sources.synthetic_values import (
    Codes,
    codes_of,
    salt_of,
    texts_with_number,
    uniform,
    values_of,
    with_nulls,
    zipf_ranks,
)

COLUMNS = "event_id BIGINT, event_time TIMESTAMP, key STRING, event_type STRING, value DOUBLE"
EVENT_TYPES = ("view", "click", "cart", "purchase", "refund")
# The columns that identify an event are never NULL.
_NEVER_NULL = ("event_id", "event_time", "key")
_WHOLE_NUMBERS: Mapping[str, Any] = {"integer": np.int32, "long": np.int64}
# The maximum distance of a duplicate from its original.
MAX_DUPLICATE_DISTANCE_ROWS = 1000
_BATCH_ROWS = 50_000
_MIN_TASK_ROWS = 20_000
_MAX_KEYS = 10_000_000

FORMAT = OptionTable(
    "synthetic",
    (
        Option("seed", Kind.INTEGER, "Seed of the random values", "0"),
        Option(
            "rowsPerSecond",
            Kind.POSITIVE_INTEGER,
            "Rows that become available per second",
            "10, if `rowsPerBatch` and `numRows` are not set",
        ),
        Option(
            "rowsPerBatch", Kind.POSITIVE_INTEGER, "Rows per batch; the maximum, if `rowsPerSecond` is set", "100000"
        ),
        Option(
            "numRows",
            Kind.POSITIVE_INTEGER,
            "Total number of rows. Required for batch reads; a triggered update reads all of them",
        ),
        Option("keys", Kind.POSITIVE_INTEGER, "Number of distinct keys; at most 10 million", "1000"),
        Option("skew", Kind.NUMBER, "Exponent of the Zipf distribution of keys. 0: all keys are equally frequent", "0"),
        Option(
            "lateShare", Kind.FRACTION, "Share of rows with an `event_time` earlier than their position implies", "0"
        ),
        Option("maxLateness", Kind.INTERVAL, "Maximum lateness of these rows", "10 minutes"),
        Option(
            "duplicateShare",
            Kind.FRACTION,
            "Share of rows that duplicate one of the 1,000 rows before them; below 1",
            "0",
        ),
        Option(
            "nullShare", Kind.FRACTION, "Share of NULLs in all columns except `event_id`, `event_time` and `key`", "0"
        ),
        Option("startTime", Kind.TIME, "`event_time` of the first row", "2026-01-01T00:00:00Z"),
        Option(
            "eventInterval",
            Kind.INTERVAL,
            "Time between the `event_time` of two rows",
            "1 s / `rowsPerSecond`; without it 1 ms",
        ),
        Option("schema", Kind.TEXT, "Columns as DDL; the same as `.schema(...)`", COLUMNS),
        Option(
            "numPartitions", Kind.POSITIVE_INTEGER, "Maximum number of tasks per batch", "the session's parallelism"
        ),
    ),
)
_START_US = 1_767_225_600_000_000
_DEFAULT_ROWS_PER_SECOND = 10


@dataclass(frozen=True)
class SyntheticEvents:
    """A ``synthetic`` source."""

    columns: JsonType
    seed: int
    rows_per_second: int | None
    rows_per_batch: int
    num_rows: int | None
    keys: int
    skew: float
    late_share: float
    max_lateness_us: int
    duplicate_share: float
    null_share: float
    start_us: int
    interval_us: int
    partitions: int

    @staticmethod
    def of(prepared: PreparedSource) -> SyntheticEvents:
        """The events of a prepared reader."""
        return SyntheticEvents(columns=prepared.columns, **prepared.settings)

    def stream(self, clock: Clock) -> SyntheticStream:
        """A stream of the events."""
        return SyntheticStream(self, clock)

    def batch(self, clock: Clock) -> Sequence[tuple[int, int]]:
        """All events."""
        del clock
        return self.tasks(0, self.num_rows or 0)

    def rows(self, task: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        """The rows with numbers from the first to the end of a task, exclusive."""
        first, end = task
        schema = arrow_schema(self.columns)
        for batch_start in range(first, end, _BATCH_ROWS):
            numbers = np.arange(batch_start, min(batch_start + _BATCH_ROWS, end), dtype=np.uint64)
            originals = self._originals(numbers)
            arrays = [self._column(field, originals) for field in self.columns["fields"]]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def tasks(self, first: int, end: int) -> list[tuple[int, int]]:
        """Ranges of about the same size for the tasks of a batch."""
        count = max(min(self.partitions, (end - first) // _MIN_TASK_ROWS), 1)
        edges = [first + (end - first) * number // count for number in range(count + 1)]
        return [(lower, upper) for lower, upper in pairwise(edges) if lower < upper]

    def _originals(self, numbers: Codes) -> Codes:
        """The numbers of rows, and for duplicates those of their originals."""
        if not self.duplicate_share:
            return numbers
        found: Codes = numbers.copy()
        unresolved = np.arange(len(numbers))
        while unresolved.size:
            current = found[unresolved]
            repeats = (uniform(codes_of(current, self._salt("duplicate"))) < self.duplicate_share) & (current > 0)
            unresolved, current = unresolved[repeats], current[repeats]
            distance = np.minimum(current, np.uint64(MAX_DUPLICATE_DISTANCE_ROWS))
            found[unresolved] = (
                current - np.uint64(1) - codes_of(current, self._salt("original")) % np.maximum(distance, 1)
            )
        return found

    def _column(self, field: Mapping[str, Any], numbers: Codes) -> pa.Array:
        name, kind = field["name"], field["type"]
        values = self._special(name.casefold(), kind, numbers)
        if values is None:
            values = values_of(kind, codes_of(numbers, self._salt("column", name)), self.start_us)
        if self.null_share and name.casefold() not in _NEVER_NULL:
            values = with_nulls(values, uniform(codes_of(numbers, self._salt("null", name))) < self.null_share)
        return values

    def _special(self, name: str, kind: JsonType, numbers: Codes) -> pa.Array | None:
        """A column with a meaning; None for one with random values of its type."""
        if name == "event_id" and kind in _WHOLE_NUMBERS:
            return pa.array(numbers.astype(_WHOLE_NUMBERS[kind]))
        if name == "event_id" and kind == "string":
            return texts_with_number("event-", numbers.astype(np.int64))
        if name == "event_time" and kind in ("timestamp", "timestamp_ntz"):
            zone = "UTC" if kind == "timestamp" else None
            return pa.array(self._event_times_us(numbers)).cast(pa.timestamp("us", tz=zone))
        if name == "key" and (kind == "string" or kind in _WHOLE_NUMBERS):
            ranks = zipf_ranks(codes_of(numbers, self._salt("key")), self.keys, self.skew)
            return (
                texts_with_number("key-", ranks) if kind == "string" else pa.array(ranks.astype(_WHOLE_NUMBERS[kind]))
            )
        if name == "event_type" and kind == "string":
            ranks = zipf_ranks(codes_of(numbers, self._salt("event_type")), len(EVENT_TYPES), 1.0)
            return pa.array(EVENT_TYPES).take(pa.array(ranks))
        return None

    def _event_times_us(self, numbers: Codes) -> Any:
        times_us = self.start_us + numbers.astype(np.int64) * self.interval_us
        if self.late_share:
            late = uniform(codes_of(numbers, self._salt("late"))) < self.late_share
            behind_us = uniform(codes_of(numbers, self._salt("lateness"))) * self.max_lateness_us
            times_us -= np.where(late, np.ceil(behind_us).astype(np.int64), 0)
        return times_us

    def _salt(self, *purpose: str) -> int:
        return salt_of(self.seed, *purpose)


class SyntheticStream:
    """The batches of one query. An offset holds the number of the next row, and the time at which the stream began."""

    def __init__(self, events: SyntheticEvents, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        # A triggered query ends at the last row that was available at its start.
        self._is_available_now = False
        self._end_row: int | None = None
        self._newest: Offset | None = None

    def initial(self) -> Offset:
        """Before the first row. The rows of one second are available at once, more from now on."""
        return {"row": 0, "since_ms": self._now_ms() - 1000}

    def prepare_for_available_now(self) -> None:
        """End the stream at the rows available at the next batch.

        These are all rows of a limited stream, whatever its rate; the rows by its rate of an unlimited one; and one
        batch without a rate.
        """
        self._is_available_now, self._end_row = True, None

    def latest(self, start: Offset, *, everything: bool) -> Offset:
        """The end of the batch that starts at *start*."""
        row, events = int(start["row"]), self._events
        end_row = self._end_row if self._end_row is not None else self._available(start)
        if self._is_available_now:
            self._end_row = end_row
        end = end_row if everything else min(end_row, row + events.rows_per_batch)
        self._newest = {**start, "row": max(end_row, row)}
        return {**start, "row": max(end, row)}

    def newest(self) -> Offset | None:
        """The rows that were available when the last batch was planned."""
        return self._newest

    def tasks(self, start: Offset, end: Offset) -> Sequence[tuple[int, int]]:
        """Ranges of row numbers."""
        return self._events.tasks(int(start["row"]), int(end["row"]))

    def commit(self, end: Offset) -> None:
        """Do nothing: rows can be generated again at any time."""

    def close(self) -> None:
        """Do nothing: there are no resources."""

    def _available(self, start: Offset) -> int:
        """The number after the last available row."""
        events = self._events
        if events.num_rows is not None and (self._is_available_now or events.rows_per_second is None):
            return events.num_rows
        if events.rows_per_second is None:
            return int(start["row"]) + events.rows_per_batch
        available = (self._now_ms() - int(start["since_ms"])) * events.rows_per_second // 1000
        return available if events.num_rows is None else min(available, events.num_rows)

    def _now_ms(self) -> int:
        return self._clock.now_ns() // 1_000_000


def prepare_synthetic(given: Mapping[str, Any], schema: JsonType | None, context: ReadContext) -> PreparedSource:
    """Prepare a reader.

    Args:
        given: the options by name.
        schema: the columns as Spark's JSON, if the reader has a schema.
        context: a stream needs no limit.

    Raises:
        Problems: every invalid option.
    """
    parsed = parse_options(FORMAT, given, time_zone=context.time_zone)
    columns = schema
    try:
        columns = columns or parse_struct(parsed.get("schema", COLUMNS))
        arrow_schema(columns)
        for field in columns["fields"]:
            values_of(field["type"], np.zeros(0, np.uint64), 0)
    except (InvalidDdl, NoArrowType) as error:
        parsed.reject("schema", str(error))
    if not context.is_streaming and "numRows" not in parsed.values:
        parsed.add_problem(
            "SOURCE.OPTION_MISSING", option="numRows", about="A batch reads all rows, so it needs a limit"
        )
    if parsed.get("keys", 1) > _MAX_KEYS:
        parsed.reject("keys", f"it is {_MAX_KEYS} at most")
    if parsed.get("duplicateShare", 0.0) >= 1:
        parsed.reject("duplicateShare", "it is below 1, because some rows must be new")
    parsed.check()
    per_second = parsed.get("rowsPerSecond")
    if per_second is None and not {"rowsPerBatch", "numRows"} & parsed.values.keys():
        per_second = _DEFAULT_ROWS_PER_SECOND
    interval_s = parsed.get("eventInterval", 1 / per_second if per_second else 0.001)
    events = SyntheticEvents(
        columns=columns,
        seed=parsed.get("seed", 0),
        rows_per_second=per_second,
        rows_per_batch=parsed.get("rowsPerBatch", 100_000),
        num_rows=parsed.get("numRows"),
        keys=parsed.get("keys", 1000),
        skew=parsed.get("skew", 0.0),
        late_share=parsed.get("lateShare", 0.0),
        max_lateness_us=round(parsed.get("maxLateness", 600.0) * 1e6),
        duplicate_share=parsed.get("duplicateShare", 0.0),
        null_share=parsed.get("nullShare", 0.0),
        start_us=parsed.get("startTime", _START_US),
        interval_us=round(interval_s * 1e6),
        partitions=parsed.get("numPartitions", context.parallelism),
    )
    settings = {name: value for name, value in asdict(events).items() if name != "columns"}
    return PreparedSource(FORMAT.name, f"synthetic events of seed {events.seed}", columns, settings)
