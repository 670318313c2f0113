"""What a running stream did in its latest batches, from the progress reports of Spark.

Source: Spark's ``StreamingQueryProgress``, ``StateOperatorProgress`` and ``SourceProgress``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from headrace.model.executor_time import ExecutorTime

# Spark's phases of a batch, in the order in which it runs them, and our names.
PHASES: Mapping[str, str] = {
    "latestOffset": "latest_offset",
    "getBatch": "get_batch",
    "queryPlanning": "query_planning",
    "walCommit": "wal_commit",
    "addBatch": "add_batch",
    "commitOffsets": "commit_offsets",
    "commitBatch": "commit_batch",
}
_OPERATORS: Mapping[str, str] = {
    "stateStoreSave": "aggregation",
    "dedupe": "deduplication",
    "dedupeWithinWatermark": "deduplication",
    "symmetricHashJoin": "join of streams",
    "sessionWindowStateStoreSaveExec": "session windows",
    "sessionWindowStateStoreRestoreExec": "session windows",
    "flatMapGroupsWithState": "function with state",
    "applyInPandasWithState": "function with state",
    "transformWithStateExec": "function with state",
    "transformWithStateInPySparkExec": "function with state",
    "globalLimit": "limit",
}


# Sources whose descriptions are paths or topics.
_DESCRIBED = re.compile(r"(DeltaSource|FileStreamSource|KafkaV2)\[.*\]", re.DOTALL)
_CLASS_NAME = re.compile(r"([\w$]+\.)*(?P<name>\w+)")


@dataclass(frozen=True)
class OperatorProgress:
    """The state of one operator after the newest batch, and what the batches changed.

    Attributes:
        operator: Spark's name.
        kind: the same in plain words, such as ``deduplication``.
        rows_total: rows in the state; None if Spark does not count them (``trackTotalNumberOfRows``).
        rows_updated: rows that the batches added or changed.
        rows_removed: rows that they removed.
        rows_dropped: rows that came behind the watermark; for an aggregation, partial aggregates of them.
        duplicates_dropped: duplicates that a deduplication removed.
        memory_bytes: memory that the state uses now.
        commit_ms: how long the batches took to commit the state, all tasks added up.
    """

    operator: str
    kind: str
    rows_total: int | None
    rows_updated: int
    rows_removed: int
    rows_dropped: int
    duplicates_dropped: int
    memory_bytes: int
    commit_ms: int


@dataclass(frozen=True)
class SourceProgress:
    """The rows that batches read from one source: a table, a path, topics, or the name of its class."""

    source: str
    input_rows: int


@dataclass(frozen=True)
class BatchTiming:
    """When one batch ran, and how long its phases took, in Spark's order."""

    batch_id: int
    started_at: datetime
    duration_ms: int
    phases_ms: Mapping[str, int] = field(default_factory=dict)
    input_rows: int = 0


@dataclass(frozen=True)
class StreamBatches:
    """One or more batches of a stream that follow each other; or none, while it waits for its first input.

    Attributes:
        batch_id: the newest batch; -1 for none.
        batches: how many there are.
        started_at: when the newest one started.
        duration_ms: how long they took together, without the waits between them.
        phases_ms: how long each phase took, by its name; in Spark's order, zero phases left out.
        input_rows: rows that they read.
        input_rows_per_second: rows that arrived per second since the previous batch started; None if unknown.
        processed_rows_per_second: rows per second of ``duration_ms``; None if that is zero.
        watermark: after the newest batch; None without one.
        newest_event_time: the greatest event time of the batches; None without one.
        operators: the stateful operators.
        sources: the sources, in the order of the query.
        timings: each of the batches, oldest first, if there are several; empty in events of older versions.
        executor_time: of their tasks; None if unknown.
    """

    batch_id: int
    batches: int
    started_at: datetime
    duration_ms: int
    phases_ms: Mapping[str, int] = field(default_factory=dict)
    input_rows: int = 0
    input_rows_per_second: float | None = None
    processed_rows_per_second: float | None = None
    watermark: datetime | None = None
    newest_event_time: datetime | None = None
    operators: tuple[OperatorProgress, ...] = ()
    sources: tuple[SourceProgress, ...] = ()
    timings: tuple[BatchTiming, ...] = ()
    executor_time: ExecutorTime | None = None

    @classmethod
    def none(cls, at: datetime) -> StreamBatches:
        """No batch, at a time."""
        return cls(batch_id=-1, batches=0, started_at=at, duration_ms=0)

    @property
    def each(self) -> tuple[BatchTiming, ...]:
        """Each batch, oldest first; empty for several batches of an older version, which did not record them."""
        if self.batches != 1:
            return self.timings
        return (BatchTiming(self.batch_id, self.started_at, self.duration_ms, self.phases_ms, self.input_rows),)

    @property
    def slowest_phase(self) -> str | None:
        """The phase that took the most time; None if nothing was measured."""
        return max(self.phases_ms, key=lambda name: self.phases_ms[name], default=None)


