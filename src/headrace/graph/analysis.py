"""The analysis of a flow's query: its columns, its inputs and its state operators."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, fields
from enum import Enum

from headrace.cdc.feed import ChangeFeed
from headrace.model.column_lineage import ColumnLineage
from headrace.model.dataset_id import DatasetId
from headrace.model.names import QualifiedName
from headrace.model.refresh import RefreshRule
from headrace.model.schema import Schema


@dataclass(frozen=True)
class Input:
    """A dataset of the pipeline that a flow reads."""

    name: QualifiedName
    streaming: bool


class SourceKind(str, Enum):
    """The kind of a streaming source. It decides how to compare positions without starting the flow."""

    DATASET = "dataset"
    FILES = "files"
    AUTO_LOADER = "auto loader"
    OTHER = "other"


@dataclass(frozen=True)
class Source:
    """One streaming source of a flow, in the order in which Spark writes their offsets.

    Attributes:
        kind: of the source.
        detail: the dataset's name, or the source's own description; for Auto Loader its reader as JSON.
        passes_changes: the stream goes on when rows of the dataset are removed or changed.
        reads_feed: the stream reads the change feed of the dataset.
    """

    kind: SourceKind
    detail: str
    passes_changes: bool = False
    reads_feed: bool = False
    # Options of the source without effect, each with the reason.
    without_effect: tuple[tuple[str, str], ...] = ()
    # Rows that it has sent cannot be read again.
    lacks_retention: bool = False

    @property
    def name(self) -> str:
        """What it reads, for the reader: the dataset, the path, or the source's own description."""
        match self.kind:
            case SourceKind.AUTO_LOADER:
                return str(json.loads(self.detail)["path"])
            case SourceKind.FILES:
                return ", ".join(json.loads(self.detail)["paths"])
            case SourceKind.DATASET | SourceKind.OTHER:
                return self.detail

    @property
    def digest(self) -> str:
        """The stored identity of the source. Its description is not stored, because it may hold a secret."""
        if self.kind is not SourceKind.AUTO_LOADER:
            return self._digest_of(self.detail)
        reader = {key: value for key, value in json.loads(self.detail).items() if key not in READER_ENVIRONMENT_KEYS}
        return self._digest_of(json.dumps(reader, sort_keys=True))

    def is_same(self, digest: str) -> bool:
        """Whether a stored digest, of this version or of 0.1, belongs to the source."""
        return digest in (self.digest, self._digest_of(self.detail))

    def _digest_of(self, text: str) -> str:
        return f"{self.kind.value}:{hashlib.sha256(text.encode()).hexdigest()[:32]}"


# Keys of Auto Loader's reader that describe the machine and the storage, not the input.
READER_ENVIRONMENT_KEYS = frozenset({"ledgers", "schema_location", "tasks"})

# The "operator" kind of a flow that merges change events.
CHANGES = "changes"


@dataclass(frozen=True)
class StatefulOperator:
    """An operator that keeps state between batches.

    Attributes:
        kind: for example "aggregate" or "join".
        digest: equal for operators that can use each other's state. It covers only the layout and meaning of the state.
        description: for the reader.
        types: for the reader, when two operators differ in nothing else.
    """

    kind: str
    digest: str = ""
    description: str = ""
    types: str = ""

    @property
    def has_timers(self) -> bool:
        """True when it may emit rows without new input."""
        return self.kind in ("applyInPandasWithState", "transformWithState")

    @property
    def has_processing_time_timers(self) -> bool:
        """True when its timers use processing time. Spark then plans one batch after the other."""
        return self.has_timers and "ProcessingTime" in self.description


@dataclass(frozen=True)
class Analysis:
    """The result of calling a flow's query once on empty inputs."""

    schema: Schema
    streaming: bool
    inputs: tuple[Input, ...] = ()
    sources: tuple[Source, ...] = ()
    # External inputs (paths, tables outside the pipeline), for the reader.
    external: tuple[str, ...] = ()
    # The same with the names that other systems have for them; inputs without such a name are not among them.
    external_datasets: tuple[tuple[str, DatasetId], ...] = ()
    # Where the columns come from; None if unknown.
    columns: ColumnLineage | None = None
    # Paths of external Delta tables that are read as a batch; their versions show whether their rows changed.
    external_tables: tuple[str, ...] = ()
    # The stream needs complete mode: it aggregates without a watermark.
    complete: bool = False
    # Operators that keep state between batches, in Spark's order.
    operators: tuple[StatefulOperator, ...] = ()
    # Identifies the query. A different text means that the result may differ.
    fingerprint: str = ""
    # The fingerprint as version 0.1 wrote it; it depends on where the query runs.
    former_fingerprint: str = ""
    # Why the same inputs may give another result; None if they always give the same.
    unrepeatable: str | None = None
    # How the query can be refreshed if it is that of a materialized view.
    refresh: RefreshRule = field(default_factory=RefreshRule)


@dataclass(frozen=True, kw_only=True)
class ChangeAnalysis(Analysis):
    """The analysis of a flow of change events or snapshots. ``schema`` is that of its target.

    ``feed`` describes how events become rows of the target.
    """

    feed: ChangeFeed

    @classmethod
    def of(cls, analysis: Analysis, feed: ChangeFeed) -> ChangeAnalysis:
        """The analysis with the feed that turns its rows into rows of the target."""
        return cls(**{known.name: getattr(analysis, known.name) for known in fields(Analysis)}, feed=feed)
