"""What can happen in an update: one frozen value for each kind of event, and their closed union.

Event types, levels and the words of states follow the vendor's event log; ``details.py`` has their JSON.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, ClassVar, TypeAlias

from headrace.cdc.feed import MergePath
from headrace.cdc.merge_commit import WritePath
from headrace.model.datasets import Kind
from headrace.model.expectations import ExpectationCount
from headrace.model.outcome import FilesBacklog, FlowCounts, FlowState, KeptState, PartitionLag, UpdateState

Json: TypeAlias = "Mapping[str, Any]"


class Level(str, Enum):
    """How loud an event is; METRICS is for numbers that nobody reads one by one."""

    INFO = "INFO"
    WARN = "WARN"
    ERROR = "ERROR"
    METRICS = "METRICS"


class Maturity(str, Enum):
    """How much a reader may rely on the shape of an event's details."""

    STABLE = "STABLE"
    EVOLVING = "EVOLVING"


@dataclass(frozen=True)
class UpdateCreated:
    """An update began; *settings* and *selections* are JSON values without secrets."""

    cause: str
    settings: Json = field(default_factory=dict)
    selections: Json = field(default_factory=dict)

    event_type: ClassVar[str] = "create_update"
    level: ClassVar[Level] = Level.INFO
    maturity: ClassVar[Maturity] = Maturity.STABLE

    @property
    def message(self) -> str:
        """One readable line."""
        return f"update created by {self.cause}"


@dataclass(frozen=True)
class UpdateMoved:
    """The update reached another state; *error* is the JSON form of the error that failed it."""

    state: UpdateState
    error: Json | None = None

    event_type: ClassVar[str] = "update_progress"
    maturity: ClassVar[Maturity] = Maturity.STABLE

    @property
    def level(self) -> Level:
        """ERROR when the update failed."""
        return Level.ERROR if self.state is UpdateState.FAILED else Level.INFO

    @property
    def message(self) -> str:
        """One readable line."""
        return f"update is {self.state.value}{_because(self.error)}"


@dataclass(frozen=True)
class DatasetDefined:
    """A dataset is part of the update's graph; *path* is None when nothing is stored."""

    dataset: str
    kind: Kind
    path: str | None = None
    expectations: tuple[str, ...] = ()

    event_type: ClassVar[str] = "dataset_definition"
    level: ClassVar[Level] = Level.INFO
    maturity: ClassVar[Maturity] = Maturity.STABLE

    @property
    def message(self) -> str:
        """One readable line."""
        return f'{self.kind.label} "{self.dataset}" defined'


@dataclass(frozen=True)
class SinkDefined:
    """A sink is part of the update's graph; of *options*, values that may be secret are not there."""

    dataset: str
    format: str
    options: Json = field(default_factory=dict)

    event_type: ClassVar[str] = "sink_definition"
    level: ClassVar[Level] = Level.INFO
    maturity: ClassVar[Maturity] = Maturity.STABLE

    @property
    def message(self) -> str:
        """One readable line."""
        return f'sink "{self.dataset}" defined, it delivers as {self.format}'


@dataclass(frozen=True)
class FlowDefined:
    """A flow is part of the update's graph; *mode* is the vendor's flow type, such as APPEND or COMPLETE."""

    flow: str
    dataset: str
    inputs: tuple[str, ...] = ()
    language: str = "PYTHON"
    mode: str = "APPEND"
    once: bool = False
    comment: str | None = None

    event_type: ClassVar[str] = "flow_definition"
    level: ClassVar[Level] = Level.INFO
    maturity: ClassVar[Maturity] = Maturity.STABLE

    @property
    def message(self) -> str:
        """One readable line."""
        return f'flow "{self.flow}" defined, it feeds "{self.dataset}"'


