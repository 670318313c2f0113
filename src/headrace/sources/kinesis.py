"""Kinesis as a stream: shards by sequence number, parents before their children.

The service does not report a shard's newest record, so the driver finds the end of a batch by reading up to it. The
tasks get the records that it has read; a repeated batch is read again, between the same sequence numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from headrace.autoloader.discovery import Clock
from headrace.autoloader.reading.conversion.arrow_types import arrow_schema
from headrace.errors import PipelineError
from headrace.sources.kinesis_client import Access, IteratorExpired, Record, Shard, fetch, get_iterator, list_shards
from headrace.sources.kinesis_options import AFTER, AT, BEGINNING, COLUMNS, LATEST
from headrace.sources.stream_source import Offset, PreparedSource

if TYPE_CHECKING:
    from mypy_boto3_kinesis import KinesisClient

# The position of a closed shard that was read to its end.
END = "END"
_BATCH_ROWS = 10_000
_MAX_THREADS = 16
# The driver does not cache larger batches of a shard; the tasks read them again.
_MAX_CACHED_BYTES = 64_000_000

# Positions by stream and shard.
Positions = dict[str, dict[str, str]]


@dataclass(frozen=True)
class ShardRange:
    """Records of a shard after one position, up to another; ``records`` if the driver has read them already."""

    stream: str
    shard: str
    after: str
    up_to: str
    records: tuple[Record, ...] | None = None


@dataclass(frozen=True)
class KinesisSource:
    """A ``kinesis`` source."""

    streams: tuple[str, ...]
    position: str
    access: Access
    fetch_records: int
    fetch_bytes: int
    fetch_s: float
    fetch_interval_s: float
    list_shards_s: float

    @staticmethod
    def of(prepared: PreparedSource) -> KinesisSource:
        """The source of a prepared reader, whose secrets hold the credentials."""
        settings = dict(prepared.settings)
        return KinesisSource(
            streams=tuple(settings.pop("streams")),
            access=Access(**settings.pop("access"), secrets=prepared.secrets),
            fetch_interval_s=settings.pop("period_s"),
            list_shards_s=settings.pop("look_s"),
            **settings,
        )

    def stream(self, clock: Clock) -> KinesisStream:
        """A stream of the records."""
        return KinesisStream(self, clock)

    def batch(self, clock: Clock) -> Sequence[ShardRange]:
        """All available records, from the initial position."""
        stream = KinesisStream(self, clock)
        stream.prepare_for_available_now()
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
    """The batches of one query. An offset holds each shard's position, and the start of shards of unknown parents."""

    def __init__(self, source: KinesisSource, clock: Clock) -> None:
        self._source = source
        self._clock = clock
        self._client: KinesisClient | None = None
        self._shards: dict[str, list[Shard]] = {}
        self._listed_ns: int | None = None
        self._cached: dict[tuple[str, str, str, str], tuple[Record, ...]] = {}
        self._newest: Offset | None = None
        # By stream and shard, when the last batch was planned.
        self._behind_ms: dict[tuple[str, str], int] = {}
        # Of a triggered query: when it began, and the shards that were read up to then.
        self._available_until_ms: int | None = None
        self._finished_shards: set[tuple[str, str]] = set()

    def initial(self) -> Offset:
        """The start position that the options set. The service's ``LATEST`` would be another record at each start."""
        position = self._source.position
        begin = f"{AT}{self._now_ms()}" if position == LATEST else position
        return {"begin": begin, "streams": {}}

    def prepare_for_available_now(self) -> None:
        """End the stream at the records that arrived before now, also in shards that are split meanwhile."""
        self._available_until_ms, self._finished_shards = self._now_ms(), set()

    def latest(self, start: Offset, *, everything: bool) -> Offset:
        """The end of the batch that starts at *start*: all available records, or as many as the options allow."""
        self._refresh_shards()
        before = self._with_new_shards(start)
        readable = [
            (stream, shard)
            for stream in self._source.streams
            for shard in self._shards[stream]
            if _is_readable(start, stream, shard.id)
            and _is_ready(before[stream], shard)
            and (stream, shard.id) not in self._finished_shards
        ]
        self._cached, self._behind_ms = {}, {}
        with ThreadPoolExecutor(min(_MAX_THREADS, max(len(readable), 1))) as pool:
            ends = pool.map(
                lambda pair: self._read(pair[0], pair[1].id, before[pair[0]][pair[1].id], everything=everything),
                readable,
            )
            after = {stream: dict(shards) for stream, shards in before.items()}
            for (stream, shard), end in zip(readable, ends, strict=True):
                after[stream][shard.id] = end
        self._newest = {"begin": start["begin"], "streams": after}
        return self._newest

    def newest(self) -> Offset | None:
        """The end of the last planned batch, and how old the oldest record after it was, as far as is known.

        It is only reported: no batch starts there.
        """
        if self._newest is None or not self._behind_ms:
            return self._newest
        return {**self._newest, "behind_ms": max(self._behind_ms.values())}

    def tasks(self, start: Offset, end: Offset) -> Sequence[ShardRange]:
        """A range for each shard with records between the two offsets."""
        found = []
        for stream, shards in end["streams"].items():
            for shard, up_to in shards.items():
                # The first batch may be repeated before its start is stored, and then starts at another time.
                after = start["streams"].get(stream, {}).get(shard, end["begin"])
                if _is_readable(start, stream, shard) and after not in (up_to, END):
                    records = self._cached.get((stream, shard, after, up_to))
                    found.append(ShardRange(stream, shard, after, up_to, records))
        return [task for task in found if task.records != ()]

    def commit(self, end: Offset) -> None:
        """Do nothing: the service deletes records by its retention setting."""

    def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            self._client.close()

    def _get_client(self) -> KinesisClient:
        if self._client is None:
            self._client = self._source.access.client()
        return self._client

    def _refresh_shards(self) -> None:
        """List the shards, if the last list is too old."""
        now_ns = self._clock.now_ns()
        if self._listed_ns is None or now_ns - self._listed_ns >= self._source.list_shards_s * 1e9:
            self._shards = {stream: list_shards(self._get_client(), stream) for stream in self._source.streams}
            self._listed_ns = now_ns

    def _with_new_shards(self, start: Offset) -> Positions:
        """The positions of *start*, with new shards, and without deleted shards that were read to their end."""
        found: Positions = {}
        for stream in self._source.streams:
            known: Mapping[str, str] = start["streams"].get(stream, {})
            listed = {shard.id for shard in self._shards[stream]}
            missing = [shard for shard, position in known.items() if shard not in listed and position != END]
            if missing:
                raise PipelineError("KINESIS.SHARD_GONE", stream=stream, shards=", ".join(missing))
            found[stream] = {shard: position for shard, position in known.items() if shard in listed}
            for listed_shard in self._shards[stream]:
                found[stream].setdefault(listed_shard.id, self._first(start, stream, listed_shard.id))
        return found

    def _first(self, start: Offset, stream: str, shard: str) -> str:
        """The start of a shard that is not in *start*: its beginning, if its parent was read."""
        known = start["streams"].get(stream, {})
        parents = next((found.parents for found in self._shards.get(stream, ()) if found.id == shard), ())
        return BEGINNING if any(parent in known for parent in parents) else str(start["begin"])

    def _read(self, stream: str, shard: str, after: str, *, everything: bool) -> str:
        """Read a shard up to the end of the batch; returns its position."""
        source, client, clock = self._source, self._get_client(), self._clock
        iterator: str | None = _iterator(client, stream, shard, after)
        records: list[Record] = []
        size, started_ns, end, has_requested = 0, clock.now_ns(), after, False
        while iterator is not None:
            if has_requested:
                clock.sleep_s(source.fetch_interval_s)
            has_requested = True
            try:
                answer = fetch(client, stream, iterator, source.fetch_records)
            except IteratorExpired:
                iterator = _iterator(client, stream, shard, end)
                continue
            late = next((n for n, r in enumerate(answer.records) if self._is_late(r)), None)
            self._behind_ms[stream, shard] = answer.behind_ms
            accepted = answer.records if late is None else answer.records[:late]
            size += sum(len(record.data) for record in accepted)
            # The tasks read what is too much to cache.
            if size <= _MAX_CACHED_BYTES:
                records += accepted
            else:
                records.clear()
            end = f"{AFTER}{accepted[-1].sequence}" if accepted else end
            iterator = answer.next_iterator
            # A full answer may end within the newest millisecond.
            at_newest = answer.behind_ms == 0 and len(answer.records) < source.fetch_records
            if late is not None or (at_newest and iterator is not None):
                # Later records are for the next triggered query.
                self._finished_shards |= {(stream, shard)} if self._available_until_ms is not None else set()
                break
            if iterator is None:
                end = END
            elif not everything and (size >= source.fetch_bytes or clock.now_ns() - started_ns >= source.fetch_s * 1e9):
                break
        if size <= _MAX_CACHED_BYTES:
            self._cached[stream, shard, after, end] = tuple(records)
        return end

    def _is_late(self, record: Record) -> bool:
        return self._available_until_ms is not None and record.arrived_at.timestamp() * 1000 > self._available_until_ms

    def _now_ms(self) -> int:
        return self._clock.now_ns() // 1_000_000


