"""The quarantine table of a dataset: which rows a replay selects, and how its types follow the dataset's."""

from __future__ import annotations

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from headrace.delta_log.table_layout import table_layout
from headrace.delta_log.tables import table_state
from headrace.graph.new_tables import MAPPING, has_special_names, maps_names
from headrace.model.names import quoted
from headrace.model.properties import needed_features
from headrace.model.schema import Schema
from headrace.model.type_changes import schema_change
from headrace.plan.backfills import Replay
from headrace.spark.delta.alter import describe_table
from headrace.spark.delta.conform import cast_nested
from headrace.spark.delta.fencing import fencing_options
from headrace.spark.delta.tables import struct_type
from headrace.storage.flow_record import FlowRecord

OPEN, REPLAYED, RELEASED = "open", "replayed", "released"


def matches_replay(record: FlowRecord, replay: Replay) -> Column:
    """True for rows of a quarantine table that a replay of a flow selects, in the version in which they are open."""
    found = (F.col("status") == OPEN) & (F.col("flow") == record.identity)
    if replay.rules:
        found &= F.arrays_overlap("broken", F.array(*map(F.lit, replay.rules)))
    return found


def widen_quarantine(session: SparkSession, path: str, schema: Schema, fencing_token: int | None) -> None:
    """Widen the types of a quarantine table so that it accepts rows of *schema*; does nothing if it already does.

    The table is rewritten in one commit, not widened in place: other readers of Delta tables, including the one of
    ``headrace quarantine``, do not support type widening. New columns are added with the rows that have them. Does
    nothing if a holder of the lease with a greater fencing token has done it.
    """
    state = table_state(path)
    column = state.schema.find("row") if state is not None else None
    if state is None or column is None:
        return
    missing = [feature for feature in needed_features(schema) if not table_layout(path).satisfies(feature, "supported")]
    properties = [(feature, "supported") for feature in missing]
    if not maps_names(state.properties) and has_special_names(schema):
        properties += MAPPING.items()
    describe_table(session, f"delta.{quoted(path)}", properties)
    current = Schema.from_json(column.json_type)
    change = schema_change(current.nullable, schema.nullable)
    if not change.widened or change.refused:
        return
    rows = session.read.format("delta").load(path)
    wanted = struct_type(change.result)
    widened = rows.withColumn("row", cast_nested(F.col("row"), rows.schema["row"].dataType, wanted))
    writer = widened.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.options(**fencing_options(fencing_token, "widening")).partitionBy("flow").save(path)
