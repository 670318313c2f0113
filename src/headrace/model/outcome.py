"""What became of an update: the value that ``run --output json`` prints and ``Project.run`` returns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum
from typing import Any

from headrace.model.expectations import ExpectationCount


class UpdateState(str, Enum):
    """How an update ended; RUNNING and LOST are seen by readers of the event log only.

    Of one that is LOST, the process ended without a word, as one that was killed.
    """

    RUNNING = "RUNNING"
    LOST = "LOST"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"
    CANCELED = "CANCELED"


class FlowState(str, Enum):
    """Where a flow stands in an update. ``runtime/states.py`` says which moves are legal."""

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
    # Where it stood when the process of its update was lost is not known.
    LOST = "LOST"


GOING_ON = frozenset({FlowState.QUEUED, FlowState.STARTING, FlowState.RUNNING, FlowState.IDLE, FlowState.RETRYING})


@dataclass(frozen=True)
class ChangeCounts:
    """What became of change events that were merged into a table.

    Attributes:
        tied: events that lost to another one of their batch, which has the same key and sequence and is not the same:
            of each such sequence all but one. Where the newest event of a key decides, those of its sequence alone.
        late: events that are not newer than the newest one that is not remembered any more, and so may have come too
            late to be put in their order.
        null_overwrites: events that put NULL where a value was; None where it is not known, as where the newest event
            of a key decides.
        new_versions: rows that were added to a table of SCD type 2; None for others. Nearly as many as events mean that
            nearly every event begins a version.
        lone_changes: events that began a version which differs from the one before in one column alone, of several
            that could; None where it is not counted: outside of SCD type 2, and in tables with two times.
        lone_column: the most frequent of these columns; None where there is none, or batches have other ones.
    """

    tied: int = 0
    late: int = 0
    null_overwrites: int | None = None
    new_versions: int | None = None
    lone_changes: int | None = None
    lone_column: str | None = None

    def plus(self, other: ChangeCounts) -> ChangeCounts:
        """Both together."""
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
    function returned, and those that it failed with. Change events count as written once they are applied, whatever
    they changed.
    """

    rows_written: int = 0
    rows_dropped: int = 0
    rows_quarantined: int = 0
    expectations: tuple[ExpectationCount, ...] = ()
    # True when a crash made it necessary to take the counts from the commits (D3).
    recovered: bool = False
    # Of the rows written, those with something rescued (Auto Loader); None where nothing tells.
    rows_rescued: int | None = None
    # Of tables that change events are merged into: rows of the table that were added or given new values, and those
    # that were taken out; None for others.
    rows_upserted: int | None = None
    rows_deleted: int | None = None
    # The same holds of the events of such tables.
    changes: ChangeCounts | None = None

    @property
    def rows_read(self) -> int:
        """What the law says."""
        return self.rows_written + self.rows_dropped + self.rows_quarantined

    def plus(self, other: FlowCounts) -> FlowCounts:
        """Both batches together; expectations are matched by name."""
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
        )


def _sum_of_known(first: int | None, second: int | None) -> int | None:
    return second if first is None else first + (second or 0)


@dataclass(frozen=True)
class PartitionLag:
    """How far a stream has read one partition of a topic: ``offset`` is the next to read, ``newest`` where it ends."""

    topic: str
    partition: int
    offset: int
    newest: int

    @property
    def behind(self) -> int:
        """Offsets that are there and were not read."""
        return max(self.newest - self.offset, 0)

    def to_json(self) -> dict[str, Any]:
        """The partition as one JSON object."""
        place = {"topic": self.topic, "partition": self.partition}
        return {**place, "offset": self.offset, "newest": self.newest, "behind": self.behind}


@dataclass(frozen=True)
class FilesBacklog:
    """Files below a path, by their number and bytes, that a stream has found and not read."""

    source: str
    files: int
    size: int

    def to_json(self) -> dict[str, Any]:
        """The source as one JSON object."""
        return {"source": self.source, "files": self.files, "bytes": self.size}


@dataclass(frozen=True)
class KeptState:
    """What an operator of a stream keeps between its batches.

    ``rows_updated`` and ``duplicates_removed`` are of all batches since the flow was started, ``memory_bytes`` is what
    its stores take now, without what they have on disk.
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
class FlowOutcome:
    """What became of one flow.

    ``lag`` is that of its topics, ``backlog`` of its files, ``kept`` its state, when it was looked at last.
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
    kept: tuple[KeptState, ...] = ()
    # The time that events are too late behind, as Spark has it; none where there is no watermark.
    watermark: str = ""

    def to_json(self) -> dict[str, Any]:
        """The flow as in the contract.

        ``lag`` is there for flows that read topics, ``backlog`` for Auto Loader's, and ``operators`` and ``watermark``
        for those that keep state.
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
            **({"operators": [operator.to_json() for operator in self.kept]} if self.kept else {}),
            **({"watermark": self.watermark} if self.watermark else {}),
        }


@dataclass(frozen=True)
class Outcome:
    """What became of an update. ``error`` is the JSON form of the first error that failed it."""

    update_id: str
    state: UpdateState
    cause: str
    started_at: datetime
    ended_at: datetime | None
    flows: tuple[FlowOutcome, ...]
    error: dict[str, Any] | None = None

    def lost(self) -> Outcome:
        """The same of an update whose process is gone: it does not run any more, though no event says so."""
        flows = (replace(flow, state=FlowState.LOST) if flow.state in GOING_ON else flow for flow in self.flows)
        return replace(self, state=UpdateState.LOST, flows=tuple(flows))

    def to_json(self) -> dict[str, Any]:
        """The outcome as the contract's JSON object."""
        return {
            "update_id": self.update_id,
            "state": self.state.value,
            "cause": self.cause,
            "started_at": self.started_at.isoformat(),
            "ended_at": self.ended_at.isoformat() if self.ended_at else None,
            "flows": [flow.to_json() for flow in self.flows],
            "error": self.error,
        }
