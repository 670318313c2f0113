"""How long the tasks of a piece of work take, by what they do, and how its queries join."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

_JOIN = re.compile(r"\b(\w+Join)\b")
_WAIT_MS = 30_000


@dataclass(frozen=True)
class TaskTimes:
    """Milliseconds of tasks, summed over all cores, their number, and the joins of the queries.

    Attributes:
        source_ms: of tasks that read files or tables and no shuffle.
        state_ms: of tasks that read a shuffle, with their part of the state.
        commit_ms: of all others, such as those of Delta's log.
        tasks: how many tasks ran.
        joins: the operators of joins in the physical plans, and the milliseconds of each query.
    """

    source_ms: int
    state_ms: int
    commit_ms: int
    tasks: int
    joins: tuple[tuple[str, int], ...]

    @property
    def total_ms(self) -> int:
        """The milliseconds of all tasks."""
        return self.source_ms + self.state_ms + self.commit_ms

    @property
    def bottleneck(self) -> str:
        """What takes the most time: ``source``, ``state`` or ``commit``."""
        times = {"source": self.source_ms, "state": self.state_ms, "commit": self.commit_ms}
        return max(times, key=lambda name: times[name])


@contextmanager
def task_times(session: SparkSession) -> Iterator[Callable[[], TaskTimes]]:
    """Measure the jobs and queries that run inside the block; call the result after it.

    Spark keeps its newest hundred jobs and stages and fifty queries, so the block must not run more.
    """
    jobs, queries = set(_jobs(session)), set(_queries(session))
    found: list[TaskTimes] = []
    yield lambda: found[0]
    # Spark counts in another thread.
    session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_WAIT_MS)  # noqa: SLF001 - PySpark has no other way
    own = {number: job for number, job in _jobs(session).items() if number not in jobs}
    stages = [stage for job in own.values() for stage in _stages(session, job)]
    sums = dict.fromkeys(("source", "state", "commit"), 0)
    for stage in stages:
        sums[_class_of(stage)] += int(stage.executorRunTime())
    joins = [join for number, query in _queries(session).items() if number not in queries for join in _joins(query)]
    tasks = sum(int(stage.numCompleteTasks()) for stage in stages)
    found.append(TaskTimes(sums["source"], sums["state"], sums["commit"], tasks, tuple(joins)))


def _jobs(session: SparkSession) -> dict[int, Any]:
    found = session.sparkContext._jsc.sc().statusStore().jobsList(None)  # noqa: SLF001 - the status tracker has no times
    return {int(job.jobId()): job for job in _items(found)}


def _queries(session: SparkSession) -> dict[int, Any]:
    found = session._jsparkSession.sharedState().statusStore().executionsList()  # noqa: SLF001 - PySpark has no other way
    return {int(query.executionId()): query for query in _items(found)}


def _stages(session: SparkSession, job: Any) -> Iterator[Any]:
    store = session.sparkContext._jsc.sc().statusStore()  # noqa: SLF001 - the status tracker has no times
    for number in _items(job.stageIds()):
        stage = store.lastStageAttempt(number)
        # A stage whose result another job has is skipped.
        if int(stage.numCompleteTasks()):
            yield stage


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]


def _class_of(stage: Any) -> str:
    if int(stage.shuffleReadBytes()):
        return "state"
    return "source" if int(stage.inputBytes()) else "commit"


def _joins(query: Any) -> Iterator[tuple[str, int]]:
    end = query.completionTime()
    if not end.isDefined():
        return
    duration_ms = int(end.get().getTime()) - int(query.submissionTime())
    for name in sorted(set(_JOIN.findall(str(query.physicalPlanDescription())))):
        yield name, duration_ms
