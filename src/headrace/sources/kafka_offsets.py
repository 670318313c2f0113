"""Positions in topics: how far a stream is behind, and which offsets it has lost."""

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
    """The first offset that a partition still has, and the offset after its last."""

    first: int
    end: int


@dataclass(frozen=True)
class LostOffsets:
    """Offsets of a partition that were deleted before they were read; ``offsets`` is None if the number is unknown."""

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
    """The positions in an offset of Spark's Kafka source, as text or parsed; empty for an offset of another source.

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
    """The position and the end of each partition; a partition that was not read yet counts from offset 0."""
    return tuple(
        PartitionLag(topic, number, read.get((topic, number), 0), end)
        for (topic, number), end in sorted({**read, **newest}.items())
    )


def losses(read: Positions, available: Mapping[Partition, Bounds]) -> tuple[LostOffsets, ...]:
    """What a stream at the positions *read* has lost.

    Law: a partition that still has the next offset, or ends there, has lost nothing.
    """
    return tuple(_losses(read, available))


def _losses(read: Positions, available: Mapping[Partition, Bounds]) -> Iterator[LostOffsets]:
    topics = {topic for topic, _ in available}
    for (topic, number), position in sorted(read.items()):
        bounds = available.get((topic, number))
        if bounds is None:
            what = "partition" if topic in topics else "topic"
            yield LostOffsets(topic, number, None, f"read up to {position}, but the {what} no longer exists")
        elif bounds.first > position:
            reason = f"read up to {position}, the first available offset is {bounds.first}"
            yield LostOffsets(topic, number, bounds.first - position, reason)
        elif bounds.end < position:
            reason = f"read up to {position}, but it ends at {bounds.end}: the topic was recreated"
            yield LostOffsets(topic, number, bounds.end - bounds.first, reason)


@dataclass(frozen=True)
class ReportedLosses:
    """The losses of a source that were reported before its query started.

    Attributes:
        earliest: the first available offset of each partition; losses below it are not reported again.
        lost_partitions: for each partition reported as gone or recreated, the position at which the next batch begins.
    """

    earliest: Positions
    lost_partitions: Positions

    @classmethod
    def of(cls, read: Positions, planned: Positions, available: Mapping[Partition, Bounds]) -> ReportedLosses:
        """What :func:`losses` reports for a stream whose *planned* batches may reach further than it has *read*."""
        earliest = {partition: bounds.first for partition, bounds in available.items()}
        lost_partitions = {
            partition: planned.get(partition, position)
            for partition, position in read.items()
            if partition not in available or available[partition].end < position
        }
        return cls(earliest, lost_partitions)


@dataclass(frozen=True)
class OffsetRange:
    """The offsets of a partition in a batch; *end* is exclusive."""

    start: int
    end: int


def offset_ranges(start: Any, end: Any, earliest: Positions) -> dict[Partition, OffsetRange]:
    """The offsets in a batch, from the offsets in Spark's progress.

    Args:
        start: the start offset.
        end: the end offset.
        earliest: losses below these positions were reported when the stream started.
    """
    starts, ends = positions_of(start), positions_of(end)
    return {
        partition: OffsetRange(max(first, min(earliest.get(partition, first), ends[partition])), ends[partition])
        for partition, first in starts.items()
        if partition in ends
    }


def losses_in_batch(ranges: Mapping[Partition, OffsetRange], rows: int, earliest: Positions) -> tuple[LostOffsets, ...]:
    """The offsets of a batch that were deleted before the batch read them.

    Args:
        ranges: the offsets in the batch.
        rows: how many records it has read.
        earliest: the first offsets that the broker has after the batch.

    Law: the loss reported for a partition is never more than the records that the batch lacks, and never more than the
    offsets below the first available one. Offsets without a record (transactions, compaction) are distinguished from
    lost ones only if the broker still has them.
    """
    missing = sum(range_.end - range_.start for range_ in ranges.values() if range_.end > range_.start) - rows
    deleted = {
        partition: min(earliest[partition], range_.end) - range_.start
        for partition, range_ in sorted(ranges.items())
        if earliest.get(partition, 0) > range_.start and range_.end > range_.start
    }
    if missing <= 0 or not deleted:
        return ()
    is_exact = len(deleted) == 1 or sum(deleted.values()) <= missing
    uncertainty = "" if is_exact else f", at most: the batch lacks {missing} in all"
    return tuple(
        LostOffsets(
            topic,
            number,
            min(offsets, missing),
            f"read up to {ranges[topic, number].start}, the first available offset is {earliest[topic, number]}"
            f"{uncertainty}",
        )
        for (topic, number), offsets in deleted.items()
    )


def partition_losses(start: Any, end: Any, reported: Positions) -> tuple[LostOffsets, ...]:
    """Partitions that a batch began with but did not end with, and those that went back: recreated topics.

    Leaves out the partitions *reported* at the position at which the batch begins.
    """
    ends = positions_of(end)
    starts = {
        partition: position
        for partition, position in positions_of(start).items()
        if reported.get(partition) != position
    }
    available = {
        partition: Bounds(min(starts.get(partition, position), position), position)
        for partition, position in ends.items()
    }
    found = {(lost.topic, lost.partition): lost for lost in losses(starts, available)} if ends else {}
    return tuple(LostOffsets(*partition, None, lost.reason) for partition, lost in found.items())
