"""Positions in topics: how far a stream is behind, and what it can no longer read."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from headrace.model.outcome import PartitionLag

# Topic and number of a partition.
Partition: TypeAlias = "tuple[str, int]"
Positions: TypeAlias = "Mapping[Partition, int]"


@dataclass(frozen=True)
class Bounds:
    """The first offset that a partition still has, and the one behind its last."""

    first: int
    end: int


@dataclass(frozen=True)
class Lost:
    """Offsets of a partition that were never read and are gone; ``offsets`` is None where nobody can tell how many."""

    topic: str
    partition: int
    offsets: int | None
    reason: str

    @property
    def text(self) -> str:
        """One readable clause."""
        number = "an unknown number of" if self.offsets is None else str(self.offsets)
        plural = "" if self.offsets == 1 else "s"
        return f"{number} offset{plural} of {self.topic} partition {self.partition} ({self.reason})"


def positions_of(offset: Any) -> dict[Partition, int]:
    """The positions in an offset of Spark's Kafka source, as text or parsed; nothing when it is of another source.

    Source: Spark's ``JsonUtils.partitionOffsets``: topic to partition to the next offset to read.
    """
    if isinstance(offset, str):
        try:
            offset = json.loads(offset)
        except ValueError:
            return {}
    found = {}
    for topic, partitions in offset.items() if isinstance(offset, Mapping) else ():
        if not isinstance(partitions, Mapping):
            return {}
        for number, position in partitions.items():
            if not str(number).isdecimal() or not isinstance(position, int):
                return {}
            found[topic, int(number)] = position
    return found


def lags(read: Positions, newest: Positions) -> tuple[PartitionLag, ...]:
    """How far each partition was read, and how far it went; one that was not read yet counts from its beginning."""
    return tuple(
        PartitionLag(topic, number, read.get((topic, number), 0), end)
        for (topic, number), end in sorted({**read, **newest}.items())
    )


def losses(read: Positions, there: Mapping[Partition, Bounds]) -> tuple[Lost, ...]:
    """What a stream that has read so far finds gone when it goes on.

    Law: a partition that still has the next offset, or ends there, has lost nothing.
    """
    return tuple(_losses(read, there))


def _losses(read: Positions, there: Mapping[Partition, Bounds]) -> Iterator[Lost]:
    topics = {topic for topic, _ in there}
    for (topic, number), position in sorted(read.items()):
        bounds = there.get((topic, number))
        if bounds is None:
            what = "partition" if topic in topics else "topic"
            yield Lost(topic, number, None, f"the {what} is gone, which was read up to offset {position}")
        elif bounds.first > position:
            reason = f"read up to {position}, the first one left is {bounds.first}"
            yield Lost(topic, number, bounds.first - position, reason)
        elif bounds.end < position:
            reason = f"read up to {position}, but it ends at {bounds.end}: the topic was made anew"
            yield Lost(topic, number, bounds.end - bounds.first, reason)


@dataclass(frozen=True)
class Told:
    """What was said to be lost of a source before its query started.

    Attributes:
        firsts: the first offsets that were left, below which nothing is said again.
        gone: of partitions that were said to be gone or made anew, where the next batch begins.
    """

    firsts: Positions
    gone: Positions

    @classmethod
    def of(cls, read: Positions, planned: Positions, there: Mapping[Partition, Bounds]) -> Told:
        """What :func:`losses` says of a stream that has *planned* batches further than it has *read*."""
        firsts = {place: bounds.first for place, bounds in there.items()}
        gone = {
            place: planned.get(place, position)
            for place, position in read.items()
            if place not in there or there[place].end < position
        }
        return cls(firsts, gone)


@dataclass(frozen=True)
class Span:
    """What a batch took of a partition: from the first offset up to the one that was not taken."""

    start: int
    end: int


def spans_of(start: Any, end: Any, known: Positions) -> dict[Partition, Span]:
    """What a batch took, by its offsets as Spark's progress has them.

    Args:
        start: where it began.
        end: where it ended.
        known: positions that were told before, because what is below them was gone when the stream started.
    """
    begins, ends = positions_of(start), positions_of(end)
    return {
        place: Span(max(begin, min(known.get(place, begin), ends[place])), ends[place])
        for place, begin in begins.items()
        if place in ends
    }


def lost_between(spans: Mapping[Partition, Span], rows: int, firsts: Positions) -> tuple[Lost, ...]:
    """What a batch has not read of its spans, because it was gone by then.

    Args:
        spans: what the batch took.
        rows: how many records it has read.
        firsts: the first offsets that the broker has left, after the batch.

    Law: what is said to be lost of one partition is never more than the records that the batch lacks, and never more
    than the offsets below the first one left. Offsets that hold no record (of transactions, or of compaction) are told
    apart from lost ones only where the broker still has them.
    """
    lacks = sum(span.end - span.start for span in spans.values() if span.end > span.start) - rows
    gone = {
        place: min(firsts[place], span.end) - span.start
        for place, span in sorted(spans.items())
        if firsts.get(place, 0) > span.start and span.end > span.start
    }
    if lacks <= 0 or not gone:
        return ()
    unsure = "" if len(gone) == 1 or sum(gone.values()) <= lacks else f", at most: the batch lacks {lacks} in all"
    return tuple(
        Lost(
            topic,
            number,
            min(offsets, lacks),
            f"read up to {spans[topic, number].start}, the first one left is {firsts[topic, number]}{unsure}",
        )
        for (topic, number), offsets in gone.items()
    )


def gone_between(start: Any, end: Any, told: Positions) -> tuple[Lost, ...]:
    """Partitions that a batch began with and did not end with, and those that went back: topics that were made anew.

    Those that were *told* at the position where the batch begins are left out.
    """
    ends = positions_of(end)
    begins = {place: at for place, at in positions_of(start).items() if told.get(place) != at}
    there = {place: Bounds(min(begins.get(place, at), at), at) for place, at in ends.items()}
    found = {(lost.topic, lost.partition): lost for lost in losses(begins, there)} if ends else {}
    return tuple(Lost(*place, None, lost.reason) for place, lost in found.items())
