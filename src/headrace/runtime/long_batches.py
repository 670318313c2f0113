"""Finds batches that take long among the running jobs of an engine, and says how far they are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from headrace.events.types import BatchRunning
from headrace.model.outcome import BatchTasks

# Shorter batches are not reported, and longer ones so often.
LONG_BATCH_S = 5.0
REPORT_INTERVAL_S = 5.0


@dataclass(frozen=True)
class RunningJob:
    """A running job of the engine.

    Attributes:
        id: of the job.
        group: the name under which the engine groups the jobs of a query.
        batch_id: the batch of the stream; None if the query is no stream.
        done: tasks that have ended.
        tasks: all tasks of the job, without those that the engine skips.
    """

    id: int
    group: str
    batch_id: int | None
    done: int
    tasks: int


@dataclass
class _Batch:
    """A batch whose jobs were seen; *jobs* has the tasks of each, also of those that have ended."""

    batch_id: int | None
    began_at: float
    jobs: dict[int, tuple[int, int]] = field(default_factory=dict)
    reported_at: float = float("-inf")

    def add(self, jobs: Sequence[RunningJob]) -> None:
        running = {job.id: (job.done, job.tasks) for job in jobs}
        ended = {number: (tasks, tasks) for number, (_, tasks) in self.jobs.items() if number not in running}
        self.jobs = {**ended, **running}

    def tasks_at(self, now: float) -> BatchTasks:
        done, tasks = (sum(numbers) for numbers in zip(*self.jobs.values(), strict=True))
        return BatchTasks(self.batch_id, done, tasks, int(now - self.began_at))


class LongBatches:
    """The running batches of the watched flows.

    Jobs that began and ended between two calls of :meth:`observe` are not seen.
    """

    def __init__(self) -> None:
        self._flows: dict[str, tuple[str, str]] = {}
        self._batches: dict[str, _Batch] = {}

    def watch(self, group: str, flow: str, dataset: str) -> None:
        """From now on, jobs of a group belong to a flow; its earlier batch and its earlier group have ended."""
        others = {name: found for name, found in self._flows.items() if found != (flow, dataset)}
        self._flows = {**others, group: (flow, dataset)}
        self._batches = {name: batch for name, batch in self._batches.items() if name in others}

    def observe(self, jobs: Sequence[RunningJob], now: float) -> Iterator[BatchRunning]:
        """The reports that are due.

        Args:
            jobs: all running jobs of the engine.
            now: the time in seconds.
        """
        by_group: dict[str, list[RunningJob]] = {}
        for job in jobs:
            if job.group in self._flows:
                by_group.setdefault(job.group, []).append(job)
        for group, found in by_group.items():
            batch = self._batch(
                group, max((job.batch_id for job in found if job.batch_id is not None), default=None), now
            )
            batch.add(found)
            if now - batch.began_at >= LONG_BATCH_S and now - batch.reported_at >= REPORT_INTERVAL_S:
                batch.reported_at = now
                yield BatchRunning(*self._flows[group], batch.tasks_at(now))

    def _batch(self, group: str, batch_id: int | None, now: float) -> _Batch:
        """The batch of a group; jobs without a number belong to the one before them."""
        known = self._batches.get(group)
        if known is None or (batch_id is not None and known.batch_id != batch_id):
            known = self._batches[group] = _Batch(batch_id, now)
        return known
