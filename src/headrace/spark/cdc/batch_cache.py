"""Rows that are computed once in a batch, and given up after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel

_SMALL_BYTES = 16 << 20


class Kept:
    """The frames of a batch whose rows are computed once, and never again: work on rows that have got lost fails.

    Spark's cache is not used for them. Whenever a table is written, it plans anew all that it holds of that table,
    which took a third of an update that merges few rows; and each query on cached rows plans all that led to them.
    """

    def __init__(self) -> None:
        self._settled: list[DataFrame] = []

    def when_asked(self, frame: DataFrame) -> DataFrame:
        """The same rows, computed by the first query on them, up to the last exchange between tasks before that."""
        return self._kept(frame, eager=False)

    def settled(self, frame: DataFrame) -> DataFrame:
        """The same rows, computed now.

        A MERGE reads its source twice and damages the table if it is not the same; for sources like this one Delta's
        own copy of it is not needed.
        """
        return self._kept(frame, eager=True)

    def release(self) -> None:
        """Give up all of them."""
        for frame in self._settled:
            _blocks(frame).unpersist(False)

    def _kept(self, frame: DataFrame, *, eager: bool) -> DataFrame:
        self._settled.append(frame.localCheckpoint(eager=eager, storageLevel=StorageLevel.MEMORY_AND_DISK))
        return self._settled[-1]


def is_small(frame: DataFrame) -> bool:
    """Whether the rows of a settled frame may be sent to every task, so that what they are joined to is not sorted."""
    number = _blocks(frame).id()
    context: Any = frame.sparkSession.sparkContext._jsc.sc()  # noqa: SLF001 - has no public form in PySpark
    stored = [info for info in context.getRDDStorageInfo() if info.id() == number]
    # Rows on disk are compressed.
    return sum(int(info.memSize()) + int(info.diskSize()) for info in stored) <= _SMALL_BYTES


def _blocks(frame: DataFrame) -> Any:
    """What holds the rows of a settled frame."""
    plan: Any = frame._jdf.queryExecution().logical()  # noqa: SLF001 - checkpoints have no public form in PySpark
    return plan.rdd()


@contextmanager
def kept_rows() -> Iterator[Kept]:
    """Keeps rows until the block ends."""
    kept = Kept()
    try:
        yield kept
    finally:
        kept.release()
