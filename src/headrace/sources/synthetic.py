"""Synthetic events: a seeded source without a server, for tests, demonstrations and measurements.

Row n follows from the options and n alone, however the rows are divided into batches and tasks. So a batch that is made
again is the same, and two streams of the same options have the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from headrace.autoloader.ddl import InvalidDdl, JsonType, parse_struct
from headrace.autoloader.discovery import Clock
from headrace.autoloader.reading.arrow_types import NoArrowType, arrow_schema
from headrace.sources.option_reading import Kind, SourceFormat, SourceOption, read_options
from headrace.sources.stream_source import Offset, Prepared, Session
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
# What tells an event is always there.
_NEVER_NULL = ("event_id", "event_time", "key")
_WHOLE_NUMBERS: Mapping[str, Any] = {"integer": np.int32, "long": np.int64}
# How far behind its original a duplicate may come.
DUPLICATE_REACH_ROWS = 1000
_BATCH_ROWS = 50_000
_LEAST_TASK_ROWS = 20_000
_MOST_KEYS = 10_000_000

FORMAT = SourceFormat(
    "synthetic",
    (
        SourceOption("seed", Kind.WHOLE, "Seed of the random values", "0"),
        SourceOption(
            "rowsPerSecond",
            Kind.COUNT,
            "Rows that become available per second",
            "10, if `rowsPerBatch` and `numRows` are not set",
        ),
        SourceOption("rowsPerBatch", Kind.COUNT, "Rows per batch; the maximum, if `rowsPerSecond` is set", "100000"),
        SourceOption(
            "numRows",
            Kind.COUNT,
            "Total number of rows. Required for batch reads; a triggered update reads all of them",
        ),
        SourceOption("keys", Kind.COUNT, "Number of distinct keys; at most 10 million", "1000"),
        SourceOption(
            "skew", Kind.NUMBER, "Exponent of the Zipf distribution of keys. 0: all keys are equally frequent", "0"
        ),
        SourceOption(
            "lateShare", Kind.SHARE, "Share of rows with an `event_time` earlier than their position implies", "0"
        ),
        SourceOption("maxLateness", Kind.INTERVAL, "Maximum lateness of these rows", "10 minutes"),
        SourceOption(
            "duplicateShare", Kind.SHARE, "Share of rows that duplicate one of the 1,000 rows before them; below 1", "0"
        ),
        SourceOption(
            "nullShare", Kind.SHARE, "Share of NULLs in all columns except `event_id`, `event_time` and `key`", "0"
        ),
        SourceOption("startTime", Kind.TIME, "`event_time` of the first row", "2026-01-01T00:00:00Z"),
        SourceOption(
            "eventInterval",
            Kind.INTERVAL,
            "Time between the `event_time` of two rows",
            "1 s / `rowsPerSecond`; without it 1 ms",
        ),
        SourceOption("schema", Kind.TEXT, "Columns as DDL; the same as `.schema(...)`", COLUMNS),
        SourceOption("numPartitions", Kind.COUNT, "Maximum number of tasks per batch", "the session's parallelism"),
    ),
)
_START_US = 1_767_225_600_000_000
_USUAL_ROWS_PER_SECOND = 10


@dataclass(frozen=True)
class SyntheticEvents:
    """What a ``synthetic`` reader means."""

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
    def of(prepared: Prepared) -> SyntheticEvents:
        """The events that a reader means."""
        return SyntheticEvents(columns=prepared.columns, **prepared.settings)

    def stream(self, clock: Clock) -> SyntheticStream:
        """A stream of the events."""
        return SyntheticStream(self, clock)

    def batch(self, clock: Clock) -> Sequence[tuple[int, int]]:
        """All of them."""
        del clock
        return self.tasks(0, self.num_rows or 0)

    def rows(self, task: tuple[int, int]) -> Iterator[pa.RecordBatch]:
        """The rows from a number to below another one."""
        first, end = task
        schema = arrow_schema(self.columns)
        for begin in range(first, end, _BATCH_ROWS):
            numbers = np.arange(begin, min(begin + _BATCH_ROWS, end), dtype=np.uint64)
            originals = self._originals(numbers)
            arrays = [self._column(field, originals) for field in self.columns["fields"]]
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def tasks(self, first: int, end: int) -> list[tuple[int, int]]:
        """Ranges of about the same size for the tasks of a batch."""
        count = max(min(self.partitions, (end - first) // _LEAST_TASK_ROWS), 1)
        edges = [first + (end - first) * number // count for number in range(count + 1)]
        return [(one, other) for one, other in pairwise(edges) if one < other]

    def _originals(self, numbers: Codes) -> Codes:
        """For a row that repeats another one, the other one's number."""
        if not self.duplicate_share:
            return numbers
        found: Codes = numbers.copy()
        open_ = np.arange(len(numbers))
        while open_.size:
            here = found[open_]
            repeats = (uniform(codes_of(here, self._salt("duplicate"))) < self.duplicate_share) & (here > 0)
            open_, here = open_[repeats], here[repeats]
            reach = np.minimum(here, np.uint64(DUPLICATE_REACH_ROWS))
            found[open_] = here - np.uint64(1) - codes_of(here, self._salt("original")) % np.maximum(reach, 1)
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
        """The columns that mean something; None for one that is random values of its type."""
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
    """The batches of one query. An offset is the number of the next row, and when the stream began."""

    def __init__(self, events: SyntheticEvents, clock: Clock) -> None:
        self._events = events
        self._clock = clock
        # Of a triggered query: it ends at what was there at its start.
        self._ends = False
        self._last: int | None = None
        self._newest: Offset | None = None

    def initial(self) -> Offset:
        """Before the first row; the rows of one second are there, more become available from now on."""
        return {"row": 0, "since_ms": self._now_ms() - 1000}

    def end_at_what_is_there(self) -> None:
        """Let what is there at the next batch be all: every row of a stream that has an end, whatever its rate.

        Without an end it is what the rate has given, and without a rate one batch.
        """
        self._ends, self._last = True, None

    def latest(self, start: Offset, *, everything: bool) -> Offset:
        """The end of the batch behind *start*."""
        row, events = int(start["row"]), self._events
        last = self._last if self._last is not None else self._available(start)
        if self._ends:
            self._last = last
        end = last if everything else min(last, row + events.rows_per_batch)
        self._newest = {**start, "row": max(last, row)}
        return {**start, "row": max(end, row)}

    def newest(self) -> Offset | None:
        """The rows that were there when the last batch was planned."""
        return self._newest

    def tasks(self, start: Offset, end: Offset) -> Sequence[tuple[int, int]]:
        """Ranges of numbers."""
        return self._events.tasks(int(start["row"]), int(end["row"]))

    def committed(self, end: Offset) -> None:
        """Nothing to do: rows can be made again at any time."""

    def close(self) -> None:
        """Nothing is open."""

    def _available(self, start: Offset) -> int:
        """The number behind the last row that there is."""
        events = self._events
        if events.num_rows is not None and (self._ends or events.rows_per_second is None):
            return events.num_rows
        if events.rows_per_second is None:
            return int(start["row"]) + events.rows_per_batch
        there = (self._now_ms() - int(start["since_ms"])) * events.rows_per_second // 1000
        return there if events.num_rows is None else min(there, events.num_rows)

    def _now_ms(self) -> int:
        return self._clock.now_ns() // 1_000_000


