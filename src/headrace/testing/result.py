"""The result of an update in a test."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from headrace.delta_log.tables import query_rows
from headrace.model.local_path import local_path
from headrace.model.names import Naming
from headrace.model.outcome import FlowCounts, FlowOutcome, FlowState, Outcome, UpdateState
from headrace.settings.storage import StorageLayout
from headrace.testing.rows import SortedRows

QUARANTINE_SUFFIX = "_quarantine"
_MASKS = ("filepath", "selection_vector")
# Table features for which delta-rs can only read single files, and not even these if a table has several.
_VECTORS, _WIDENED, _MAPPED = "deletionVectors", "typeWidening", "columnMapping"


@dataclass(frozen=True)
class Result:
    """The outcome of an update, its counts, and the tables as they are now."""

    outcome: Outcome
    layout: StorageLayout
    naming: Naming

    @property
    def state(self) -> UpdateState:
        """How the update ended."""
        return self.outcome.state

    @property
    def states(self) -> dict[str, FlowState]:
        """How each flow ended."""
        return {flow.flow: flow.state for flow in self.outcome.flows}

    @property
    def written(self) -> int:
        """Rows written by all flows of the update."""
        return sum(flow.counts.rows_written for flow in self.outcome.flows)

    @property
    def dropped(self) -> int:
        """Rows dropped by all flows of the update."""
        return sum(flow.counts.rows_dropped for flow in self.outcome.flows)

    @property
    def quarantined(self) -> int:
        """Rows quarantined by all flows of the update."""
        return sum(flow.counts.rows_quarantined for flow in self.outcome.flows)

    @property
    def error(self) -> str | None:
        """The code of the error that failed the update."""
        return self.outcome.error["code"] if self.outcome.error else None

    def flow(self, name: str) -> FlowOutcome:
        """The outcome of one flow; a dataset's own flow has its name."""
        return next(flow for flow in self.outcome.flows if flow.flow == name)

    def counts(self, dataset: str) -> FlowCounts:
        """The counts of a dataset in this update, over all of its flows."""
        own = [flow.counts for flow in self.outcome.flows if flow.dataset == dataset]
        return reduce(FlowCounts.plus, own, FlowCounts())

    def failed(self, dataset: str) -> dict[str, int]:
        """The number of rows that violated each expectation of a dataset in this update."""
        return {count.name: count.failed for count in self.counts(dataset).expectations}

    def rows(self, name: str) -> SortedRows:
        """The current rows of a table, in a stable order.

        ``<dataset>_quarantine`` has the quarantined rows. A table that does not exist has no rows.
        """
        return rows_at(table_path(self.layout, self.naming, name))


def table_path(layout: StorageLayout, naming: Naming, name: str) -> str:
    """The path of a dataset's table, or of its quarantine table."""
    return layout.table(naming, naming.canonical(name))


def rows_at(path: str) -> SortedRows:
    """The rows of the Delta table at a path; none if there is no table."""
    if not DeltaTable.is_deltatable(path):
        return SortedRows()
    table = DeltaTable(path)
    features = {_VECTORS, _WIDENED, _MAPPED} & set(table.protocol().reader_features or ())
    if len(features) > 1:
        rows = SparkSession.active().read.format("delta").load(path).toArrow()
        return SortedRows(rows.cast(pa.schema(table.schema().to_arrow())).to_pylist())
    if features - {_MAPPED}:
        return SortedRows(_rows_by_file(table))
    if (table.metadata().configuration.get("delta.columnMapping.mode") or "none") != "none":
        return SortedRows(query_rows(table, "SELECT * FROM q"))
    return SortedRows(pa.table(table.to_pyarrow_table()).to_pylist())


def _rows_by_file(table: DeltaTable) -> list[dict[str, Any]]:
    """Read a table that delta-rs cannot read as a whole: each file with the current types, without deleted rows."""
    schema = pa.schema(table.schema().to_arrow())
    files = pa.table(table.get_add_actions(flatten=True)).to_pylist()
    masks = _masks(table) if _VECTORS in (table.protocol().reader_features or ()) else {}
    rows: list[dict[str, Any]] = []
    for file, uri in zip(files, table.file_uris(), strict=True):
        data = pq.read_table(local_path(uri), partitioning=None)
        if local_path(uri) in masks:
            data = data.filter(masks.pop(local_path(uri)))
        columns = [
            data.column(field.name).cast(field.type)
            if field.name in data.column_names
            else pa.array([file.get(f"partition.{field.name}")] * data.num_rows, field.type)
            for field in schema
        ]
        rows += pa.table(columns, schema=schema).to_pylist()
    if masks:
        raise ValueError(f"no such files of the table, of which rows are deleted: {', '.join(masks)}")
    return rows


def _masks(table: DeltaTable) -> dict[str, list[bool]]:
    """Masks of the rows that are not deleted, for files with deletion vectors."""
    vectors = pa.table(table.deletion_vectors())
    return {local_path(uri): mask for uri, mask in zip(*(vectors[name].to_pylist() for name in _MASKS), strict=True)}
