"""Identifies the query whose batch a function was called with."""

from __future__ import annotations

from pyspark.sql import DataFrame

from headrace.errors import PipelineError
from headrace.spark.deadletter.batch_plan import QUERY_ID_PROPERTY
from headrace.spark.sinks.function import DELIVERY_PROPERTY


def writer_of(frame: DataFrame, target: str, name: str | None) -> str:
    """The name under which a batch is recorded in *target*, unique by query and target.

    Args:
        frame: the batch.
        target: the table or folder.
        name: identifies this write of the batch; required without a streaming query.

    Raises:
        PipelineError: DELIVERY.NO_QUERY: no streaming query runs in this thread, and there is no name.
    """
    context = frame.sparkSession.sparkContext
    query = context.getLocalProperty(DELIVERY_PROPERTY) or context.getLocalProperty(QUERY_ID_PROPERTY)
    if not (query or name):
        raise PipelineError("DELIVERY.NO_QUERY")
    # The query's id is always a part of it, because a restarted query numbers its batches from 0 again.
    return ":".join(filter(None, ("headrace", query, name, target)))


def in_pipeline(frame: DataFrame) -> bool:
    """True inside a function of ``@dp.foreach_batch_sink``."""
    return frame.sparkSession.sparkContext.getLocalProperty(DELIVERY_PROPERTY) is not None
