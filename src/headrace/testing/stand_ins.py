"""Tables with rows from a test, which replace datasets of the project."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import Schema as DeltaSchema
from deltalake import write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import DataType, StructType

from headrace.cdc.snapshot_versions import TIME_OF_UPDATE
from headrace.model.datasets import Dataset, Definitions, Flow, Kind, PythonQuery, SqlQuery
from headrace.model.names import QualifiedName
from headrace.model.schema import Schema
from headrace.spark.cdc.declaration import feed_of, snapshot_feed, target_schema
from headrace.spark.delta.tables import empty_frame

Rows = Sequence[Mapping[str, Any]]


@dataclass
class StandIn:
    """The table of one dataset; batches are pending until the schema is known, and then become one commit each.

    Args:
        path: of the table.
        schema: DDL, a StructType, or None for the declared schema, or else that of the queries.
    """

    path: str
    schema: str | DataType | None = None
    pending: list[Rows] = field(default_factory=list)

    def replacing(self, dataset: Dataset, flows: Sequence[Flow]) -> tuple[Dataset, Flow]:
        """A dataset stored as this table, and a flow that no update runs."""

        def query() -> DataFrame:
            session = SparkSession.active()
            schema = self._schema(dataset, flows, session)
            self._append_pending(schema)
            return empty_frame(session, schema)

        stand_in = replace(dataset, kind=Kind.MATERIALIZED_VIEW, schema=None, expectations=())
        naming = flows[0].query.naming
        return stand_in, Flow(str(dataset.name), dataset.name, PythonQuery(query, naming), dataset.location)

    def _schema(self, dataset: Dataset, flows: Sequence[Flow], session: SparkSession) -> Schema:
        declared = self.schema if self.schema is not None else dataset.schema
        if declared is not None:
            struct = declared if isinstance(declared, DataType) else StructType.fromDDL(declared)
            return Schema.from_json(struct.json()).nullable
        merged = Schema()
        for flow in flows:
            merged = merged.merged(_columns(flow, session))
        return merged.nullable

    def _append_pending(self, schema: Schema) -> None:
        """Append the pending batches; the first call creates the table."""
        arrow = pa.schema(DeltaSchema.from_json(schema.to_json()).to_arrow())
        exists = (Path(self.path) / "_delta_log").is_dir()
        for rows in self.pending or ([] if exists else [[]]):
            write_deltalake(self.path, _table(rows, arrow), mode="append", schema_mode="merge" if exists else None)
            exists = True
        self.pending = []


def with_stand_ins(definitions: Definitions, stand_ins: Mapping[QualifiedName, StandIn]) -> Definitions:
    """The definitions with some datasets replaced by stand-ins."""
    datasets: list[Dataset] = []
    flows = [flow for flow in definitions.flows if flow.target not in stand_ins]
    for dataset in definitions.datasets:
        own = [flow for flow in definitions.flows if flow.target == dataset.name]
        if dataset.name in stand_ins and own:
            stand_in, flow = stand_ins[dataset.name].replacing(dataset, own)
            datasets.append(stand_in)
            flows.append(flow)
        else:
            datasets.append(dataset)
    return Definitions(tuple(datasets), tuple(flows))


def _columns(flow: Flow, session: SparkSession) -> Schema:
    """What a flow writes; a CDC flow adds the columns of versions."""
    if flow.snapshots is not None and flow.snapshots.calls_function:
        raise ValueError(
            f"the columns of {flow.target} come from its snapshots; "
            f'name them: pipeline.given("{flow.target}", rows, schema="id BIGINT, ...")'
        )
    frame = _frame(flow, session)
    if flow.changes is not None:
        return target_schema(feed_of(flow, frame))
    if flow.snapshots is not None:
        return target_schema(snapshot_feed(flow, frame, TIME_OF_UPDATE))
    return Schema.from_json(frame.schema.json()).nullable


def _frame(flow: Flow, session: SparkSession) -> DataFrame:
    frame: DataFrame = session.sql(flow.query.text) if isinstance(flow.query, SqlQuery) else flow.query.function()
    return frame


def _table(rows: Rows, schema: pa.Schema) -> pa.Table:
    unknown = sorted({name for row in rows for name in row} - set(schema.names))
    if unknown:
        raise ValueError(f"the dataset has no column {', '.join(unknown)}; it has {', '.join(schema.names)}")
    return pa.table([_column([row.get(field.name) for row in rows], field) for field in schema], schema=schema)


def _column(values: list[Any], wanted: pa.Field) -> pa.Array:
    """The values as an array; text is converted to the time, date or number type of the column."""
    try:
        return pa.array(values, wanted.type)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        texts = [None if value is None else value if isinstance(value, str) else json.dumps(value) for value in values]
        return pa.array(texts, pa.string()).cast(wanted.type)
