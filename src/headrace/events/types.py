"""The events of an update: one frozen class for each kind, and their closed union.

Event types, levels and state names follow the vendor's event log; ``details.py`` has their JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from headrace.cdc.feed import MergePath
from headrace.cdc.merge_commit import WritePath
from headrace.events.levels import Json, Level, Maturity
from headrace.events.upkeep import (
    LogTrimmed,
    RowsErased,
    SavepointChanged,
    StageSwapped,
    TableHandedOver,
    TableMaintained,
    UserAction,
)
from headrace.model.batch_commit import BatchCommit
from headrace.model.column_lineage import ColumnLineage
from headrace.model.dataset_id import DatasetId
from headrace.model.datasets import Kind
from headrace.model.executor_time import ExecutorTime
from headrace.model.expectation_facts import ExpectationFacts
from headrace.model.expectations import ExpectationCount
from headrace.model.external_input import ExternalInput
from headrace.model.location import Location
from headrace.model.outcome import (
    BatchTasks,
    FilesBacklog,
    FlowCounts,
    FlowState,
    OperatorState,
    PartitionLag,
    SourceLag,
    TableLag,
    UpdateState,
)
from headrace.model.stream_progress import StreamBatches


@dataclass(frozen=True)
class UpdateCreated:
    """An update started; *settings* and *selections* are JSON values without secrets.

    *user* is the operating system's name of the user who started it, *version* that of Headrace. *code_digest* changes
    with the files of the project; *git_commit* is checked out. *plan_id* is the plan that is applied, *request_id* the
    request that it answers; None for none. None in logs of older versions.
    """

    cause: str
    settings: Json = field(default_factory=dict)
    selections: Json = field(default_factory=dict)
    user: str | None = None
    version: str | None = None
    code_digest: str | None = None
    git_commit: str | None = None
    plan_id: str | None = None
    request_id: str | None = None

    event_type: ClassVar[str] = "create_update"
    level: ClassVar[Level] = Level.INFO
    maturity: ClassVar[Maturity] = Maturity.STABLE

    @property
    def is_whole(self) -> bool:
        """True if all datasets were selected."""
        return not any(self.selections.get(key) for key in ("refresh", "full_refresh", "selects_nothing"))

    @property
    def message(self) -> str:
        """One readable line."""
        user = f" of {self.user}" if self.user else ""
        return f"update created by {self.cause}{user}"


@dataclass(frozen=True)
class UpdateStateChanged:
    """The state of the update changed; *error* is the JSON of the error that failed it."""

    state: UpdateState
    error: Json | None = None

    event_type: ClassVar[str] = "update_progress"
    maturity: ClassVar[Maturity] = Maturity.STABLE

    @property
    def level(self) -> Level:
        """ERROR if the update failed."""
        return Level.ERROR if self.state is UpdateState.FAILED else Level.INFO

    @property
    def message(self) -> str:
        """One readable line."""
        return f"update is {self.state.value}{_because(self.error)}"


@dataclass(frozen=True)
class FreshnessTarget:
    """An expectation that the newest time in a column is at most so many seconds old."""

    column: str
    within_s: float


@dataclass(frozen=True)
class DatasetDefined:
    """A dataset of the update's graph.

    *path* is None if nothing is stored. *schema* is Spark's type of a row; None in old logs. *schedule* is a clause.
    *facts* are those of expectations, as far as they are known.
    """

    dataset: str
    kind: Kind
    path: str | None = None
    expectations: tuple[str, ...] = ()
    schema: Json | None = None
    comment: str | None = None
    private: bool = False
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    freshness: tuple[FreshnessTarget, ...] = ()
    schedule: str = ""
    facts: tuple[ExpectationFacts, ...] = ()

    event_type: ClassVar[str] = "dataset_definition"
    level: ClassVar[Level] = Level.INFO
    maturity: ClassVar[Maturity] = Maturity.STABLE

    @property
    def message(self) -> str:
        """One readable line."""
        return f'{self.kind.label} "{self.dataset}" defined'


@dataclass(frozen=True)
class SinkDefined:
    """A sink of the update's graph; *options* omits values that may be secret, *datasets* names what it writes to."""

    dataset: str
    format: str
    options: Json = field(default_factory=dict)
    datasets: tuple[DatasetId, ...] = ()

    event_type: ClassVar[str] = "sink_definition"
    level: ClassVar[Level] = Level.INFO
    maturity: ClassVar[Maturity] = Maturity.STABLE

    @property
    def message(self) -> str:
        """One readable line."""
        return f'sink "{self.dataset}" defined with format {self.format}'


