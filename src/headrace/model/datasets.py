"""Datasets and the flows that feed them, as declared by the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeAlias

from headrace.model.cdc import ApplyChanges, CompareSnapshots
from headrace.model.custom_metrics import CustomMetric
from headrace.model.expectations import Expectation
from headrace.model.location import Location
from headrace.model.names import Naming, QualifiedName
from headrace.model.pipeline_keys import RESET_KEY
from headrace.model.refresh import RefreshPolicy
from headrace.model.sinks import SinkDefinition

_EMPTY: Mapping[str, str] = MappingProxyType({})
# A table property of Headrace: only the pipeline reads the table.
PRIVATE_PROPERTY = "headrace.private"


class Kind(str, Enum):
    """What a dataset is. ``TABLE`` is declared by ``@dp.table`` and decided while resolving."""

    TABLE = "table"
    STREAMING_TABLE = "streaming_table"
    MATERIALIZED_VIEW = "materialized_view"
    TEMPORARY_VIEW = "temporary_view"
    PERSISTED_VIEW = "persisted_view"
    SINK = "sink"

    @property
    def label(self) -> str:
        """The kind, for messages."""
        return self.value.replace("_", " ")

    @property
    def stored(self) -> bool:
        """True if the dataset is a table in the storage."""
        return self.has_flows and self is not Kind.SINK

    @property
    def has_flows(self) -> bool:
        """True if flows write to the dataset: it is a table or a sink."""
        return not self.is_view

    @property
    def is_view(self) -> bool:
        """True if the dataset stores no rows, but is computed by its readers."""
        return self in (Kind.TEMPORARY_VIEW, Kind.PERSISTED_VIEW)

    @property
    def has_storage(self) -> bool:
        """True if an update stores something for it: a table, the definition of a view or the progress of a sink."""
        return self is not Kind.TEMPORARY_VIEW


@dataclass(frozen=True)
class Dataset:
    """A streaming table, a materialized view, a view or a sink.

    ``schema`` is a DDL string or a Spark ``StructType``, opaque here. ``column_comments`` are comments of columns whose
    types come from the query. ``sink`` is the definition of a sink; None for other kinds. ``schedule`` is the clause
    that says when it is refreshed (``headrace.schedules.clause``); empty for none. ``refresh_policy`` says how much of
    a materialized view is computed then.
    """

    name: QualifiedName
    kind: Kind
    location: Location
    comment: str | None = None
    schema: Any = None
    properties: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    expectations: tuple[Expectation, ...] = ()
    column_comments: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    sink: SinkDefinition | None = None
    metrics: tuple[CustomMetric, ...] = ()
    schedule: str = ""
    refresh_policy: RefreshPolicy = RefreshPolicy.AUTO

    def with_kind(self, kind: Kind) -> Dataset:
        """The same dataset with another kind."""
        return replace(self, kind=kind)

    @property
    def private(self) -> bool:
        """True if only the pipeline reads the table: private tables are hidden from queries."""
        return is_private(self.properties)

    @property
    def resettable(self) -> bool:
        """False if ``pipelines.reset.allowed`` protects the table from a full refresh."""
        return self.properties.get(RESET_KEY, "true").strip().casefold() != "false"


@dataclass(frozen=True)
class PythonQuery:
    """A user function that returns a DataFrame; only the Spark adapters call it.

    The function of a snapshot flow takes the previous version and returns the next snapshot or None.
    """

    function: Callable[..., Any]
    # Resolves names without a schema, also those of dlt.read and the like.
    naming: Naming

    @property
    def language(self) -> str:
        """For the event log."""
        return "PYTHON"


@dataclass(frozen=True)
class SqlQuery:
    """A SELECT with parameters already substituted, and the catalog and schema in force at its place.

    ``columns`` are the target columns of ``INSERT INTO t (a, b)``; ``by_name`` is ``INSERT ... BY NAME``. An INSERT
    without either maps by position.
    """

    text: str
    naming: Naming
    columns: tuple[str, ...] = ()
    by_name: bool = True
    # The line of the file where the text begins; equality ignores it.
    line: int = field(default=0, compare=False)
    # False if the text was not checked yet and may not be a query.
    checked: bool = field(default=True, compare=False)

    @property
    def language(self) -> str:
        """For the event log."""
        return "SQL"


Query: TypeAlias = "PythonQuery | SqlQuery"


@dataclass(frozen=True)
class Flow:
    """A query that writes to one dataset. The flow's name is its identity, which determines its checkpoint."""

    name: str
    target: QualifiedName
    query: Query
    location: Location
    once: bool = False
    comment: str | None = None
    spark_conf: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    # True if declared by @append_flow or CREATE FLOW, which need a streaming table as target.
    append: bool = False
    # How the query's events change the target, for CDC flows.
    changes: ApplyChanges | None = None
    # How the query's snapshots change the target, for snapshot flows.
    snapshots: CompareSnapshots | None = None
    # True if batches contain changed rows, not only new ones: @update_flow into a sink.
    updates: bool = False


@dataclass(frozen=True)
class Definitions:
    """The datasets and flows that the project's files declare, in the order of declaration."""

    datasets: tuple[Dataset, ...] = ()
    flows: tuple[Flow, ...] = ()

    def plus(self, other: Definitions) -> Definitions:
        """Both, in order."""
        return Definitions(self.datasets + other.datasets, self.flows + other.flows)


def is_private(properties: Mapping[str, str]) -> bool:
    """True if table properties make the table private."""
    return properties.get(PRIVATE_PROPERTY, "false").strip().lower() == "true"