@dataclass(frozen=True)
class FlowMoved:
    """A flow reached another state of the update."""

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
        """ERROR when the flow failed, WARN when it is tried again or was skipped."""
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
    """A batch of a flow is in its target, with the rows it wrote, dropped and set aside.

    Law: (flow, epoch, batch_id) is one batch; recorded twice it counts once, and the first record is the one that
    counts. A flow that runs without a checkpoint must therefore give each of its batches an id of its own.
    """

    flow: str
    dataset: str
    epoch: int
    batch_id: int
    counts: FlowCounts = FlowCounts()
    # None where it is not known, as of a batch that a crash has interrupted after its commit.
    duration_ms: int | None = None
    # Which way change events or a snapshot took into their table; None for other flows, and where nothing had changed.
    merge_path: MergePath | None = None
    # How what they do was written; None where its commit does not tell.
    write_path: WritePath | None = None

    event_type: ClassVar[str] = "flow_progress"
    level: ClassVar[Level] = Level.METRICS
    maturity: ClassVar[Maturity] = Maturity.STABLE

    @property
    def message(self) -> str:
        """One readable line."""
        counts = self.counts
        parts = [f"{counts.rows_written} rows written"]
        parts += [f"{counts.rows_dropped} dropped"] if counts.rows_dropped else []
        parts += [f"{counts.rows_quarantined} quarantined"] if counts.rows_quarantined else []
        parts += [f"{counts.rows_rescued} with something rescued"] if counts.rows_rescued else []
        parts += [f"{counts.rows_upserted} upserted"] if counts.rows_upserted is not None else []
        parts += [f"{counts.rows_deleted} deleted"] if counts.rows_deleted else []
        parts += [f"{counts.changes.tied} lost a tie"] if counts.changes and counts.changes.tied else []
        parts += [f"{counts.changes.late} perhaps too late"] if counts.changes and counts.changes.late else []
        return f'flow "{self.flow}" finished batch {self.batch_id}: {", ".join(parts)}'


@dataclass(frozen=True)
class RowsSampled:
    """Some of the rows of a batch that broke a rule, each as the text of a JSON object with all columns but NULLs."""

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
        return f'flow "{self.flow}": {rows} of batch {self.batch_id} that broke "{self.expectation}"'


@dataclass(frozen=True)
class TableJudged:
    """What became of the rules about the table of a flow as a whole, looked at once: each has passed or failed once."""

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
        return f'"{self.dataset}" {"breaks " + ", ".join(failed) if failed else "keeps its rules"}'


@dataclass(frozen=True)
class FlowBehind:
    """How far a flow has read topics and files: said when it changes, now and then, and at the end."""

    flow: str
    dataset: str
    lag: tuple[PartitionLag, ...] = ()
    backlog: tuple[FilesBacklog, ...] = ()

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
        return f'flow "{self.flow}" {" and ".join(parts)}'


@dataclass(frozen=True)
class FlowKeeps:
    """What a flow keeps in state, and its watermark: said when it changes, now and then, and at the end."""

    flow: str
    dataset: str
    operators: tuple[KeptState, ...]
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
class FlowTotal:
    """All batches of one flow in an update so far; the newest one is ``batch_id`` of ``epoch``."""

    flow: str
    dataset: str
    epoch: int
    batch_id: int
    counts: FlowCounts


@dataclass(frozen=True)
class Totaled:
    """What all batches of the update add up to so far, recorded now and then in one that goes on.

    Law: the totals, and the batches after them, give the same counts as all batches do.
    """

    flows: tuple[FlowTotal, ...]

    event_type: ClassVar[str] = "flow_totals"
    level: ClassVar[Level] = Level.METRICS
    maturity: ClassVar[Maturity] = Maturity.EVOLVING

    @property
    def message(self) -> str:
        """One readable line."""
        return f"{sum(flow.counts.rows_written for flow in self.flows)} rows written by the update so far"


@dataclass(frozen=True)
class Warned:
    """Something the reader should know that stops nothing; *code* names the kind of warning.

    The level is ERROR where rows are lost by it.
    """

    code: str
    message: str
    flow: str | None = None
    dataset: str | None = None
    level: Level = Level.WARN

    # The vendor has no type for warnings of its own but "deprecation", which is narrower.
    event_type: ClassVar[str] = "warning"
    maturity: ClassVar[Maturity] = Maturity.EVOLVING


Event: TypeAlias = (
    "UpdateCreated | UpdateMoved | DatasetDefined | SinkDefined | FlowDefined | FlowMoved | BatchDone | FlowBehind"
    " | FlowKeeps | RowsSampled | TableJudged | Totaled | Warned"
)

TERMINAL_UPDATE_STATES = frozenset({UpdateState.COMPLETED, UpdateState.FAILED, UpdateState.CANCELED})


def durable(event: Event) -> bool:
    """True when the event must be in the table before the update goes on (D3: counts before Spark's commit)."""
    match event:
        case UpdateCreated() | BatchDone():
            return True
        case UpdateMoved(state=state):
            return state in TERMINAL_UPDATE_STATES
        case FlowMoved(state=flow_state):
            return flow_state is FlowState.FAILED
        case DatasetDefined() | SinkDefined() | FlowDefined() | FlowBehind() | RowsSampled() | TableJudged():
            return False
        case FlowKeeps() | Totaled() | Warned():
            return False


def _because(error: Json | None) -> str:
    return f": {error['message']}" if error and error.get("message") else ""
