"""Kinesis as a stream: shards by sequence number, parents before the shards that they were split or merged into.

The service does not say what a shard's newest record is, so that the end of a batch is found by reading up to it. What
was read then goes to the tasks; a batch that is made again is read again, between the same sequence numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.autoloader.discovery import Clock
from headrace.autoloader.reading.arrow_types import arrow_schema
from headrace.errors import PipelineError
from headrace.sources.kinesis_client import Access, IteratorExpired, Record, Shard, fetch, iterator_at, shards_of
from headrace.sources.kinesis_options import AFTER, AT, BEGINNING, COLUMNS, LATEST
from headrace.sources.stream_source import Offset, Prepared

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

# Of a shard that is closed and read to its end.
END = "END"
_BATCH_ROWS = 10_000
_MOST_THREADS = 16
# Whole batches beyond this are read once more by the tasks, instead of being kept by the driver.
_MOST_KEPT_BYTES = 64_000_000

# Positions by stream and shard.
Positions = dict[str, dict[str, str]]


@dataclass(frozen=True)
class ShardRange:
    """Records of a shard behind one position and up to another; ``records`` where they were read already."""

    stream: str
    shard: str
    after: str
    upto: str
    records: tuple[Record, ...] | None = None


@dataclass(frozen=True)
class KinesisSource:
    """What a ``kinesis`` reader means."""

    streams: tuple[str, ...]
    position: str
    access: Access
    fetch_records: int
    fetch_bytes: int
    fetch_s: float
    period_s: float
    look_s: float

    @staticmethod
    def of(prepared: Prepared) -> KinesisSource:
        """The source of a reader; credentials come beside it."""
        settings = dict(prepared.settings)
        access = Access(**settings.pop("access"), secrets=prepared.secrets)
        return KinesisSource(streams=tuple(settings.pop("streams")), access=access, **settings)

    def stream(self, clock: Clock) -> KinesisStream:
        """A stream of the records."""
        return KinesisStream(self, clock)

    def batch(self, clock: Clock) -> Sequence[ShardRange]:
        """All records that are there, from the initial position."""
        stream = KinesisStream(self, clock)
        stream.end_at_what_is_there()
        start, found = stream.initial(), list[ShardRange]()
        while (end := stream.latest(start, everything=True)) != start:
            found += [replace(task, records=None) for task in stream.tasks(start, end)]
            start = end
        return found

    def rows(self, task: ShardRange) -> Iterator[pa.RecordBatch]:
        """The records of a range as rows."""
        if task.records is not None:
            yield from _batches(task, task.records)
            return
        for records in read_range(self.access.client(), task, self.fetch_records):
            yield from _batches(task, records)


class KinesisStream:
    """The batches of one query. An offset is a position in each shard, and where shards of no known parent begin."""

    def __init__(self, source: KinesisSource, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._client: KinesisClient | None = None
        self._shards: dict[str, list[Shard]] = {}
        self._looked_ns: int | None = None
        self._kept: dict[tuple[str, str, str, str], tuple[Record, ...]] = {}
        self._newest: Offset | None = None
        # Of a triggered query: when it began, and the shards that have been read up to then.
        self._ends_ms: int | None = None
        self._ended: set[tuple[str, str]] = set()

    def initial(self) -> Offset:
        """Where the options say; the service's own ``LATEST`` would mean another record at each start."""
        position = self._source.position
        begin = f"{AT}{self._now_ms()}" if position == LATEST else position
        return {"begin": begin, "streams": {}}

    def end_at_what_is_there(self) -> None:
        """Let records that arrived before now be all, those of shards that are split meanwhile too."""
        self._ends_ms, self._ended = self._now_ms(), set()

    def latest(self, start: Offset, *, everything: bool) -> Offset:
        """The end of the batch behind *start*: what is there, or as much as the options allow."""
        self._look()
        before = self._with_new_shards(start)
        ready = [
            (stream, shard)
            for stream in self._source.streams
            for shard in self._shards[stream]
            if _is_known(start, stream, shard.id)
            and _is_ready(before[stream], shard)
            and (stream, shard.id) not in self._ended
        ]
        self._kept = {}
        with ThreadPoolExecutor(min(_MOST_THREADS, max(len(ready), 1))) as pool:
            ends = pool.map(
                lambda place: self._read(place[0], place[1].id, before[place[0]][place[1].id], everything=everything),
                ready,
            )
            after = {stream: dict(shards) for stream, shards in before.items()}
            for (stream, shard), end in zip(ready, ends, strict=True):
                after[stream][shard.id] = end
        self._newest = {"begin": start["begin"], "streams": after}
        return self._newest

    def newest(self) -> Offset | None:
        """How far the last look has come."""
        return self._newest

    def tasks(self, start: Offset, end: Offset) -> Sequence[ShardRange]:
        """A range for each shard that has records between the two."""
        found = []
        for stream, shards in end["streams"].items():
            for shard, upto in shards.items():
                # Before the first batch nothing was stored, and the start of one that is made again is another time.
                after = start["streams"].get(stream, {}).get(shard, end["begin"])
                if _is_known(start, stream, shard) and after not in (upto, END):
                    records = self._kept.get((stream, shard, after, upto))
                    found.append(ShardRange(stream, shard, after, upto, records))
        return [task for task in found if task.records != ()]

    def committed(self, end: Offset) -> None:
        """Nothing to do: the service keeps records for as long as it is told to."""

    def close(self) -> None:
        """Let go of connections."""
        if self._client is not None:
            self._client.close()

    def _using(self) -> KinesisClient:
        if self._client is None:
            self._client = self._source.access.client()
        return self._client

    def _look(self) -> None:
        """Find out which shards there are, if that was long ago."""
        now_ns = self._clock.now_ns()
        if self._looked_ns is None or now_ns - self._looked_ns >= self._source.look_s * 1e9:
            self._shards = {stream: shards_of(self._using(), stream) for stream in self._source.streams}
            self._looked_ns = now_ns

    def _with_new_shards(self, start: Offset) -> Positions:
        """The positions of *start*, with those of new shards, and without shards that are read and gone."""
        found: Positions = {}
        for stream in self._source.streams:
            known: Mapping[str, str] = start["streams"].get(stream, {})
            listed = {shard.id for shard in self._shards[stream]}
            gone = [shard for shard, position in known.items() if shard not in listed and position != END]
            if gone:
                raise PipelineError("KINESIS.SHARD_GONE", stream=stream, shards=", ".join(gone))
            found[stream] = {shard: position for shard, position in known.items() if shard in listed}
            for listed_shard in self._shards[stream]:
                found[stream].setdefault(listed_shard.id, self._first(start, stream, listed_shard.id))
        return found

    def _first(self, start: Offset, stream: str, shard: str) -> str:
        """Where a shard begins that *start* does not know: at its beginning, if its parent was read."""
        known = start["streams"].get(stream, {})
        parents = next((found.parents for found in self._shards.get(stream, ()) if found.id == shard), ())
        return BEGINNING if any(parent in known for parent in parents) else str(start["begin"])

    def _read(self, stream: str, shard: str, after: str, *, everything: bool) -> str:
        """Read a shard as far as a batch goes; the position of its end."""
        source, client, clock = self._source, self._using(), self._clock
        iterator: str | None = _iterator(client, stream, shard, after)
        records: list[Record] = []
        size, begun_ns, end, asked = 0, clock.now_ns(), after, False
        while iterator is not None:
            if asked:
                clock.sleep_s(source.period_s)
            asked = True
            try:
                answer = fetch(client, stream, iterator, source.fetch_records)
            except IteratorExpired:
                iterator = _iterator(client, stream, shard, end)
                continue
            late = next((n for n, r in enumerate(answer.records) if self._is_late(r)), None)
            taken = answer.records if late is None else answer.records[:late]
            size += sum(len(record.data) for record in taken)
            # What is too much to be kept is read by the tasks.
            if size <= _MOST_KEPT_BYTES:
                records += taken
            else:
                records.clear()
            end = f"{AFTER}{taken[-1].sequence}" if taken else end
            iterator = answer.following
            # A full answer may have been cut off within the newest millisecond.
            at_newest = answer.behind_ms == 0 and len(answer.records) < source.fetch_records
            if late is not None or (at_newest and iterator is not None):
                # Of a triggered query, what comes from now on is for the next one.
                self._ended |= {(stream, shard)} if self._ends_ms is not None else set()
                break
            if iterator is None:
                end = END
            elif not everything and (size >= source.fetch_bytes or clock.now_ns() - begun_ns >= source.fetch_s * 1e9):
                break
        if size <= _MOST_KEPT_BYTES:
            self._kept[stream, shard, after, end] = tuple(records)
        return end

    def _is_late(self, record: Record) -> bool:
        return self._ends_ms is not None and record.arrived_at.timestamp() * 1000 > self._ends_ms

    def _now_ms(self) -> int:
        return self._clock.now_ns() // 1_000_000


