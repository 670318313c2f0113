"""Whose batch it is that a function was called with."""

from __future__ import annotations

from pyspark.sql import DataFrame

from headrace.errors import PipelineError
from headrace.spark.deadletter.batch_plan import QUERY_ID_PROPERTY
from headrace.spark.sinks.function import DELIVERY_PROPERTY


def writer_of(frame: DataFrame, target: str, name: str | None) -> str:
    """The name under which a batch is recorded in *target*; no other query's, and no other target's.

    Args:
        frame: the batch.
        target: what it is written to.
        name: tells this write of the batch from others; alone it tells whose a batch is that no query has made.

    Raises:
        PipelineError: DELIVERY.NO_QUERY: no streaming query runs in this thread, and there is no name.
    """
    context = frame.sparkSession.sparkContext
    query = context.getLocalProperty(DELIVERY_PROPERTY) or context.getLocalProperty(QUERY_ID_PROPERTY)
    if not (query or name):
        raise PipelineError("DELIVERY.NO_QUERY")
    # A query that begins anew numbers its batches anew, whatever its writes are called.
    return ":".join(filter(None, ("headrace", query, name, target)))


def in_pipeline(frame: DataFrame) -> bool:
    """True inside a function of ``@dp.foreach_batch_sink``."""
    return frame.sparkSession.sparkContext.getLocalProperty(DELIVERY_PROPERTY) is not None
