"""Places that are down for a while: trying again, and batches that wait until they are back."""

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
from headrace.runtime.failpoints import walk_past
from headrace.sinks.retrying import Clock, Patience, tried
from headrace.spark.sinks.sink import Batch, Guard
from headrace.spark.sinks.spill_queue import SpillPlace, WithSpillQueue
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
    """What *work* returns, which is called again while it raises what may pass.

    The wait before the second try is up to half a second, by chance, and up to twice as long before each further one.

    Args:
        work: what to do; it may be done several times.
        on: errors that may pass; clients often have their own, such as ``requests.ConnectionError``.
        attempts: how often it is called, at most.
        budget_s: seconds after which no further try begins.

    Raises:
        Exception: the last error, or the first that is none of *on*.
    """

    def passing(error: Exception) -> float | None:
        return 0.0 if isinstance(error, on) else None

    return tried(work, passing, Patience(attempts, budget_s), Clock(time.monotonic, time.sleep, random.random))


def deliver_or_keep(
    batch: DataFrame,
    batch_id: int,
    deliver: Callable[[DataFrame, int], object],
    folder: str | Path,
    *,
    down: type[Exception] | tuple[type[Exception], ...],
    name: str | None = None,
) -> None:
    """Hand a batch to a function, or keep it in a folder while the function's place is down.

    While a batch waits, those behind it wait too. Each call hands over up to twenty of those that wait first, oldest
    first, under the numbers that they had. A batch may come to *deliver* again after a crash, as with any function of
    ``foreachBatch``.

    Args:
        batch: the rows.
        batch_id: the number that the function got.
        deliver: takes rows and the number of their batch.
        folder: for batches that wait, on the driver's disk and seen by all workers; it lives as long as the checkpoint.
        down: what *deliver* raises when its place is down; anything else is raised.
        name: tells this write of the batch from others; a call that no streaming query makes needs one.
    """
    writer = writer_of(batch, str(folder), name)
    digest = hashlib.sha256(writer.encode()).hexdigest()[:_DIGEST_LENGTH]

    def why_down(error: BaseException) -> str | None:
        # Its text is that of code which we do not know, and may hold a secret.
        return type(error).__name__ if isinstance(error, down) else None

    def tell(code: str, what: str) -> None:
        _LOG.warning("[%s] the place of %s %s", code, folder, what)

    def batch_of(waited: SpilledBatch) -> Batch:
        return Batch(writer, writer, waited.epoch, waited.number, 0)

    clear_drafts(Path(folder) / digest)
    place = SpillPlace(Path(folder) / digest, True, why_down, time.monotonic, tell)  # noqa: FBT003 - it keeps
    guard = Guard(walk_past, lambda: None)
    taker = WithSpillQueue(_Function(deliver), place, guard, batch_of)
    taker.deliver(batch, Batch(writer, writer, 0, batch_id, 0))


class _Function:
    """A function as a sink."""

    def __init__(self, deliver: Callable[[DataFrame, int], object]) -> None:
        self._deliver = deliver

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Call it."""
        self._deliver(rows, batch.number)
        return None