def _is_ready(positions: Mapping[str, str], shard: Shard) -> bool:
    """True when a shard is not read to its end, and those that it was made of are."""
    return positions[shard.id] != END and all(positions.get(parent, END) == END for parent in shard.parents)


def _is_known(start: Offset, stream: str, shard: str) -> bool:
    """True for a shard that may be read now; one that appears later is read from the batch after that on."""
    return stream not in start["streams"] or shard in start["streams"][stream]


def read_range(client: KinesisClient, task: ShardRange, most: int) -> Iterator[tuple[Record, ...]]:
    """The records of a range, in the order of the shard.

    Raises:
        PipelineError: ``KINESIS.*``; ``KINESIS.SHARD_GONE``: they are no longer kept.
    """
    last = int(task.upto.removeprefix(AFTER)) if task.upto.startswith(AFTER) else None
    iterator: str | None = _iterator(client, task.stream, task.shard, task.after)
    behind = task.after
    while iterator is not None:
        try:
            answer = fetch(client, task.stream, iterator, most)
        except IteratorExpired:
            # Whoever takes the rows may take its time.
            iterator = _iterator(client, task.stream, task.shard, behind)
            continue
        behind = f"{AFTER}{answer.records[-1].sequence}" if answer.records else behind
        inside = tuple(r for r in answer.records if last is None or int(r.sequence) <= last)
        if inside:
            yield inside
        if last is not None and (any(int(r.sequence) >= last for r in answer.records)):
            return
        iterator = answer.following
        if last is not None and (iterator is None or (answer.behind_ms == 0 and not answer.records)):
            raise PipelineError("KINESIS.SHARD_GONE", stream=task.stream, shards=task.shard)


def _iterator(client: KinesisClient, stream: str, shard: str, position: str) -> str:
    if position == BEGINNING:
        found = iterator_at(client, stream, shard, "TRIM_HORIZON")
    elif position.startswith(AT):
        found = iterator_at(client, stream, shard, "AT_TIMESTAMP", position.removeprefix(AT))
    else:
        found = iterator_at(client, stream, shard, "AFTER_SEQUENCE_NUMBER", position.removeprefix(AFTER))
    if found is None:
        raise PipelineError("KINESIS.SHARD_GONE", stream=stream, shards=shard)
    return found


def _batches(task: ShardRange, records: Sequence[Record]) -> Iterator[pa.RecordBatch]:
    schema = arrow_schema(COLUMNS)
    for first in range(0, len(records), _BATCH_ROWS):
        part = records[first : first + _BATCH_ROWS]
        columns: list[list[Any]] = [
            [record.key for record in part],
            [record.data for record in part],
            [task.stream] * len(part),
            [task.shard] * len(part),
            [record.sequence for record in part],
            [record.arrived_at for record in part],
        ]
        arrays = [pa.array(values, found.type) for values, found in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
