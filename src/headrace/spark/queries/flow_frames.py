"""What flows return over the tables as they are registered now, in the shape of their targets.

Updates and previews share it, so that a preview shows what an update would write.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from headrace.expectations.compile import judged
from headrace.expectations.split import kept
from headrace.graph.resolved import ResolvedDataset, ResolvedFlow, ResolvedGraph
from headrace.model.datasets import Kind
from headrace.model.schema import Schema
from headrace.spark.delta.conform import conform
from headrace.spark.expectations.table_rules import TableRules
from headrace.spark.queries.query_calls import call
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.update.catalog import Catalog


def flow_frame(graph: ResolvedGraph, flow: ResolvedFlow, catalog: Catalog) -> DataFrame:
    """What a flow's query returns, in the shape of its target; events that change it are as their source has them."""
    dataset = graph.by_name[flow.target]
    columns = dataset.in_code.names if dataset.dataset.schema is not None else ()
    feed = flow.analysis.feed
    if dataset.kind is Kind.SINK:
        # Each of a sink's flows has columns of its own.
        return call(flow.flow, catalog)
    if feed is not None:
        return conform(call(flow.flow, catalog, columns=columns), Schema.from_json(feed.source_json))
    return conform(call(flow.flow, catalog, columns=columns), dataset.schema)


def passing(frame: DataFrame, dataset: ResolvedDataset, catalog: Catalog) -> DataFrame:
    """The rows that the dataset's expectations let through, when they come as one batch into an empty table."""
    rules = alone(dataset, catalog)
    if not rules.declared:
        return frame
    return kept(judged(rules.beside(frame), rules.rules, frame.sparkSession), rules.rules)


def alone(dataset: ResolvedDataset, catalog: Catalog) -> TableRules:
    """The rules of a dataset for a batch that is all there is; other tables are as they are registered."""
    return TableRules(dataset.dataset.expectations, lambda session, name: session.table(catalog.names.of(name).text))


def register_views(graph: ResolvedGraph, flow: ResolvedFlow, catalog: Catalog) -> None:
    """Make the views that a flow reads readable; the tables below them are registered already."""
    for view in graph.views_below(flow):
        with with_confs(catalog.session, view.flow.spark_conf):
            frame = flow_frame(graph, view, catalog)
        catalog.register_view(view.target, passing(frame, graph.by_name[view.target], catalog))
