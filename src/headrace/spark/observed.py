"""Whether the rows of a batch were computed, which a sink that has them already may not ask for."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame, Observation
from pyspark.storagelevel import StorageLevel

# Observations are complete when the write returns; this is for a listener that lags.
_PATIENCE_S = 5.0


def completed(observation: Observation, patience_s: float = _PATIENCE_S) -> bool:
    """True once the observed rows were computed; waiting for those that were not would never end."""
    java: Any = observation._jo  # noqa: SLF001 - its future has no public form
    deadline = time.monotonic() + patience_s
    while java is not None and not java.future().isCompleted():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return java is not None


def observed_number(observation: Observation, name: str) -> int | None:
    """A number that was observed; None where no rows were computed, or none had to be, for instance by a limit of 0."""
    if not completed(observation):
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
