"""What flows return over the tables as they are registered now, in the shape of their targets.

Updates and previews share it, so that a preview shows what an update would write.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from headrace.expectations.apply import kept
from headrace.expectations.compile import judged
from headrace.graph.resolved import ResolvedDataset, ResolvedFlow, ResolvedGraph
from headrace.model.datasets import Kind
from headrace.model.names import quoted
from headrace.model.schema import Column as SchemaColumn
from headrace.model.schema import Schema
from headrace.model.type_changes import schema_change
from headrace.spark.catalog import Catalog
from headrace.spark.delta_tables import struct_type
from headrace.spark.in_force import with_confs
from headrace.spark.queries import call
from headrace.spark.table_rules import TableRules


def flow_frame(graph: ResolvedGraph, flow: ResolvedFlow, catalog: Catalog) -> DataFrame:
    """What a flow's query returns, in the shape of its target; events that change it are as their source has them."""
    dataset = graph.by_name[flow.target]
    columns = dataset.in_code.names if dataset.dataset.schema is not None else ()
    feed = flow.analysis.feed
    if dataset.kind is Kind.SINK:
        # Each of a sink's flows has columns of its own.
        return call(flow.flow, catalog)
    if feed is not None:
        return shaped(call(flow.flow, catalog, columns=columns), Schema.from_json(feed.source_json))
    return shaped(call(flow.flow, catalog, columns=columns), dataset.schema)


def shaped(frame: DataFrame, schema: Schema) -> DataFrame:
    """The frame with the columns of a schema, in its order, spelling and with its comments.

    Columns that the frame lacks are NULL: rules may speak of them, and a write that brings the schema with it would
    take them away. Columns that only the frame has come last; whether they fit is for the write to say.
    """
    found = Schema.from_json(frame.schema.json())
    if [_shape(column) for column in found.columns] == [_shape(column) for column in schema.columns]:
        return frame
    types = {field.name: field.dataType for field in frame.schema.fields}
    columns = []
    for column, field in zip(schema.columns, struct_type(schema).fields, strict=True):
        known = found.find(column.name)
        value = F.col(quoted(known.name)) if known is not None else F.lit(None).cast(field.dataType)
        if known is not None and known.json_type != column.json_type and _fits(known, column):
            value = brought(value, types[known.name], field.dataType)
        if column.comment is None:
            columns.append(value.alias(column.name))
        else:
            columns.append(value.alias(column.name, metadata={"comment": column.comment}))
    columns += [F.col(quoted(c.name)) for c in found.columns if schema.find(c.name) is None]
    return frame.select(*columns)


def brought(value: Column, given: DataType, wanted: DataType) -> Column:
    """A value in a type that can hold it; what struct fields it lacks are NULL.

    Casting a struct goes by the place of its fields, so that each field is brought on its own.
    """
    if isinstance(given, StructType) and isinstance(wanted, StructType):
        fields = {field.name.casefold(): field for field in given.fields}
        parts = []
        for field in wanted.fields:
            known = fields.get(field.name.casefold())
            if known is None:
                part = F.lit(None).cast(field.dataType)
            else:
                part = brought(value.getField(known.name), known.dataType, field.dataType)
            parts.append(part.alias(field.name))
        return F.when(value.isNotNull(), F.struct(*parts))
    if isinstance(given, ArrayType) and isinstance(wanted, ArrayType):
        inner, outer = given.elementType, wanted.elementType
        return F.transform(value, lambda element: brought(element, inner, outer))
    if isinstance(given, MapType) and isinstance(wanted, MapType):
        key, key_wanted, inner, outer = given.keyType, wanted.keyType, given.valueType, wanted.valueType
        if key != key_wanted:
            value = F.transform_keys(value, lambda name, _: brought(name, key, key_wanted))
        return F.transform_values(value, lambda _, entry: brought(entry, inner, outer))
    return value.cast(wanted)


def _fits(given: SchemaColumn, wanted: SchemaColumn) -> bool:
    """True when every value of the given type is one of the wanted type."""
    change = schema_change(Schema((wanted,)).nullable, Schema((replace(given, name=wanted.name),)).nullable)
    return change.none


def _shape(column: SchemaColumn) -> tuple[str, str | None, str]:
    return column.name, column.comment, column.json_type


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
