"""The outcome of an update: the value that ``run --output json`` prints and ``Project.run`` returns."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from typing import Any

from headrace.model.custom_metrics import MetricValue, added_values
from headrace.model.expectations import ExpectationCount
from headrace.model.refresh import Refresh


class UpdateState(str, Enum):
    """The state of an update; only readers of the event log see RUNNING and LOST.

    LOST means that the process ended without recording it, for example because it was killed.
    """

    RUNNING = "RUNNING"
    LOST = "LOST"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


class UpdateCause(str, Enum):
    """Why an update ran, as its caller says. Names follow the vendor's event log, as far as the causes exist here."""

    USER_ACTION = "USER_ACTION"
    SCHEDULE = "SCHEDULE"
    FILE_ARRIVAL = "FILE_ARRIVAL"
    TABLE_UPDATE = "TABLE_UPDATE"
    API_CALL = "API_CALL"
    RETRY_ON_FAILURE = "RETRY_ON_FAILURE"


class FlowState(str, Enum):
    """The state of a flow in an update. ``runtime/states.py`` defines the legal transitions."""

    QUEUED = "QUEUED"
    STARTING = "STARTING"
    RUNNING = "RUNNING"
    IDLE = "IDLE"
    RETRYING = "RETRYING"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    SKIPPED = "SKIPPED"
    UP_TO_DATE = "UP_TO_DATE"
    CANCELED = "CANCELED"
    EXCLUDED = "EXCLUDED"
    # The state when the process of its update was lost is unknown.
    LOST = "LOST"


# Why a flow is EXCLUDED.
NOT_SELECTED = "not selected"
ACTIVE_STATES = frozenset({FlowState.QUEUED, FlowState.STARTING, FlowState.RUNNING, FlowState.IDLE, FlowState.RETRYING})


# Codes of warnings about the selection of an update, which its outcome repeats.
NOTICE_CODES = frozenset({"FLOW.INPUT_CLEARED", "SELECTION.NOTHING_MODIFIED"})


def unselected_text(flows: int) -> str:
    """One line about the flows outside of the selection."""
    return f"{flows} flow{'' if flows == 1 else 's'} {NOT_SELECTED}"


@dataclass(frozen=True)
class ChangeCounts:
    """Counts of change events that were merged into a table.

    Attributes:
        tied: events that lost a sequence conflict: of the different events of a batch with the same key and sequence,
            all but one. If only the newest event of a key decides, only those with its sequence.
        late: events that are not newer than the newest expired event, and so may have arrived too late to be ordered.
        null_overwrites: events that overwrote a value with NULL; None if unknown, as when only the newest event of a
            key decides.
        new_versions: rows added to an SCD type 2 table; None for others. If they are nearly as many as the events,
            nearly every event begins a version.
        lone_changes: events that began a version that differs from the previous one in only one of several tracked
            columns; None if not counted: for SCD type 1 and bitemporal tables.
        lone_column: the most frequent of these columns; None if there is none, or if batches have different ones.
    """

    tied: int = 0
    late: int = 0
    null_overwrites: int | None = None
    new_versions: int | None = None
    lone_changes: int | None = None
    lone_column: str | None = None

    def plus(self, other: ChangeCounts) -> ChangeCounts:
        """The sum of both."""
        return ChangeCounts(
            self.tied + other.tied,
            self.late + other.late,
            _sum_of_known(self.null_overwrites, other.null_overwrites),
            _sum_of_known(self.new_versions, other.new_versions),
            _sum_of_known(self.lone_changes, other.lone_changes),
            self._lone_column_with(other),
        )

    def _lone_column_with(self, other: ChangeCounts) -> str | None:
        columns = {one.lone_column for one in (self, other) if one.lone_changes}
        return columns.pop() if len(columns) == 1 else None


@dataclass(frozen=True)
class FlowCounts:
    """Rows of one batch, or of all batches of a flow in an update.

    Law: rows_read = rows_written + rows_dropped + rows_quarantined, where rows read are those that the flow's
    function returned and those with which it failed. Change events count as written when they are applied, whatever
    they change. A view of which only groups were refreshed has read, and written, the rows that changed.
    """

    rows_written: int = 0
    rows_dropped: int = 0
    rows_quarantined: int = 0
    expectations: tuple[ExpectationCount, ...] = ()
    # True if the counts were recovered from the commits after a crash (D3).
    recovered: bool = False
    # Rows written that have rescued data (Auto Loader); None if unknown.
    rows_rescued: int | None = None
    # Inserted or updated rows, and deleted rows, of tables that CDC flows merge into; None for others.
    rows_upserted: int | None = None
    rows_deleted: int | None = None
    # Counts of the events of such tables.
    changes: ChangeCounts | None = None
    # Metrics that the user defines.
    metrics: tuple[MetricValue, ...] = ()
    # How a materialized view was refreshed; None for other flows. The rows are the same in any way.
    refresh: Refresh | None = field(default=None, compare=False)

    @property
    def rows_read(self) -> int:
        """The number of rows read, by the law above."""
        return self.rows_written + self.rows_dropped + self.rows_quarantined

    @property
    def written(self) -> str:
        """The written rows, for the reader."""
        partial = f" (refresh of {self.refresh.method.value})" if self.refresh and self.refresh.is_partial else ""
        return f"{self.rows_written} rows written{partial}"

    def plus(self, other: FlowCounts) -> FlowCounts:
        """The sum of both batches; expectations are matched by name."""
        merged = {count.name: count for count in self.expectations}
        for count in other.expectations:
            merged[count.name] = merged[count.name].plus(count) if count.name in merged else count
        return FlowCounts(
            self.rows_written + other.rows_written,
            self.rows_dropped + other.rows_dropped,
            self.rows_quarantined + other.rows_quarantined,
            tuple(merged.values()),
            self.recovered or other.recovered,
            _sum_of_known(self.rows_rescued, other.rows_rescued),
            _sum_of_known(self.rows_upserted, other.rows_upserted),
            _sum_of_known(self.rows_deleted, other.rows_deleted),
            other.changes if self.changes is None else self.changes.plus(other.changes or ChangeCounts()),
            added_values(self.metrics, other.metrics),
            other.refresh or self.refresh,
        )