def combined(
    reports: Sequence[Mapping[str, Any]], previous_start: datetime | None, executor_time: ExecutorTime | None = None
) -> StreamBatches:
    """The facts of consecutive batches.

    Args:
        reports: Spark's progress of each batch, oldest first; not empty.
        previous_start: when the batch before them started; None for none.
        executor_time: of their tasks; None if unknown.
    """
    newest = reports[-1]
    rows = sum(int(report["numInputRows"]) for report in reports)
    duration_ms = sum(_duration_ms(report) for report in reports)
    started_at = _required_time(newest["timestamp"])
    elapsed_s = (started_at - previous_start).total_seconds() if previous_start is not None else 0.0
    event_times = [_time((report.get("eventTime") or {}).get("max")) for report in reports]
    return StreamBatches(
        batch_id=int(newest["batchId"]),
        batches=len(reports),
        started_at=started_at,
        duration_ms=duration_ms,
        phases_ms=_phases(reports),
        input_rows=rows,
        input_rows_per_second=round(rows / elapsed_s, 3) if elapsed_s > 0 else None,
        processed_rows_per_second=round(1000 * rows / duration_ms, 3) if duration_ms > 0 else None,
        watermark=_time((newest.get("eventTime") or {}).get("watermark")),
        newest_event_time=max((found for found in event_times if found is not None), default=None),
        operators=tuple(_operator(number, reports) for number in range(len(newest["stateOperators"]))),
        sources=tuple(
            SourceProgress(
                _source_name(str(source["description"])), sum(_rows_of_source(number, report) for report in reports)
            )
            for number, source in enumerate(newest["sources"])
        ),
        timings=tuple(map(_timing, reports)) if len(reports) > 1 else (),
        executor_time=executor_time,
    )


def _timing(report: Mapping[str, Any]) -> BatchTiming:
    return BatchTiming(
        batch_id=int(report["batchId"]),
        started_at=_required_time(report["timestamp"]),
        duration_ms=_duration_ms(report),
        phases_ms=_phases([report]),
        input_rows=int(report["numInputRows"]),
    )


def _duration_ms(report: Mapping[str, Any]) -> int:
    return int(report["durationMs"].get("triggerExecution", report.get("batchDuration", 0)))


def _phases(reports: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    sums = {name: sum(int(report["durationMs"].get(key, 0)) for report in reports) for key, name in PHASES.items()}
    return {name: total_ms for name, total_ms in sums.items() if total_ms > 0}


def _operator(number: int, reports: Sequence[Mapping[str, Any]]) -> OperatorProgress:
    # The operators of a query never change.
    found = [report["stateOperators"][number] for report in reports if number < len(report["stateOperators"])]
    newest = found[-1]
    name = str(newest["operatorName"])
    return OperatorProgress(
        operator=name,
        kind=_OPERATORS.get(name, name),
        rows_total=int(newest["numRowsTotal"]) or None,
        rows_updated=sum(int(one["numRowsUpdated"]) for one in found),
        rows_removed=sum(int(one["numRowsRemoved"]) for one in found),
        rows_dropped=sum(int(one["numRowsDroppedByWatermark"]) for one in found),
        duplicates_dropped=sum(int(one["customMetrics"].get("numDroppedDuplicateRows", 0)) for one in found),
        memory_bytes=int(newest["memoryUsedBytes"]),
        commit_ms=sum(int(one["commitTimeMs"]) for one in found),
    )


def _source_name(description: str) -> str:
    """The source by Spark's description, without what connectors of others put there, which may be a secret."""
    if _DESCRIBED.fullmatch(description):
        return description
    name = _CLASS_NAME.match(description)
    return name["name"] if name is not None else "source"


def _rows_of_source(number: int, report: Mapping[str, Any]) -> int:
    sources = report["sources"]
    return int(sources[number]["numInputRows"]) if number < len(sources) else 0


def _required_time(text: str) -> datetime:
    found = _time(text)
    if found is None:
        raise ValueError(text)
    return found


def _time(text: str | None) -> datetime | None:
    """A time in Spark's progress; None for a year that Python does not have, and for the watermark before any event."""
    if text is None:
        return None
    try:
        found = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    except ValueError:
        return None
    return None if found.year <= 1970 and found.timestamp() == 0 else found
