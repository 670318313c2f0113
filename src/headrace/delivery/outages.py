"""Handles unavailable targets: retries, and a spill queue for batches until the target is back."""

from __future__ import annotations

import hashlib
import logging
import random
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pyspark.sql import DataFrame

from headrace.delivery.identity import writer_of
from headrace.runtime.failpoints import no_failpoint
from headrace.sinks.retrying import Clock, Patience, with_retries
from headrace.spark.sinks.sink import Batch
from headrace.spark.sinks.spill_queue import SpillQueue, SpillQueueSink
from headrace.spark.update.guard import Guard
from headrace.storage.spill_queue import SpilledBatch, clear_drafts

_Result = TypeVar("_Result")
_DIGEST_LENGTH = 16
_LOG = logging.getLogger(__name__)


def retry(
    work: Callable[[], _Result],
    *,
    on: type[Exception] | tuple[type[Exception], ...] = (ConnectionError, TimeoutError, socket.gaierror),
    attempts: int = 5,
    budget_s: float = 60.0,
) -> _Result:
    """The result of *work*, which is retried after transient errors.

    The delay before the second attempt is random, up to half a second; the limit doubles with each further attempt.

    Args:
        work: what to do; it may run several times.
        on: transient errors; clients often have their own, such as ``requests.ConnectionError``.
        attempts: the maximum number of attempts.
        budget_s: seconds after which no further attempt begins.

    Raises:
        Exception: the last error, or the first that is not one of *on*.
    """

    def retry_delay_s(error: Exception) -> float | None:
        return 0.0 if isinstance(error, on) else None

    return with_retries(
        work, retry_delay_s, Patience(attempts, budget_s), Clock(time.monotonic, time.sleep, random.random)
    )


def deliver_or_keep(
    batch: DataFrame,
    batch_id: int,
    deliver: Callable[[DataFrame, int], object],
    folder: str | Path,
    *,
    down: type[Exception] | tuple[type[Exception], ...],
    name: str | None = None,
) -> None:
    """Deliver a batch with a function, or keep it in a folder while the target is down.

    While one batch waits, later batches wait too. Each call first delivers up to 20 waiting batches, oldest first,
    under their own numbers. *deliver* may get a batch again after a crash, like any ``foreachBatch`` function.

    Args:
        batch: the rows.
        batch_id: the batch number that the function got.
        deliver: takes the rows and the number of a batch.
        folder: for waiting batches, on the driver's disk and visible to all workers. Keep it as long as the checkpoint.
        down: the errors that *deliver* raises if the target is down; other errors are raised.
        name: identifies this write of the batch; a call outside of a streaming query needs one.
    """
    writer = writer_of(batch, str(folder), name)
    digest = hashlib.sha256(writer.encode()).hexdigest()[:_DIGEST_LENGTH]

    def outage_reason(error: BaseException) -> str | None:
        # The text comes from unknown code, and may contain a secret.
        return type(error).__name__ if isinstance(error, down) else None

    def report(code: str, what: str) -> None:
        _LOG.warning("[%s] the place of %s %s", code, folder, what)

    def batch_of(waited: SpilledBatch) -> Batch:
        return Batch(writer, writer, waited.epoch, waited.number, 0)

    clear_drafts(Path(folder) / digest)
    queue = SpillQueue(Path(folder) / digest, True, outage_reason, time.monotonic, report)  # noqa: FBT003 - it spills
    guard = Guard(no_failpoint, lambda: None, 0)
    sink = SpillQueueSink(_Function(deliver), queue, guard, batch_of)
    sink.deliver(batch, Batch(writer, writer, 0, batch_id, 0))


class _Function:
    """A function as a sink."""

    def __init__(self, deliver: Callable[[DataFrame, int], object]) -> None:
        self._deliver = deliver

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Call the function."""
        self._deliver(rows, batch.number)
        return None