def _sum_of_known(first: int | None, second: int | None) -> int | None:
    return second if first is None else first + (second or 0)


@dataclass(frozen=True)
class PartitionLag:
    """A stream's progress in one partition of a topic: ``offset`` is the next to read, ``newest`` the end offset."""

    topic: str
    partition: int
    offset: int
    newest: int

    @property
    def behind(self) -> int:
        """The number of unread offsets."""
        return max(self.newest - self.offset, 0)

    def to_json(self) -> dict[str, Any]:
        """The partition as one JSON object."""
        partition = {"topic": self.topic, "partition": self.partition}
        return {**partition, "offset": self.offset, "newest": self.newest, "behind": self.behind}


@dataclass(frozen=True)
class FilesBacklog:
    """The number and bytes of files below a path that a stream has found but not read.

    *oldest_unread_at* is when the first of them was found; None if all were read, or unknown.
    """

    source: str
    files: int
    size: int
    oldest_unread_at: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        """The source as one JSON object."""
        oldest = None if self.oldest_unread_at is None else self.oldest_unread_at.isoformat()
        return {"source": self.source, "files": self.files, "bytes": self.size, "oldest_unread_at": oldest}


@dataclass(frozen=True)
class TableLag:
    """What a stream has not read of a Delta table.

    Attributes:
        source: the dataset, or the path of a table outside of the pipeline.
        commits: commits that it has not read completely.
        rows: their rows; None if unknown.
        size: their bytes; None if unknown.
        oldest_unread_at: when the oldest of them was written; None if all were read, or unknown.
    """

    source: str
    commits: int
    rows: int | None
    size: int | None
    oldest_unread_at: datetime | None = None

    def to_json(self) -> dict[str, Any]:
        """The table as one JSON object."""
        oldest = None if self.oldest_unread_at is None else self.oldest_unread_at.isoformat()
        behind = {"commits": self.commits, "rows": self.rows, "bytes": self.size}
        return {"source": self.source, **behind, "oldest_unread_at": oldest}


@dataclass(frozen=True)
class SourceLag:
    """What a stream has not read of a source other than a topic, Auto Loader or a table; None for what is unknown.

    Attributes:
        source: its path, or its own description.
        kind: ``files``, ``jdbc``, ``kinesis`` or ``synthetic``.
        rows: unread rows.
        files: unread files.
        size: their bytes.
        seconds: the age of the oldest unread file or record; for a column of times, between the newest row and the last
            row read.
        distance: of a column of numbers, between the newest row and the last row read.
    """

    source: str
    kind: str
    rows: int | None = None
    files: int | None = None
    size: int | None = None
    seconds: float | None = None
    distance: float | None = None

    @property
    def behind(self) -> dict[str, float]:
        """What is known, by the names in JSON."""
        known = {
            "rows": self.rows,
            "files": self.files,
            "bytes": self.size,
            "seconds": self.seconds,
            "distance": self.distance,
        }
        return {name: value for name, value in known.items() if value is not None}

    def to_json(self) -> dict[str, Any]:
        """The source as one JSON object."""
        return {"source": self.source, "kind": self.kind, **self.behind}


@dataclass(frozen=True)
class OperatorState:
    """The state that an operator of a stream keeps between batches.

    ``rows_updated`` and ``duplicates_removed`` count all batches since the flow started; ``memory_bytes`` is the memory
    that its state stores use now, without their disk space.
    """

    operator: str
    rows_updated: int
    duplicates_removed: int
    memory_bytes: int

    def to_json(self) -> dict[str, Any]:
        """The operator as one JSON object."""
        return {
            "operator": self.operator,
            "rows_updated": self.rows_updated,
            "duplicates_removed": self.duplicates_removed,
            "memory_bytes": self.memory_bytes,
        }


