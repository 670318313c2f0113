"""Which batches are worth caching to find out how many rows they have: those that read little."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame

from headrace.delta_log.tables import open_table, table_size
from headrace.graph.analysis import Source
from headrace.spark.delta.small_append import MAX_BYTES, most_rows
from headrace.storage.batch_input import batch_input
from headrace.stores.paths import StoragePath

# Compressed, and before the query.
_MAX_READ_BYTES = 1 << 20


class SmallBatches:
    """Tells before the rows of a batch are computed whether they may be few.

    Args:
        checkpoint: of the stream.
        sources: of the stream, in the order of their offsets; empty for a batch query.
        replaced: the path of a table of whose rows each batch takes the place; None for others.
    """

    def __init__(self, checkpoint: StoragePath, sources: Sequence[Source], replaced: str | None = None) -> None:
        self._checkpoint = checkpoint
        self._sources = sources
        self._replaced = replaced

    def may_have(self, frame: DataFrame, batch_id: int) -> bool:
        """Whether the batch of a frame reads so little that it may be small."""
        # The plan of a frame of foreachBatch has the size of what the query reads. For topics and for data sources in
        # Python, Auto Loader among them, it is that of the greatest number.
        plan: Any = frame._jdf.queryExecution().analyzed()  # noqa: SLF001 - plans have no public form
        most = most_rows(frame.sparkSession)
        if not most or self._replaces_much():
            return False
        if int(str(plan.stats().sizeInBytes())) <= _MAX_READ_BYTES:
            return True
        found = batch_input(self._checkpoint, batch_id, self._sources)
        return found is not None and found.records <= most and found.file_bytes <= _MAX_READ_BYTES

    def _replaces_much(self) -> bool:
        """Whether the table is large: few input rows may change a large result, all of which is written."""
        table = None if self._replaced is None else open_table(self._replaced)
        return table is not None and table_size(table) > MAX_BYTES
