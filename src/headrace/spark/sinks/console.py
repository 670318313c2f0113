"""The terminal as a sink: the first rows of each batch are shown."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.storagelevel import StorageLevel

from headrace.runtime.failpoints import Failpoint
from headrace.spark.sinks.sink import Batch, Guard

_LONGEST_VALUE = 20


@dataclass(frozen=True)
class ConsoleSink:
    """Shows batches where the log of an update goes, beside the result.

    Attributes:
        name: of the sink.
        rows: how many of a batch are shown.
        truncate: whether long values are cut.
        guard: what is done around it.
    """

    name: str
    rows: int
    truncate: bool
    guard: Guard

    def deliver(self, rows: DataFrame, batch: Batch) -> int | None:
        """Show a batch."""
        self.guard.before(Failpoint.TO_WRITE)
        # What is shown and what is counted are computed once.
        kept = rows.persist(StorageLevel.MEMORY_AND_DISK)
        try:
            count = kept.count()
            # The text that DataFrame.show prints, which has no public form of its own.
            text = kept._jdf.showString(self.rows, _LONGEST_VALUE if self.truncate else 0, False)  # noqa: FBT003, SLF001
        finally:
            kept.unpersist()
        said = f"{self.name}, batch {batch.number} of flow {batch.flow}: {count} row{'' if count == 1 else 's'}"
        sys.stderr.write(f"{said}\n{text}\n")
        self.guard.at(Failpoint.WRITTEN)
        return count