@dataclass(frozen=True)
class FlowDefined:
    """A flow of the update's graph; *mode* is the vendor's flow type, such as APPEND or COMPLETE.

    *trigger* says when its batches start, *query_digest* changes with its query; None in logs of older versions.
    *columns* says where its columns come from; None if unknown. *location* is that of its code.
    """

    flow: str
    dataset: str
    inputs: tuple[str, ...] = ()
    language: str = "PYTHON"
    mode: str = "APPEND"
    once: bool = False
    comment: str | None = None
    external_inputs: tuple[ExternalInput, ...] = ()
    trigger: str | None = None
    query_digest: str | None = None
    columns: ColumnLineage | None = None
    location: Location | None = None

    event_type: ClassVar[str] = "flow_definition"
    level: ClassVar[Level] = Level.INFO
    maturity: ClassVar[Maturity] = Maturity.STABLE

    @property
    def message(self) -> str:
        """One readable line."""
        return f'flow "{self.flow}" defined with target "{self.dataset}"'


@dataclass(frozen=True)
class FlowStateChanged:
    """The state of a flow changed."""

    flow: str
    dataset: str
    state: FlowState
    reason: str | None = None
    attempt: int = 0
    error: Json | None = None
    duration_s: float | None = None

    event_type: ClassVar[str] = "flow_progress"
    maturity: ClassVar[Maturity] = Maturity.STABLE

    @property
    def level(self) -> Level:
        """ERROR if the flow failed, WARN if it is retried or was skipped."""
        if self.state is FlowState.FAILED:
            return Level.ERROR
        return Level.WARN if self.state in (FlowState.RETRYING, FlowState.SKIPPED) else Level.INFO

    @property
    def message(self) -> str:
        """One readable line."""
        why = f": {self.reason}" if self.reason else _because(self.error)
        return f'flow "{self.flow}" is {self.state.value}{why}'


@dataclass(frozen=True)
class BatchDone:
    """A batch of a flow is committed to its target, with its written, dropped and quarantined rows.

    Law: (flow, epoch, batch_id) identifies a batch; of several records only the first counts. So a flow that runs
    without a checkpoint must give each of its batches a unique id.
    """

    flow: str
    dataset: str
    epoch: int
    batch_id: int
    counts: FlowCounts = FlowCounts()
    # None if unknown, as for a batch that a crash interrupted after its commit.
    duration_ms: int | None = None
    # How change events or a snapshot were merged into the table; None for other flows, and if nothing changed.
    merge_path: MergePath | None = None
    # How the changes were written; None if the commit does not record it.
    write_path: WritePath | None = None
    # The commit of the table; None for sinks, if the batch made none, and if it is no longer known.
    commit: BatchCommit | None = None
    # Of its tasks, for flows that are no stream; that of a stream is in its progress. None if unknown.
    executor_time: ExecutorTime | None = None

    event_type: ClassVar[str] = "flow_progress"
    level: ClassVar[Level] = Level.METRICS
    maturity: ClassVar[Maturity] = Maturity.STABLE

    @property
    def message(self) -> str:
        """One readable line."""
        counts = self.counts
        parts = [counts.written]
        parts += [f"{counts.rows_dropped} dropped"] if counts.rows_dropped else []
        parts += [f"{counts.rows_quarantined} quarantined"] if counts.rows_quarantined else []
        parts += [f"{counts.rows_rescued} with rescued data"] if counts.rows_rescued else []
        parts += [f"{counts.rows_upserted} upserted"] if counts.rows_upserted is not None else []
        parts += [f"{counts.rows_deleted} deleted"] if counts.rows_deleted else []
        parts += [f"{counts.changes.tied} lost a tie"] if counts.changes and counts.changes.tied else []
        parts += [f"{counts.changes.late} possibly too late"] if counts.changes and counts.changes.late else []
        return f'flow "{self.flow}" finished batch {self.batch_id}: {", ".join(parts)}'


