"""The next snapshot of a flow while its project is resolved: which columns it has, and what its function reads."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.cdc.scd_spec import END_AT, START_AT
from headrace.cdc.snapshot_versions import TIME_OF_UPDATE, SnapshotState, type_of
from headrace.errors import PipelineError
from headrace.model.datasets import Flow
from headrace.model.names import QualifiedName
from headrace.model.schema import Schema
from headrace.spark.delta.tables import empty_frame, struct_type
from headrace.spark.queries.query_calls import call
from headrace.spark.queries.snapshots import Snapshot, next_snapshot
from headrace.spark.update.catalog import Catalog


@dataclass(frozen=True)
class SnapshotSample:
    """A snapshot as far as it is known without running the flow.

    Attributes:
        rows: the snapshot, or an empty frame with its columns.
        version_type: the type of its version, as Spark's JSON has it.
        due: why the flow has work to do; None if it has none, or if that is not known.
        tables_read: the pipeline's tables that the function has read, in order; None without a function.
    """

    rows: DataFrame
    version_type: str
    due: str | None = None
    tables_read: tuple[QualifiedName, ...] | None = None


def sample_snapshot(flow: Flow, catalog: Catalog, state: SnapshotState, known: Schema | None) -> SnapshotSample:
    """The next snapshot of a flow, or an empty one.

    Args:
        flow: a flow that compares snapshots.
        catalog: finds the pipeline's names.
        state: what the flow's table has.
        known: the columns of the table, stored or declared; None if there are none.

    Raises:
        PipelineError: ``CDC.NO_SNAPSHOT``: nothing tells the columns yet; whatever the function raises.
    """
    if flow.snapshots is None or not flow.snapshots.calls_function:
        return SnapshotSample(call(flow, catalog, is_resolving=True), TIME_OF_UPDATE)
    reads: set[QualifiedName] = set()
    snapshot, due = _next(flow, catalog, state, reads)
    tables = tuple(sorted(reads, key=str))
    if snapshot is not None:
        return SnapshotSample(snapshot.rows, type_of(snapshot.version), due, tables)
    if known is None:
        raise PipelineError("CDC.NO_SNAPSHOT", location=flow.location, flow=flow.name, name=flow.target)
    start_column = known.find(START_AT)
    kind = start_column.json_type if start_column is not None else TIME_OF_UPDATE
    return SnapshotSample(empty_frame(catalog.session, _without_times(known)), kind, due, tables)


def _next(
    flow: Flow, catalog: Catalog, state: SnapshotState, reads: set[QualifiedName]
) -> tuple[Snapshot | None, str | None]:
    """The next snapshot, and why the flow has work to do; None without one.

    If the table defines the columns, the flow reports problems with the snapshot when it runs. A function that reads
    the pipeline's own tables has seen empty stubs here, so its result says nothing.
    """
    try:
        snapshot = next_snapshot(flow, catalog, state.version, reads)
    except PipelineError as error:
        if state.table is None or not error.code.startswith("CDC."):
            raise
        return None, "what its function gives cannot be taken"
    if snapshot is not None:
        return snapshot, f"snapshot {snapshot.version} comes next"
    return None, "its function looks at tables of the pipeline" if reads else None


def with_table_columns(snapshot: DataFrame, table: Schema | None) -> DataFrame:
    """A snapshot with the columns of the table, in the table's spelling. Missing columns are NULL."""
    if table is None:
        return snapshot
    fields = {field.name.casefold(): field for field in struct_type(_without_times(table)).fields}
    known = {name.casefold() for name in snapshot.columns}
    own = [fields[name.casefold()].name if name.casefold() in fields else name for name in snapshot.columns]
    missing = [field for name, field in fields.items() if name not in known]
    return snapshot.toDF(*own).withColumns({field.name: F.lit(None).cast(field.dataType) for field in missing})


def _without_times(table: Schema) -> Schema:
    """The columns of a table without the SCD start and end columns."""
    return Schema(tuple(column for column in table.columns if column.name not in (START_AT, END_AT)))
