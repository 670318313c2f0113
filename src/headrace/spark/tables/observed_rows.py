"""Whether the rows of a batch were computed, which a sink that has them already may not ask for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.storagelevel import StorageLevel

# For listeners that lag behind.
_PATIENCE_S = 5.0
_LOOK_EVERY_MS = 50


def completed(observation: Observation, session: SparkSession, patience_s: float = _PATIENCE_S) -> bool:
    """True once the observed rows were computed; waiting for those that were not would never end.

    A listener of the session hears of each computation after it. Once no listener has anything left to hear, what is
    not there does not come: the rows were not computed, or in another session.

    Args:
        observation: of rows that a write has been given, which has returned.
        session: of these rows.
        patience_s: how long to wait where listeners always have something to hear.
    """
    java: Any = observation._jo  # noqa: SLF001 - its future has no public form
    if java is None:
        return False
    bus: Any = session.sparkContext._jsc.sc().listenerBus()  # noqa: SLF001 - no public form either
    deadline = time.monotonic() + patience_s
    while not java.future().isCompleted() and time.monotonic() <= deadline:
        # Another error than a timeout comes again in each round, until the time is over.
        with suppress(Py4JJavaError):
            bus.waitUntilEmpty(_LOOK_EVERY_MS)
            break
    return bool(java.future().isCompleted())


def observed_number(observation: Observation, session: SparkSession, name: str) -> int | None:
    """A number that was observed; None where no rows were computed, or none had to be, for instance by a limit of 0."""
    if not completed(observation, session):
        return None
    java: Any = observation._jo  # noqa: SLF001 - PySpark's own asserts that there is something
    return int(observation.get[name]) if java.getRow().schema() is not None else None


@contextmanager
def computed_once(frame: DataFrame, stateful: bool) -> Iterator[DataFrame]:  # noqa: FBT001 - a property of the frame
    """The rows of a batch that is in the table already; with state, they are computed all the same, and once.

    Spark takes the versions of its state from the work that computes a batch, and ends the query for good when a batch
    was not computed (``StatefulOperatorsUtils``, state checkpoints of format 2).
    """
    if not stateful:
        yield frame
        return
    rows = frame.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        rows.write.format("noop").mode("overwrite").save()
        yield rows
    finally:
        rows.unpersist()
