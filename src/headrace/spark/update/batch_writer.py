"""What takes the batches of a running query, and what counts those that Spark writes itself."""

from __future__ import annotations

from typing import Protocol

from pyspark.sql import DataFrame


class BatchWriter(Protocol):
    """Takes the batches of a query, one at a time."""

    @property
    def batches(self) -> int:
        """How many were taken."""

    def write(self, frame: DataFrame, batch_id: int) -> None:
        """Take a batch, once however often it comes."""


class Calls:
    """What foreachBatch calls: hands batches on, and keeps what that raises, because py4j loses it on the way out."""

    def __init__(self, writer: BatchWriter) -> None:
        self._writer = writer
        self.error: BaseException | None = None

    @property
    def batches(self) -> int:
        """How many were taken."""
        return self._writer.batches

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """Hand a batch on."""
        try:
            self._writer.write(frame, batch_id)
        except BaseException as error:
            self.error = error
            raise


class Counter(Protocol):
    """Counts the batches that Spark itself writes."""

    batches: int
    counted_version: int

    def count(self) -> None:
        """Record the batches that were written since the last call."""