@dataclass(frozen=True)
class BatchRunning:
    """A batch of a flow takes long; emitted at intervals until it has ended."""

    flow: str
    dataset: str
    batch: BatchTasks

    event_type: ClassVar[str] = "batch_progress"
    level: ClassVar[Level] = Level.METRICS
    maturity: ClassVar[Maturity] = Maturity.EVOLVING

    @property
    def message(self) -> str:
        """One readable line."""
        return f'flow "{self.flow}" runs {self.batch.describe()}'


@dataclass(frozen=True)
class RowsSampled:
    """Sample rows of a batch that violated a rule, each as a JSON object without its NULL columns."""

    flow: str
    dataset: str
    epoch: int
    batch_id: int
    expectation: str
    rows: tuple[str, ...]

    event_type: ClassVar[str] = "broken_rows"
    level: ClassVar[Level] = Level.METRICS
    maturity: ClassVar[Maturity] = Maturity.EVOLVING

    @property
    def message(self) -> str:
        """One readable line."""
        rows = "a row" if len(self.rows) == 1 else f"{len(self.rows)} rows"
        return f'flow "{self.flow}": {rows} of batch {self.batch_id} that violated "{self.expectation}"'


@dataclass(frozen=True)
class TableEvaluated:
    """The results of a flow's table rules, evaluated once: each has passed or failed once."""

    flow: str
    dataset: str
    expectations: tuple[ExpectationCount, ...]

    event_type: ClassVar[str] = "table_judged"
    level: ClassVar[Level] = Level.METRICS
    maturity: ClassVar[Maturity] = Maturity.EVOLVING

    @property
    def message(self) -> str:
        """One readable line."""
        failed = [f'"{e.name}"' for e in self.expectations if e.failed]
        return f'"{self.dataset}" {"violates " + ", ".join(failed) if failed else "meets its expectations"}'


@dataclass(frozen=True)
class FlowLagMetrics:
    """The lag of a flow in topics, files, tables and other sources.

    It is emitted when it changes, from time to time, and at the end.
    """

    flow: str
    dataset: str
    lag: tuple[PartitionLag, ...] = ()
    backlog: tuple[FilesBacklog, ...] = ()
    tables: tuple[TableLag, ...] = ()
    sources: tuple[SourceLag, ...] = ()

    event_type: ClassVar[str] = "flow_progress"
    level: ClassVar[Level] = Level.METRICS
    maturity: ClassVar[Maturity] = Maturity.EVOLVING

    @property
    def message(self) -> str:
        """One readable line."""
        offsets = sum(partition.behind for partition in self.lag)
        files, size = sum(source.files for source in self.backlog), sum(source.size for source in self.backlog)
        parts = [f"is {offsets} offset{'' if offsets == 1 else 's'} behind"] if self.lag else []
        parts += [f"has {files} file{'' if files == 1 else 's'} to read ({size} bytes)"] if self.backlog else []
        commits = sum(table.commits for table in self.tables)
        parts += [f"is {commits} commit{'' if commits == 1 else 's'} behind"] if self.tables else []
        for one in self.sources:
            known = ", ".join(f"{value:g} {name}" for name, value in one.behind.items())
            parts += [f"is behind {one.source} by {known}"]
        return f'flow "{self.flow}" {" and ".join(parts)}'


@dataclass(frozen=True)
class FlowStateMetrics:
    """The state size of a flow and its watermark; emitted when they change, from time to time, and at the end."""

    flow: str
    dataset: str
    operators: tuple[OperatorState, ...]
    watermark: str = ""

    event_type: ClassVar[str] = "flow_progress"
    level: ClassVar[Level] = Level.METRICS
    maturity: ClassVar[Maturity] = Maturity.EVOLVING

    @property
    def message(self) -> str:
        """One readable line."""
        removed = sum(operator.duplicates_removed for operator in self.operators)
        names = ", ".join(operator.operator for operator in self.operators)
        parts = [f"keeps state for {names}"]
        parts += [f"removed {removed} duplicate{'' if removed == 1 else 's'}"] if removed else []
        parts += [f"has its watermark at {self.watermark}"] if self.watermark else []
        return f'flow "{self.flow}" {", ".join(parts)}'


