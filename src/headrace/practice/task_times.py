"""How long the tasks of a piece of work take, by what they do, and how its queries join."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
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


class TaskTimer:
    """Measures the jobs and queries that a session runs from now on.

    Spark forgets all but its newest hundred jobs and stages, so :meth:`observe` must be called now and then.
    """

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._jobs_before, self._queries_before = set(_jobs(session)), set(_queries(session))
        # By the number of the stage: what its tasks do, their milliseconds and their number.
        self._stages: dict[int, tuple[str, int, int]] = {}
        self._joins: dict[int, tuple[tuple[str, int], ...]] = {}

    def observe(self) -> None:
        """Note what has run since the last call."""
        # Spark counts in another thread.
        self._session.sparkContext._jsc.sc().listenerBus().waitUntilEmpty(_WAIT_MS)  # noqa: SLF001 - PySpark has no other way
        for number, job in _jobs(self._session).items():
            if number not in self._jobs_before:
                self._stages |= _stages(self._session, job)
        for number, query in _queries(self._session).items():
            if number not in self._queries_before:
                self._joins[number] = tuple(_joins(query))

    def times(self) -> TaskTimes:
        """The sums of what was observed."""
        sums: Counter[str] = Counter()
        for kind, time_ms, _ in self._stages.values():
            sums[kind] += time_ms
        tasks = sum(count for _, _, count in self._stages.values())
        joins = tuple(join for _, found in sorted(self._joins.items()) for join in found)
        return TaskTimes(sums["source"], sums["state"], sums["commit"], tasks, joins)


def _jobs(session: SparkSession) -> dict[int, Any]:
    found = session.sparkContext._jsc.sc().statusStore().jobsList(None)  # noqa: SLF001 - the status tracker has no times
    return {int(job.jobId()): job for job in _items(found)}


def _queries(session: SparkSession) -> dict[int, Any]:
    found = session._jsparkSession.sharedState().statusStore().executionsList()  # noqa: SLF001 - PySpark has no other way
    return {int(query.executionId()): query for query in _items(found)}


def _stages(session: SparkSession, job: Any) -> dict[int, tuple[str, int, int]]:
    store = session.sparkContext._jsc.sc().statusStore()  # noqa: SLF001 - the status tracker has no times
    found: dict[int, tuple[str, int, int]] = {}
    for number in _items(job.stageIds()):
        try:
            stage = store.lastStageAttempt(number)
        except Py4JJavaError:
            # Spark has forgotten it, or another job has its result and it never ran.
            continue
        found[int(number)] = (_kind_of(stage), int(stage.executorRunTime()), int(stage.numCompleteTasks()))
    return found


def _items(sequence: Any) -> list[Any]:
    return [sequence.apply(at) for at in range(sequence.size())]


def _kind_of(stage: Any) -> str:
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
