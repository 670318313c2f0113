"""Computes one dataset on the tables as they are, without writing into the storage."""

from __future__ import annotations

import tempfile

from pyspark.sql import DataFrame, Row

from headrace.checkpoints.freshness import StoredState
from headrace.errors import PipelineError
from headrace.graph.resolved import Mode, ResolvedDataset, ResolvedFlow, ResolvedGraph
from headrace.model.rows import Rows
from headrace.spark.catalog import Catalog
from headrace.spark.frames import flow_frame, passing, register_views


def preview_rows(
    graph: ResolvedGraph, dataset: ResolvedDataset, catalog: Catalog, state: StoredState, limit: int
) -> Rows:
    """At most *limit* rows that the dataset's flows would write now, expectations applied.

    Raises:
        PipelineError: PREVIEW.INPUT_MISSING when a table that it reads was never made.
    """
    found: list[Row] = []
    for flow in graph.flows_into(dataset.name):
        _register(graph, flow, catalog, state)
        frame = flow_frame(graph, flow, catalog)
        mode = "complete" if flow.mode is Mode.COMPLETE else "append"
        if frame.isStreaming:
            found += _streamed(frame, dataset, mode, limit - len(found))
        else:
            found += passing(frame, dataset).limit(limit - len(found)).collect()
        if len(found) >= limit:
            break
    names = dataset.schema.names
    return Rows(names, tuple(tuple(row.asDict(recursive=False).get(name) for name in names) for row in found[:limit]))


def _register(graph: ResolvedGraph, flow: ResolvedFlow, catalog: Catalog, state: StoredState) -> None:
    for given in graph.stored_inputs(flow):
        table = state.table(given.name)
        if table is None:
            raise PipelineError("PREVIEW.INPUT_MISSING", name=given.name, dataset=flow.target)
        catalog.register_path(graph.by_name[given.name].name, table.path)
    register_views(graph, flow, catalog)


def _streamed(frame: DataFrame, dataset: ResolvedDataset, mode: str, limit: int) -> list[Row]:
    """Rows of a stream from its start, through a checkpoint that is thrown away."""
    found: list[Row] = []

    def take(batch: DataFrame, _batch_id: int) -> None:
        if mode == "complete":
            found.clear()
        if len(found) < limit:
            found.extend(passing(batch, dataset).limit(limit - len(found)).collect())

    with tempfile.TemporaryDirectory(prefix="headrace-preview-") as checkpoint:
        writer = frame.writeStream.foreachBatch(take).outputMode(mode)
        query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
        try:
            while not query.awaitTermination(1):
                if mode == "append" and len(found) >= limit:
                    break
        finally:
            query.stop()
    return found
