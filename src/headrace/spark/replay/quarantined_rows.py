"""The rows of a quarantine table that a replay selects."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from headrace.model.names import quoted
from headrace.model.schema import Schema
from headrace.plan.backfills import Replay
from headrace.spark.delta.conform import conform
from headrace.spark.expectations.quarantine_table import matches_replay
from headrace.storage.flow_record import FlowRecord


def quarantined_rows(session: SparkSession, path: str, schema: Schema, record: FlowRecord, replay: Replay) -> DataFrame:
    """The open rows of a flow in quarantine, as its function returned them, with new values.

    Args:
        session: reads them.
        path: of the quarantine table.
        schema: of the rows that the flow returns now.
        record: of the flow.
        replay: which rows, in which version of the table, and their new values.
    """
    stored = session.read.format("delta").option("versionAsOf", replay.version).load(path)
    rows = stored.where(matches_replay(record, replay)).select("row.*")
    for column, text in replay.changes:
        # The column keeps its type, so a number becomes a text in a text column.
        rows = rows.withColumn(column, F.expr(text).cast(rows.schema[column].dataType))
    # The flows of a table share its quarantine, whose rows have the columns of all of them.
    known = [name for name in rows.columns if schema.find(name) is not None]
    return conform(rows.select(*map(quoted, known)), schema)
