"""The batches that a running query computes, each once."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.query import StreamingQuery


class ComputedBatches:
    """Returns the progress of each computed batch of a query, if Spark still has it (the last 100).

    An idle query also reports progress, with the number of the next batch (``ProgressContext.updateIdleness`` of
    Spark 4.2), which is skipped.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._seen = -1
        self._last: tuple[object, object] | None = None

    def new(self) -> list[Any]:
        """The batches since the last call."""
        last: Any = self._query.lastProgress
        newest = None if last is None else (last["batchId"], last["timestamp"])
        # Reading all of them costs more than reading the last one.
        if newest is None or newest == self._last:
            return []
        self._last = newest
        found: list[Any] = [
            batch
            for batch in self._query.recentProgress
            if int(batch["batchId"]) > self._seen and "addBatch" in batch["durationMs"]
        ]
        self._seen = max((int(batch["batchId"]) for batch in found), default=self._seen)
        return found