def prepare_synthetic(given: Mapping[str, Any], schema: JsonType | None, session: Session) -> Prepared:
    """What a reader means that was given options, and a schema or none.

    Args:
        given: the options by name.
        schema: the columns as Spark's JSON, where they were given beside the options.
        session: a stream needs no end.

    Raises:
        Problems: every option that is wrong.
    """
    found = read_options(FORMAT, given, time_zone=session.time_zone)
    columns = schema
    try:
        columns = columns or parse_struct(found.get("schema", COLUMNS))
        arrow_schema(columns)
        for field in columns["fields"]:
            values_of(field["type"], np.zeros(0, np.uint64), 0)
    except (InvalidDdl, NoArrowType) as error:
        found.wrong("schema", str(error))
    if not session.streams and "numRows" not in found.values:
        found.problem("SOURCE.OPTION_MISSING", option="numRows", about="A batch reads all rows, so it needs a limit")
    if found.get("keys", 1) > _MOST_KEYS:
        found.wrong("keys", f"it is {_MOST_KEYS} at most")
    if found.get("duplicateShare", 0.0) >= 1:
        found.wrong("duplicateShare", "it is below 1, because some rows must be new")
    found.check()
    per_second = found.get("rowsPerSecond")
    if per_second is None and not {"rowsPerBatch", "numRows"} & found.values.keys():
        per_second = _USUAL_ROWS_PER_SECOND
    interval_s = found.get("eventInterval", 1 / per_second if per_second else 0.001)
    events = SyntheticEvents(
        columns=columns,
        seed=found.get("seed", 0),
        rows_per_second=per_second,
        rows_per_batch=found.get("rowsPerBatch", 100_000),
        num_rows=found.get("numRows"),
        keys=found.get("keys", 1000),
        skew=found.get("skew", 0.0),
        late_share=found.get("lateShare", 0.0),
        max_lateness_us=round(found.get("maxLateness", 600.0) * 1e6),
        duplicate_share=found.get("duplicateShare", 0.0),
        null_share=found.get("nullShare", 0.0),
        start_us=found.get("startTime", _START_US),
        interval_us=round(interval_s * 1e6),
        partitions=found.get("numPartitions", session.parallelism),
    )
    settings = {name: value for name, value in asdict(events).items() if name != "columns"}
    return Prepared(FORMAT.name, f"synthetic events of seed {events.seed}", columns, settings)
