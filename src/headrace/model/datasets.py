"""Datasets and the flows that feed them, as declared by the user."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeAlias

from headrace.model.cdc import ApplyChanges, CompareSnapshots
from headrace.model.expectations import Expectation
from headrace.model.location import Location
from headrace.model.names import Naming, QualifiedName
from headrace.model.pipeline_keys import RESET_KEY
from headrace.model.sinks import SinkDefinition

_EMPTY: Mapping[str, str] = MappingProxyType({})
# A table property of ours: the table is for the pipeline alone.
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
        """The kind in prose."""
        return self.value.replace("_", " ")

    @property
    def stored(self) -> bool:
        """True when the dataset is a table in the storage."""
        return self.fed and self is not Kind.SINK

    @property
    def fed(self) -> bool:
        """True when flows bring rows to the dataset in an update: it is a table, or a sink."""
        return not self.is_view

    @property
    def is_view(self) -> bool:
        """True when the dataset stores no rows: it is computed by what reads it."""
        return self in (Kind.TEMPORARY_VIEW, Kind.PERSISTED_VIEW)

    @property
    def kept(self) -> bool:
        """True when an update leaves something in the storage: a table, the definition of a view, a sink's progress."""
        return self is not Kind.TEMPORARY_VIEW


@dataclass(frozen=True)
class Dataset:
    """A streaming table, a materialized view, a view or a sink.

    ``schema`` is a DDL string or a Spark ``StructType``, kept opaque here. ``column_comments`` are those of columns
    whose types are left to the query. ``sink`` is what a sink is made of, and None for what is none.
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

    def with_kind(self, kind: Kind) -> Dataset:
        """The same dataset with its kind decided."""
        return replace(self, kind=kind)

    @property
    def private(self) -> bool:
        """True when the table is for the pipeline alone: it is read in it, and not shown to who asks its tables."""
        return is_private(self.properties)

    @property
    def resettable(self) -> bool:
        """False when ``pipelines.reset.allowed`` protects the table from a full refresh."""
        return self.properties.get(RESET_KEY, "true").strip().casefold() != "false"


@dataclass(frozen=True)
class PythonQuery:
    """A function of the user's that returns a DataFrame; called only by the Spark adapters.

    That of a flow which asks for snapshots takes the version before, and returns the next one or None.
    """

    function: Callable[..., Any]
    # What dlt.read and friends, and names without a schema, are read in.
    naming: Naming

    @property
    def language(self) -> str:
        """For the event log."""
        return "PYTHON"


@dataclass(frozen=True)
class SqlQuery:
    """A SELECT with its parameters already substituted, and the names in force where it stood.

    ``columns`` are the target columns of ``INSERT INTO t (a, b)``; ``by_name`` is ``INSERT ... BY NAME``. An INSERT
    without either maps by position.
    """

    text: str
    naming: Naming
    columns: tuple[str, ...] = ()
    by_name: bool = True
    # Where in its file the text begins; two queries are equal wherever they stand.
    line: int = field(default=0, compare=False)
    # False for a text that nobody has looked at yet: it may be no query.
    checked: bool = field(default=True, compare=False)

    @property
    def language(self) -> str:
        """For the event log."""
        return "SQL"


Query: TypeAlias = "PythonQuery | SqlQuery"


@dataclass(frozen=True)
class Flow:
    """A query that feeds one dataset. A flow's name is its identity: its checkpoint is found by it."""

    name: str
    target: QualifiedName
    query: Query
    location: Location
    once: bool = False
    comment: str | None = None
    spark_conf: Mapping[str, str] = field(default_factory=lambda: _EMPTY)
    # True when declared by @append_flow or CREATE FLOW, which need a streaming table as target.
    append: bool = False
    # How the events that the query reads change the target, for a flow that does not add them as rows.
    changes: ApplyChanges | None = None
    # How it does, where the query gives whole snapshots.
    snapshots: CompareSnapshots | None = None
    # True when each batch brings the rows that have changed, and not only new ones: @update_flow, into a sink.
    updates: bool = False


@dataclass(frozen=True)
class Definitions:
    """Everything that the project's files declare, in the order of declaration."""

    datasets: tuple[Dataset, ...] = ()
    flows: tuple[Flow, ...] = ()

    def plus(self, other: Definitions) -> Definitions:
        """Both, in order."""
        return Definitions(self.datasets + other.datasets, self.flows + other.flows)


def is_private(properties: Mapping[str, str]) -> bool:
    """True when the properties of a table say that it is for its pipeline alone."""
    return properties.get(PRIVATE_PROPERTY, "false").strip().lower() == "true"
