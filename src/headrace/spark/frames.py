"""What flows return over the tables as they are registered now, in the shape of their targets.

Updates and previews share it, so that a preview shows what an update would write.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.expectations.apply import kept
from headrace.expectations.compile import Rules, judged
from headrace.graph.resolved import ResolvedDataset, ResolvedFlow, ResolvedGraph
from headrace.model.names import quoted
from headrace.model.schema import Schema
from headrace.spark.catalog import Catalog
from headrace.spark.delta_tables import struct_type
from headrace.spark.queries import call


def flow_frame(graph: ResolvedGraph, flow: ResolvedFlow, catalog: Catalog) -> DataFrame:
    """What a flow's query returns, in the shape of its target."""
    dataset = graph.by_name[flow.target]
    columns = dataset.schema.names if dataset.dataset.schema is not None else ()
    return shaped(call(flow.flow, catalog, columns=columns), dataset.schema)


def shaped(frame: DataFrame, schema: Schema) -> DataFrame:
    """The frame with the columns of a schema, in its order, spelling and with its comments.

    Columns that the frame lacks are NULL: rules may speak of them, and a write that brings the schema with it would
    take them away. Columns that only the frame has come last; whether they fit is for the write to say.
    """
    found = Schema.from_json(frame.schema.json())
    same = [(c.name, c.comment) for c in found.columns] == [(c.name, c.comment) for c in schema.columns]
    if same:
        return frame
    columns = []
    for column, field in zip(schema.columns, struct_type(schema).fields, strict=True):
        known = found.find(column.name)
        value = F.col(quoted(known.name)) if known is not None else F.lit(None).cast(field.dataType)
        if column.comment is None:
            columns.append(value.alias(column.name))
        else:
            columns.append(value.alias(column.name, metadata={"comment": column.comment}))
    columns += [F.col(quoted(c.name)) for c in found.columns if schema.find(c.name) is None]
    return frame.select(*columns)


def passing(frame: DataFrame, dataset: ResolvedDataset) -> DataFrame:
    """The rows that the dataset's expectations let through."""
    rules = Rules(dataset.dataset.expectations)
    return kept(judged(frame, rules, frame.sparkSession), rules) if rules.expectations else frame


def register_views(graph: ResolvedGraph, flow: ResolvedFlow, catalog: Catalog) -> None:
    """Make the views that a flow reads readable; the tables below them are registered already."""
    for view in graph.views_below(flow):
        catalog.register_view(view.target, passing(flow_frame(graph, view, catalog), graph.by_name[view.target]))
