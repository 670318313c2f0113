"""Starts the query of a stream, with what its batches go to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headrace.graph.resolved import Mode, ResolvedFlow
from headrace.model.triggers import Trigger, TriggerKind
from headrace.sinks.formats import KAFKA
from headrace.spark.sinks.kafka import as_records
from headrace.spark.sinks.progress_counter import OBSERVED, ROWS
from headrace.spark.sinks.sink_factory import stream_options
from headrace.spark.update.batch_writer import Calls
from headrace.spark.update.context import UpdateContext

_OUTPUT_MODES = {Mode.COMPLETE: "complete", Mode.UPDATE: "update"}


def start_query(
    context: UpdateContext,
    flow: ResolvedFlow,
    frame: DataFrame,
    trigger: Trigger,
    checkpoint: Path,
    target: Calls | None,
) -> StreamingQuery:
    """The query of a flow, running.

    Args:
        context: the pipeline.
        flow: whose query.
        frame: what it returns.
        trigger: when it looks for new input.
        checkpoint: where its progress is.
        target: what takes its batches; None where Spark writes them itself, into the flow's table or sink.
    """
    dataset = context.graph.by_name[flow.target].dataset
    if target is None and dataset.sink is not None:
        frame = as_records(frame) if dataset.sink.format.casefold() == KAFKA else frame
        frame = frame.observe(OBSERVED, F.count(F.lit(1)).alias(ROWS))
    writer = _triggered(frame.writeStream.queryName(flow.name), trigger)
    writer = writer.option("checkpointLocation", str(checkpoint)).outputMode(_OUTPUT_MODES.get(flow.mode, "append"))
    if target is not None:
        return writer.foreachBatch(target).start()
    if dataset.sink is not None:
        return writer.format(dataset.sink.format).options(**stream_options(dataset.sink)).start()
    return writer.format("delta").start(context.table_path(flow.target))


def _triggered(writer: DataStreamWriter, trigger: Trigger) -> DataStreamWriter:
    match trigger.kind:
        case TriggerKind.INTERVAL:
            return writer.trigger(processingTime=f"{int(trigger.interval_s * 1000)} milliseconds")
        case TriggerKind.ONCE:
            return writer.trigger(once=True)
        case TriggerKind.AVAILABLE_NOW:
            return writer.trigger(availableNow=True)
        case TriggerKind.REAL_TIME:
            # The overloads of PySpark 4.2 know all triggers but this one.
            untyped: Any = writer
            found: DataStreamWriter = untyped.trigger(realTime=f"{int(trigger.interval_s * 1000)} milliseconds")
            return found
