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
