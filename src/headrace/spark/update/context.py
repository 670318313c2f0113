"""The context that all flows of an update share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.cdc.table_lock import TableLock
from headrace.graph.resolved import ResolvedGraph
from headrace.model.failing_rows import DeadLetterPolicy
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
    """The pipeline, its storage and its session for the flows of one update."""

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
    # The file for complete stack traces of failures.
    traces: Path
    # Called at each failpoint, between two steps that a crash could separate.
    at: Failpoints
    # Returns while this update may commit; raises after another has taken over.
    fence: Callable[[], None]
    # The fencing token: the number of the lease, which only increases.
    term: int
    # Defaults for tables with merged change events.
    retention: Retention
    on_tie: OnTie
    # Default for flows.
    on_failing_rows: DeadLetterPolicy
    # How many rows of each expectation are sampled, by the pipeline's settings. Not read from the session while flows
    # run, because the confs of another flow may be set there.
    samples: str | None
    # Table locks for flows that merge into the same table.
    turns: Mapping[QualifiedName, TableLock]
    # How long a running batch may take after a stop was requested.
    stop_timeout_s: float = 10.0
    # How many batches of views run at the same time.
    max_parallel_flows: int = 4

    @property
    def session(self) -> SparkSession:
        """The pipeline's session."""
        return self.catalog.session

    def work_group(self, flow: str) -> str:
        """The Spark job group of a flow, by which its batch can be cancelled."""
        return f"headrace {self.update_id} {flow}"

    def table_path(self, name: QualifiedName) -> str:
        """The path of a dataset's table."""
        return self.layout.table(self.naming, name)