@dataclass(frozen=True)
class BatchTasks:
    """The progress of a long batch: the tasks of its Spark jobs so far.

    Attributes:
        batch_id: the number of the batch; None for a query that is one batch, such as that of a view.
        done: tasks that have ended.
        tasks: all tasks of the jobs that were started; a batch may start more.
        elapsed_s: how long the batch has run, in whole seconds.
    """

    batch_id: int | None
    done: int
    tasks: int
    elapsed_s: int

    def to_json(self) -> dict[str, Any]:
        """The batch as one JSON object."""
        tasks = {"tasks_done": self.done, "tasks": self.tasks}
        return {"batch_id": self.batch_id, **tasks, "elapsed_s": self.elapsed_s}

    def describe(self) -> str:
        """The progress in a few words."""
        batch = "" if self.batch_id is None else f"batch {self.batch_id}: "
        hours, seconds = divmod(self.elapsed_s, 3600)
        minutes = f"{seconds // 60:02}" if hours else f"{seconds // 60}"
        clock = f"{hours}:" if hours else ""
        return f"{batch}{self.done:,} of {self.tasks:,} tasks, {clock}{minutes}:{seconds % 60:02}"


@dataclass(frozen=True)
class FlowOutcome:
    """The outcome of one flow.

    ``lag`` (of topics), ``backlog`` (of Auto Loader), ``table_lag``, ``source_lag`` (of other sources) and
    ``operators`` (state) are the values last reported. ``batch`` is the running batch, if it is long.
    """

    flow: str
    dataset: str
    state: FlowState
    reason: str | None = None
    counts: FlowCounts = FlowCounts()
    attempts: int = 0
    duration_s: float = 0.0
    lag: tuple[PartitionLag, ...] = ()
    backlog: tuple[FilesBacklog, ...] = ()
    operators: tuple[OperatorState, ...] = ()
    # The watermark, as Spark formats it; empty if there is none.
    watermark: str = ""
    table_lag: tuple[TableLag, ...] = ()
    source_lag: tuple[SourceLag, ...] = ()
    batch: BatchTasks | None = None

    @property
    def is_unselected(self) -> bool:
        """True if the flow did not run because other datasets were selected, which is no news to the user."""
        return self.state is FlowState.EXCLUDED and self.reason in (None, NOT_SELECTED)

    def to_json(self) -> dict[str, Any]:
        """The flow as in the contract.

        ``lag`` is present for flows that read topics, ``backlog`` for Auto Loader, ``table_lag`` for streams of Delta
        tables, ``source_lag`` for streams of other sources whose lag is known, ``operators`` and ``watermark`` for
        stateful flows, ``batch`` while a long batch runs, ``metrics`` for flows with metrics of the user, and
        ``refresh`` with ``refresh_reason`` for a materialized view that was refreshed.
        """
        return {
            "flow": self.flow,
            "dataset": self.dataset,
            "state": self.state.value,
            "reason": self.reason,
            "rows_written": self.counts.rows_written,
            "rows_dropped": self.counts.rows_dropped,
            "rows_quarantined": self.counts.rows_quarantined,
            "attempts": self.attempts,
            "duration_s": round(self.duration_s, 3),
            "expectations": [count.to_json() for count in self.counts.expectations],
            **({"lag": [partition.to_json() for partition in self.lag]} if self.lag else {}),
            **({"backlog": [source.to_json() for source in self.backlog]} if self.backlog else {}),
            **({"table_lag": [table.to_json() for table in self.table_lag]} if self.table_lag else {}),
            **({"source_lag": [source.to_json() for source in self.source_lag]} if self.source_lag else {}),
            **({"operators": [operator.to_json() for operator in self.operators]} if self.operators else {}),
            **({"watermark": self.watermark} if self.watermark else {}),
            **({"batch": self.batch.to_json()} if self.batch else {}),
            **({"metrics": [metric.to_json() for metric in self.counts.metrics]} if self.counts.metrics else {}),
            **(self.counts.refresh.to_json() if self.counts.refresh else {}),
        }


@dataclass(frozen=True)
class Outcome:
    """The outcome of an update. ``error`` is the JSON form of the first error that failed it."""

    update_id: str
    state: UpdateState
    cause: str
    started_at: datetime
    ended_at: datetime | None
    flows: tuple[FlowOutcome, ...]
    error: dict[str, Any] | None = None
    # What the user was told about the selection before the update wrote anything, each as one JSON object.
    notices: tuple[Mapping[str, Any], ...] = ()

    def as_lost(self) -> Outcome:
        """The outcome of an update whose process is gone, although the events do not show it."""
        flows = (
            replace(flow, state=FlowState.LOST, batch=None) if flow.state in ACTIVE_STATES else flow
            for flow in self.flows
        )
        return replace(self, state=UpdateState.LOST, flows=tuple(flows))

    def to_json(self) -> dict[str, Any]:
        """The outcome as the contract's JSON object. ``notices`` is present only if there are any."""
        return {
            "update_id": self.update_id,
            "state": self.state.value,
            "cause": self.cause,
            "started_at": self.started_at.isoformat(),
            "ended_at": self.ended_at.isoformat() if self.ended_at else None,
            "flows": [flow.to_json() for flow in self.flows],
            "error": self.error,
            **({"notices": [dict(notice) for notice in self.notices]} if self.notices else {}),
        }
