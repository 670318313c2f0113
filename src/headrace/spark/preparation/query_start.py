"""Starts the query of a stream with its target."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from headrace.errors import InternalError
from headrace.graph.resolved_flows import CompleteFlow, StreamingFlow, UpdateFlow
from headrace.model.triggers import Trigger, TriggerKind
from headrace.sinks.formats import KAFKA
from headrace.spark.session.query_context import in_query_context, query_context
from headrace.spark.sinks.create_sink import stream_options
from headrace.spark.sinks.kafka import as_records
from headrace.spark.sinks.progress_counter import OBSERVED, ROWS
from headrace.spark.update.batch_writer import BatchFunction
from headrace.spark.update.context import UpdateContext
from headrace.storage.initial_snapshot import reads_commits
from headrace.stores.paths import StoragePath

_OUTPUT_MODES: dict[type, str] = {CompleteFlow: "complete", UpdateFlow: "update"}


@contextmanager
def starting(context: UpdateContext, checkpoint: StoragePath) -> Iterator[None]:
    """Context to call a query that starts: readers store schemas, and tables are read by commits if possible."""

    def reads(text: str) -> bool:
        name = context.catalog.names.dataset_of(text)
        table = context.state.table(name) if name is not None else None
        return table is not None and reads_commits(table, checkpoint)

    with in_query_context(replace(query_context(), is_starting=True, reads_commits=reads)):
        yield


def start_query(
    context: UpdateContext,
    flow: StreamingFlow,
    frame: DataFrame,
    trigger: Trigger,
    checkpoint: StoragePath,
    target: BatchFunction | None,
) -> StreamingQuery:
    """Start the query of a flow.

    Args:
        context: the context of the update.
        flow: the flow.
        frame: the frame of its query.
        trigger: when it polls for new input.
        checkpoint: the path of its checkpoint.
        target: receives its batches; None if Spark writes them itself, into the flow's sink.
    """

    def writer(written: DataFrame) -> DataStreamWriter:
        named = _triggered(written.writeStream.queryName(flow.name), trigger)
        return named.option("checkpointLocation", str(checkpoint)).outputMode(_OUTPUT_MODES.get(type(flow), "append"))

    if target is not None:
        return writer(frame).foreachBatch(target).start()
    sink = context.graph.by_name[flow.target].dataset.sink
    if sink is None:
        raise InternalError(f'flow "{flow.name}" has no writer')
    frame = as_records(frame) if sink.format.casefold() == KAFKA else frame
    observed = frame.observe(OBSERVED, F.count(F.lit(1)).alias(ROWS))
    return writer(observed).format(sink.format).options(**stream_options(sink)).start()


def _triggered(writer: DataStreamWriter, trigger: Trigger) -> DataStreamWriter:
    match trigger.kind:
        case TriggerKind.INTERVAL:
            return writer.trigger(processingTime=f"{int(trigger.interval_s * 1000)} milliseconds")
        case TriggerKind.ONCE:
            return writer.trigger(once=True)
        case TriggerKind.AVAILABLE_NOW:
            return writer.trigger(availableNow=True)
        case TriggerKind.REAL_TIME:
            # PySpark 4.2's overloads lack this trigger.
            untyped: Any = writer
            found: DataStreamWriter = untyped.trigger(realTime=f"{int(trigger.interval_s * 1000)} milliseconds")
            return found
