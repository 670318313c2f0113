"""Caches frames of a batch, and releases them after it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel

_SMALL_BYTES = 16 << 20


class BatchCache:
    """The cached frames of a batch. Their rows are computed only once: queries on lost rows fail.

    They are local checkpoints. Spark's own cache would plan all cached frames of a table again whenever the table is
    written, which took a third of an update that merges few rows; and each query on cached rows would plan their whole
    lineage.
    """

    def __init__(self) -> None:
        self._frames: list[DataFrame] = []

    def lazy(self, frame: DataFrame) -> DataFrame:
        """The same rows, computed by the first query on them, up to the last shuffle before that."""
        return self._checkpointed(frame, eager=False)

    def eager(self, frame: DataFrame) -> DataFrame:
        """The same rows, computed now.

        A MERGE reads its source twice and damages the table if the reads differ; with a source like this one Delta
        need not materialize it itself.
        """
        return self._checkpointed(frame, eager=True)

    def release(self) -> None:
        """Release all cached frames."""
        for frame in self._frames:
            _blocks(frame).unpersist(False)

    def _checkpointed(self, frame: DataFrame, *, eager: bool) -> DataFrame:
        self._frames.append(frame.localCheckpoint(eager=eager, storageLevel=StorageLevel.MEMORY_AND_DISK))
        return self._frames[-1]


def is_small(frame: DataFrame) -> bool:
    """True if an eagerly cached frame is small enough to be broadcast, so that the other side is not sorted."""
    return cached_bytes(frame) <= _SMALL_BYTES


def cached_bytes(frame: DataFrame) -> int:
    """The bytes that an eagerly cached frame takes."""
    number = _blocks(frame).id()
    context: Any = frame.sparkSession.sparkContext._jsc.sc()  # noqa: SLF001 - has no public form in PySpark
    stored = [info for info in context.getRDDStorageInfo() if info.id() == number]
    # Rows on disk are compressed.
    return sum(int(info.memSize()) + int(info.diskSize()) for info in stored)


def cached_rows(frame: DataFrame) -> int:
    """The number of rows of an eagerly cached frame: one small job, where a query for it has two and a plan."""
    return int(_blocks(frame).count())


def _blocks(frame: DataFrame) -> Any:
    """The RDD that holds the rows of a cached frame."""
    plan: Any = frame._jdf.queryExecution().logical()  # noqa: SLF001 - checkpoints have no public form in PySpark
    return plan.rdd()


@contextmanager
def cached_frames() -> Iterator[BatchCache]:
    """A cache that is released when the block ends."""
    cache = BatchCache()
    try:
        yield cache
    finally:
        cache.release()
