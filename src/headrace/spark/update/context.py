"""The context that all flows of an update share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.cdc.table_lock import TableLock
from headrace.events.types import BatchDone, Event
from headrace.graph.resolved import ResolvedGraph
from headrace.model.dead_letter_policy import DeadLetterPolicy
from headrace.model.executor_time import sum_of
from headrace.model.names import Naming, QualifiedName
from headrace.model.outcome import FlowCounts
from headrace.model.sequence_conflicts import OnTie
from headrace.model.tombstone_retention import Retention
from headrace.runtime.ports import Emit
from headrace.settings.storage import StorageLayout
from headrace.spark.jvm.executor_times import ExecutorTimes
from headrace.spark.update.catalog import Catalog
from headrace.spark.update.guard import Guard
from headrace.storage.change_detection import StoredState


@dataclass(frozen=True)
class Reporting:
    """Where flows report what they do.

    Attributes:
        emit: gets the events.
        known_counts: the counts of a flow's batch that the event log has already; by flow, epoch and batch id.
        now: the time in seconds since 1970.
        redact: removes secrets from a text.
        traces: the file for whole stack traces of failures.
        executor_times: the time of tasks, by job group.
    """

    emit: Emit
    known_counts: Callable[[str, int, int], FlowCounts | None]
    now: Callable[[], float]
    redact: Callable[[str], str]
    traces: Path
    executor_times: ExecutorTimes


@dataclass(frozen=True)
class FlowDefaults:
    """The pipeline's settings for flows and tables that do not set them themselves.

    Attributes:
        retention: of the tombstones of tables that change events are merged into.
        on_tie: what happens to events whose order is undefined.
        dead_letter_policy: what happens to rows that fail.
        samples: how many violating rows of each expectation are sampled, as text; None if not set. It is not read from
            the session while flows run, because another flow's settings may be in force there.
    """

    retention: Retention
    on_tie: OnTie
    dead_letter_policy: DeadLetterPolicy
    samples: str | None


@dataclass(frozen=True)
class UpdateContext:
    """The pipeline, its storage and its session for the flows of one update."""

    update_id: str
    pipeline_id: str
    graph: ResolvedGraph
    catalog: Catalog
    state: StoredState
    layout: StorageLayout
    naming: Naming
    root: Path
    reporting: Reporting
    guard: Guard
    defaults: FlowDefaults
    # For flows that merge into the same table.
    table_locks: Mapping[QualifiedName, TableLock]
    # How long a running batch may take after a stop was requested.
    stop_timeout_s: float = 10.0
    # How many batches of views run at the same time.
    max_parallel_flows: int = 4
    # Of the project's code.
    code_digest: str = ""

    @property
    def session(self) -> SparkSession:
        """The pipeline's session."""
        return self.catalog.session

    def work_group(self, flow: str) -> str:
        """The Spark job group of a flow, by which its batch can be cancelled."""
        return f"headrace {self.update_id} {flow}"

    def emit_timed(self, flow: str) -> Emit:
        """Where a flow that is no stream emits its events: its batches get the time of their tasks.

        The progress of a stream has the time.
        """
        times, group = self.reporting.executor_times, self.work_group(flow)

        def emit(event: Event) -> None:
            if isinstance(event, BatchDone):
                event = replace(event, executor_time=sum_of(times.take(group, settled=True).values()))
            self.reporting.emit(event)

        return emit

    def table_path(self, name: QualifiedName) -> str:
        """The path of a dataset's table."""
        return self.layout.table(self.naming, name)
