"""Finds out whether Spark computed the rows of a batch: a sink that already has them may skip it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.storagelevel import StorageLevel

# Listeners may lag behind.
_TIMEOUT_S = 5.0
_POLL_INTERVAL_MS = 50


def was_computed(observation: Observation, session: SparkSession, timeout_s: float = _TIMEOUT_S) -> bool:
    """True if the observed rows were computed; waiting on the observation itself could block forever.

    A listener of the session receives the observation after the computation. Once the listener bus is empty, a missing
    observation will not arrive: the rows were not computed, or in another session.

    Args:
        observation: observation of the rows of a write that has returned.
        session: the session of these rows.
        timeout_s: how long to wait if the listener bus never becomes empty.
    """
    java: Any = observation._jo  # noqa: SLF001 - its future has no public form
    if java is None:
        return False
    bus: Any = session.sparkContext._jsc.sc().listenerBus()  # noqa: SLF001 - no public form either
    deadline = time.monotonic() + timeout_s
    while not java.future().isCompleted() and time.monotonic() <= deadline:
        # Errors other than a timeout recur in each round, until the deadline.
        with suppress(Py4JJavaError):
            bus.waitUntilEmpty(_POLL_INTERVAL_MS)
            break
    return bool(java.future().isCompleted())


def observed_values(observation: Observation, session: SparkSession) -> dict[str, Any] | None:
    """What was observed; None if no rows were computed, or none had to be (a limit of 0, for instance)."""
    if not was_computed(observation, session):
        return None
    java: Any = observation._jo  # noqa: SLF001 - PySpark's own asserts that there is a row
    return observation.get if java.getRow().schema() is not None else None


def observed_number(observation: Observation, session: SparkSession, name: str) -> int | None:
    """An observed number; None as for :func:`observed_values`."""
    values = observed_values(observation, session)
    return None if values is None else int(values[name])


@contextmanager
def computed_once(frame: DataFrame, stateful: bool) -> Iterator[DataFrame]:  # noqa: FBT001 - a property of the frame
    """The rows of a batch that is in the table already; a stateful batch is computed, exactly once.

    Spark takes the versions of its state from the tasks that compute a batch. A batch that was not computed ends the
    query for good (``StatefulOperatorsUtils``, state checkpoints of format 2).
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
