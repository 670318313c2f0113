"""The frames that flows return over the registered tables, with the schemas of their targets.

Updates and previews share them, so that a preview shows what an update would write.
"""

from __future__ import annotations

from pyspark.sql import DataFrame

from headrace.expectations.compile import evaluate
from headrace.expectations.split import accepted_rows
from headrace.graph.resolved import ResolvedDataset, ResolvedGraph
from headrace.graph.resolved_flows import ChangeFlow, ResolvedFlow
from headrace.model.datasets import Kind
from headrace.model.schema import Schema
from headrace.spark.delta.conform import conform
from headrace.spark.expectations.table_rules import TableRules
from headrace.spark.queries.query_calls import call
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.update.catalog import Catalog


def flow_frame(graph: ResolvedGraph, flow: ResolvedFlow, catalog: Catalog) -> DataFrame:
    """The frame of a flow's query, with its target's schema; change events keep the schema of their source."""
    dataset = graph.by_name[flow.target]
    columns = dataset.code_schema.names if dataset.dataset.schema is not None else ()
    if dataset.kind is Kind.SINK:
        # Each flow of a sink has its own columns.
        return call(flow.flow, catalog)
    if isinstance(flow, ChangeFlow):
        return conform(call(flow.flow, catalog, columns=columns), Schema.from_json(flow.feed.source_json))
    return conform(call(flow.flow, catalog, columns=columns), dataset.schema)


def passing_rows(frame: DataFrame, dataset: ResolvedDataset, catalog: Catalog) -> DataFrame:
    """The rows that pass the dataset's expectations, as one batch into an empty table."""
    rules = single_batch_rules(dataset, catalog)
    if not rules.declared:
        return frame
    return accepted_rows(evaluate(rules.with_rule_columns(frame), rules.rules, frame.sparkSession), rules.rules)


def single_batch_rules(dataset: ResolvedDataset, catalog: Catalog) -> TableRules:
    """The rules of a dataset for a single batch; other tables are read as registered."""
    return TableRules(dataset.dataset.expectations, lambda session, name: session.table(catalog.names.of(name).text))


def register_views(graph: ResolvedGraph, flow: ResolvedFlow, catalog: Catalog) -> None:
    """Register the views that a flow reads; the tables below them are registered already."""
    for view in graph.view_flows_read_by(flow):
        with with_confs(catalog.session, view.flow.spark_conf):
            frame = flow_frame(graph, view, catalog)
        catalog.register_view(view.target, passing_rows(frame, graph.by_name[view.target], catalog))
