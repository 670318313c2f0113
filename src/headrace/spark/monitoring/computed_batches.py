"""The batches that a running query computes, each once."""

from __future__ import annotations

from typing import Any

from pyspark.sql.streaming.query import StreamingQuery


class ComputedBatches:
    """Gives the progress of each batch that a query has computed, as far as Spark remembers it (100 of them).

    A query that waits for input tells of itself too, under the number of the batch that is to come
    (``ProgressContext.updateIdleness`` of Spark 4.2): that is none.
    """

    def __init__(self, query: StreamingQuery) -> None:
        self._query = query
        self._seen = -1
        self._told: tuple[object, object] | None = None

    def new(self) -> list[Any]:
        """Those since the last call."""
        last: Any = self._query.lastProgress
        told = None if last is None else (last["batchId"], last["timestamp"])
        # To read all of them costs more than to look at the last one.
        if told is None or told == self._told:
            return []
        self._told = told
        found: list[Any] = [
            batch
            for batch in self._query.recentProgress
            if int(batch["batchId"]) > self._seen and "addBatch" in batch["durationMs"]
        ]
        self._seen = max((int(batch["batchId"]) for batch in found), default=self._seen)
        return found
