"""Since when a stream has unread records of a topic, from its own reports: nothing is asked of the broker.

A broker knows the times of records, and not those of offsets that a stream has not read. So a report that finds a
partition longer than before dates what is new: it arrived at the report or before it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.model.outcome import PartitionLag

_MOST_MARKS = 16


class TopicAge:
    """The times at which reports saw the ends of a topic's partitions.

    Law: the oldest unread record is at least as old as :attr:`oldest_unread_at` says, and was unknown to the report
    before it; of a stream that is behind by more than 16 reports, the age can be a fifth too low.
    """

    def __init__(self) -> None:
        # By partition: when a report saw that it ends at an offset, oldest first; only ends that were not read yet.
        self._marks: dict[int, list[tuple[float, int]]] = {}

    def observe(self, at: float, partitions: Iterable[PartitionLag]) -> None:
        """Add a report on all partitions of the topic, with its time in seconds since 1970."""
        known, self._marks = self._marks, {}
        for partition in partitions:
            marks = known.get(partition.partition, [])
            if marks and marks[-1][1] > partition.newest:
                # The topic was recreated.
                marks = []
            marks = [mark for mark in marks if mark[1] > partition.offset]
            if partition.newest > partition.offset and (not marks or partition.newest > marks[-1][1]):
                marks.append((at, partition.newest))
            self._marks[partition.partition] = marks if len(marks) <= _MOST_MARKS else _thinned(marks)

    @property
    def oldest_unread_at(self) -> float | None:
        """When the oldest unread record was seen first, in seconds since 1970; None if all were read."""
        return min((marks[0][0] for marks in self._marks.values() if marks), default=None)

    def to_json(self) -> dict[str, Any]:
        """Everything that the next reports need."""
        return {str(partition): marks for partition, marks in self._marks.items() if marks}

    @classmethod
    def from_json(cls, given: Any) -> TopicAge:
        """The ages of :meth:`to_json`; raises TypeError, AttributeError or ValueError for something else."""
        found = cls()
        found._marks = {
            int(partition): [(float(at), int(end)) for at, end in marks] for partition, marks in given.items()
        }
        return found


def _thinned(marks: list[tuple[float, int]]) -> list[tuple[float, int]]:
    """The marks without the one whose neighbours are nearest in time; its records count as those of the next one."""
    spans_s = [later[0] - earlier[0] for earlier, later in zip(marks, marks[2:], strict=False)]
    dropped = spans_s.index(min(spans_s)) + 1
    return [*marks[:dropped], *marks[dropped + 1 :]]
