"""A time limit for the jobs of a query: they are cancelled, and the session stays usable."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from headrace.errors import PipelineError


@contextmanager
def time_limit(session: SparkSession, seconds: float | None) -> Iterator[None]:
    """Cancel the jobs of the block when the time is over, or when the block is left early.

    Args:
        session: whose jobs are started in the block, from its thread.
        seconds: how long they may take; None for no limit.

    Raises:
        PipelineError: SQL.TIMEOUT instead of any error of the block, once the time is over.
    """
    if seconds is None:
        yield
        return
    spark, tag, is_over = session.sparkContext, f"headrace-{uuid.uuid4().hex}", threading.Event()

    def cancel() -> None:
        is_over.set()
        spark.cancelJobsWithTag(tag)

    timer = threading.Timer(seconds, cancel)
    timer.daemon = True
    spark.addJobTag(tag)
    timer.start()
    try:
        yield
    except Exception as error:
        if is_over.is_set():
            raise PipelineError("SQL.TIMEOUT", seconds=f"{seconds:g}") from error
        raise
    finally:
        timer.cancel()
        spark.removeJobTag(tag)
        # Whoever interrupts the block leaves its jobs behind.
        spark.cancelJobsWithTag(tag)