def _is_ready(positions: Mapping[str, str], shard: Shard) -> bool:
    """True if a shard was not read to its end, and its parents were."""
    return positions[shard.id] != END and all(positions.get(parent, END) == END for parent in shard.parents)


def _is_readable(start: Offset, stream: str, shard: str) -> bool:
    """True for a shard that may be read now; a new shard is first read in the batch after it appears."""
    return stream not in start["streams"] or shard in start["streams"][stream]


def read_range(client: KinesisClient, task: ShardRange, limit: int) -> Iterator[tuple[Record, ...]]:
    """The records of a range, in the order of the shard.

    Raises:
        PipelineError: ``KINESIS.*``; ``KINESIS.SHARD_GONE``: the service has deleted them.
    """
    last = int(task.up_to.removeprefix(AFTER)) if task.up_to.startswith(AFTER) else None
    iterator: str | None = _iterator(client, task.stream, task.shard, task.after)
    position = task.after
    while iterator is not None:
        try:
            answer = fetch(client, task.stream, iterator, limit)
        except IteratorExpired:
            # The consumer of the rows may be slow.
            iterator = _iterator(client, task.stream, task.shard, position)
            continue
        position = f"{AFTER}{answer.records[-1].sequence}" if answer.records else position
        inside = tuple(r for r in answer.records if last is None or int(r.sequence) <= last)
        if inside:
            yield inside
        if last is not None and (any(int(r.sequence) >= last for r in answer.records)):
            return
        iterator = answer.next_iterator
        if last is not None and (iterator is None or (answer.behind_ms == 0 and not answer.records)):
            raise PipelineError("KINESIS.SHARD_GONE", stream=task.stream, shards=task.shard)


def _iterator(client: KinesisClient, stream: str, shard: str, position: str) -> str:
    if position == BEGINNING:
        found = get_iterator(client, stream, shard, "TRIM_HORIZON")
    elif position.startswith(AT):
        found = get_iterator(client, stream, shard, "AT_TIMESTAMP", position.removeprefix(AT))
    else:
        found = get_iterator(client, stream, shard, "AFTER_SEQUENCE_NUMBER", position.removeprefix(AFTER))
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