@dataclass(frozen=True)
class StreamProgress:
    """What a stream did in its latest batches: rates, phases, state; emitted from time to time, and at the end.

    Law: each computed batch of a query run is in exactly one of its events, unless more than a hundred batches finished
    between two looks at the query, which is all that Spark keeps.
    """

    flow: str
    dataset: str
    epoch: int
    query_id: str
    run_id: str
    progress: StreamBatches

    event_type: ClassVar[str] = "stream_progress"
    level: ClassVar[Level] = Level.METRICS
    maturity: ClassVar[Maturity] = Maturity.EVOLVING

    @property
    def message(self) -> str:
        """One readable line."""
        done = self.progress
        if not done.batches:
            return f'flow "{self.flow}" waits for its first input'
        batches = "a batch" if done.batches == 1 else f"{done.batches} batches"
        speed = f", {rate:,.0f} rows/s" if (rate := done.processed_rows_per_second) else ""
        return f'flow "{self.flow}" read {done.input_rows} rows in {batches} ({done.duration_ms} ms{speed})'


@dataclass(frozen=True)
class FlowTotal:
    """The totals of one flow in an update so far; its newest batch is ``batch_id`` of ``epoch``.

    ``batches`` is their number; None in logs of older versions.
    """

    flow: str
    dataset: str
    epoch: int
    batch_id: int
    counts: FlowCounts
    batches: int | None = None


@dataclass(frozen=True)
class UpdateTotals:
    """The totals of the update so far, recorded from time to time in a continuous update, and at its end.

    Law: the totals and the batches after them give the same counts as all batches. The same holds for the reports: the
    newest of each flow about its lag, its state, and a batch that takes long; None in logs of older versions.
    """

    flows: tuple[FlowTotal, ...]
    reports: tuple[FlowLagMetrics | FlowStateMetrics | BatchRunning, ...] | None = None

    event_type: ClassVar[str] = "flow_totals"
    level: ClassVar[Level] = Level.METRICS
    maturity: ClassVar[Maturity] = Maturity.EVOLVING

    @property
    def message(self) -> str:
        """One readable line."""
        return f"{sum(flow.counts.rows_written for flow in self.flows)} rows written by the update so far"


@dataclass(frozen=True)
class Warned:
    """A warning; *code* names its kind, *facts* are its names and numbers for programs.

    The level is ERROR if rows are lost.
    """

    code: str
    message: str
    flow: str | None = None
    dataset: str | None = None
    level: Level = Level.WARN
    facts: Json = field(default_factory=dict)

    # The vendor's only event type for warnings is "deprecation", which is narrower.
    event_type: ClassVar[str] = "warning"
    maturity: ClassVar[Maturity] = Maturity.EVOLVING


Event: TypeAlias = (
    "UpdateCreated | UpdateStateChanged | DatasetDefined | SinkDefined | FlowDefined | FlowStateChanged | BatchDone"
    " | FlowLagMetrics | FlowStateMetrics | StreamProgress | BatchRunning | RowsSampled | TableEvaluated | UpdateTotals"
    " | RowsErased | SavepointChanged | StageSwapped | TableHandedOver | UserAction | Warned | TableMaintained"
    " | LogTrimmed"
)

# The code of a warning: offsets of a topic were deleted before a stream read them. Its facts have the topic, the
# partition, and the number of offsets, None if it is unknown.
OFFSETS_LOST = "KAFKA.OFFSETS_LOST"

TERMINAL_UPDATE_STATES = frozenset({UpdateState.COMPLETED, UpdateState.FAILED, UpdateState.CANCELED})


def is_durable(event: Event) -> bool:
    """True if the event must be in the table before the update continues (D3: counts before Spark's commit)."""
    match event:
        case UpdateCreated() | BatchDone() | RowsErased() | SavepointChanged() | StageSwapped():
            return True
        case TableHandedOver() | UserAction() | LogTrimmed():
            return True
        case UpdateStateChanged(state=state):
            return state in TERMINAL_UPDATE_STATES
        case FlowStateChanged(state=flow_state):
            return flow_state is FlowState.FAILED
        case DatasetDefined() | SinkDefined() | FlowDefined() | FlowLagMetrics() | RowsSampled() | TableEvaluated():
            return False
        case FlowStateMetrics() | StreamProgress() | BatchRunning() | UpdateTotals() | Warned() | TableMaintained():
            return False


def _because(error: Json | None) -> str:
    return f": {error['message']}" if error and error.get("message") else ""
