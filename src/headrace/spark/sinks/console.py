"""The terminal as a sink: shows the first rows of each batch."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel

from headrace.runtime.failpoints import Failpoint
from headrace.spark.sinks.sink import Batch
from headrace.spark.update.guard import Guard

_MAX_VALUE_LENGTH = 20


@dataclass(frozen=True)
class ConsoleSink:
    """Writes batches to stderr, where the update's log goes.

    Attributes:
        name: of the sink.
        rows: the maximum number of rows shown per batch.
        truncate: cut long values.
        guard: failpoints and fencing.
    """

    name: str
    rows: int
    truncate: bool
    guard: Guard

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Show a batch."""
        self.guard.before(Failpoint.BEFORE_WRITE)
        # Compute the rows once, to show and to count them.
        cached = rows.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            count = cached.count()
            # The text that DataFrame.show prints; it has no public API.
            text = cached._jdf.showString(self.rows, _MAX_VALUE_LENGTH if self.truncate else 0, False)  # noqa: FBT003, SLF001
        finally:
            cached.unpersist()
        title = f"{self.name}, batch {batch.number} of flow {batch.flow}: {count} row{'' if count == 1 else 's'}"
        sys.stderr.write(f"{title}\n{text}\n")
        self.guard.failpoint(Failpoint.WRITTEN)
        return count
