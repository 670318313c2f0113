"""Computes a dataset as one batch over the current tables: the rows that its streams should have produced."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame

from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.names import QualifiedName
from headrace.model.rows import Rows
from headrace.spark.queries.batch_mode import SourcePart, as_batch
from headrace.spark.queries.flow_frames import flow_frame, passing_rows, register_views
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.update.catalog import Catalog
from headrace.storage.change_detection import StoredState


def recomputed(graph: ResolvedGraph, name: QualifiedName, catalog: Catalog, state: StoredState) -> Rows:
    """All rows that the queries of a dataset return with streams read as batches, after expectations.

    Raises:
        PipelineError: RECOMPUTE.INPUT_MISSING if an input table does not exist.
    """
    dataset = graph.by_name[name]

    def rows_of(flow: ResolvedFlow) -> DataFrame:
        for given in graph.stored_inputs(flow):
            table = state.table(given.name)
            if table is None:
                raise PipelineError("RECOMPUTE.INPUT_MISSING", name=given.name, dataset=name)
            catalog.register_path(given.name, table.path)
        with as_batch(SourcePart()), with_confs(catalog.session, flow.flow.spark_conf):
            register_views(graph, flow, catalog)
            return flow_frame(graph, flow, catalog)

    frames = map(rows_of, graph.flows_into(name))
    together = reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), frames)
    whole = passing_rows(together, dataset, catalog)
    # As when reading a table: times with their zone, and structs with field names.
    found = whole.toArrow()
    return Rows(tuple(found.column_names), tuple(tuple(row.values()) for row in found.to_pylist()))
