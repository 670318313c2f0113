"""Writers for the batches of a running query."""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame


class BatchWriter(Protocol):
    """Writes the batches of a query, one at a time."""

    @property
    def batches(self) -> int:
        """Number of written batches."""

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Write a batch. A repeated batch is written once."""


class BatchFunction:
    """The function for ``foreachBatch``. Keeps the exception of its writer, because py4j loses it."""

    def __init__(self, writer: BatchWriter) -> None:
        self._writer = writer
        self.error: BaseException | None = None

    @property
    def batches(self) -> int:
        """Number of written batches."""
        return self._writer.batches

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Write a batch."""
        try:
            self._writer.write(frame, batch_id)
        except BaseException as error:
            self.error = error
            raise
