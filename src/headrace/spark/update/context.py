"""What all flows of an update share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.cdc.table_lock import TableLock
from headrace.graph.resolved import ResolvedGraph
from headrace.model.failing_rows import OnFailingRows
from headrace.model.names import Naming, QualifiedName
from headrace.model.outcome import FlowCounts
from headrace.model.sequence_conflicts import OnTie
from headrace.model.tombstone_retention import Retention
from headrace.runtime.failpoints import Failpoints
from headrace.runtime.ports import Emit
from headrace.settings.storage import StorageLayout
from headrace.spark.update.catalog import Catalog
from headrace.storage.change_detection import StoredState


@dataclass(frozen=True)
class UpdateContext:
    """The pipeline, its storage and its session, as the flows of one update see them."""

    update_id: str
    pipeline_id: str
    graph: ResolvedGraph
    catalog: Catalog
    state: StoredState
    layout: StorageLayout
    naming: Naming
    root: Path
    emit: Emit
    known_counts: Callable[[str, int, int], FlowCounts | None]
    now: Callable[[], float]
    redact: Callable[[str], str]
    # Where the whole traces of failures go.
    traces: Path
    # Is told each point that a crash could part from the next.
    at: Failpoints
    # Returns while this update may commit, raises once another has taken over.
    fence: Callable[[], None]
    # The number of the lease, which only grows.
    term: int
    # Of tables that change events are merged into, where they do not say so themselves.
    retention: Retention
    on_tie: OnTie
    # Of flows that do not say so themselves.
    on_failing_rows: OnFailingRows
    # How many rows of each expectation are sampled, by the pipeline's settings. Not read from the session while flows
    # run: another flow's settings may be in force there.
    samples: str | None
    # For flows that merge into one table.
    turns: Mapping[QualifiedName, TableLock]
    # How long a running batch may take once the update is told to stop.
    stop_timeout_s: float = 10.0
    # How many batches of views run at a time.
    max_parallel_flows: int = 4

    @property
    def session(self) -> SparkSession:
        """The pipeline's session."""
        return self.catalog.session

    def work_group(self, flow: str) -> str:
        """By which the work of a batch of a flow can be interrupted."""
        return f"headrace {self.update_id} {flow}"

    def table_path(self, name: QualifiedName) -> str:
        """Where a dataset's table lies."""
        return self.layout.table(self.naming, name)
