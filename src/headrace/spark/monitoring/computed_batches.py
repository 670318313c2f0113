"""The batches that a running query computes, each once."""

from __future__ import annotations

import json
from typing import Any

from pyspark.sql.streaming.listener import StreamingQueryProgress
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
        if newest is None or newest == self._last:
            return []
        since = "" if self._last is None else str(self._last[1])
        self._last = newest
        found = [batch for batch in self._reports_after(self._seen, since) if "addBatch" in batch["durationMs"]]
        self._seen = max((int(batch["batchId"]) for batch in found), default=self._seen)
        return found

    def _reports_after(self, batch_id: int, since: str) -> list[Any]:
        # PySpark would convert the whole list at each call.
        recent: Any = self._query._jsq.recentProgress()  # noqa: SLF001 - has no public form
        found: list[Any] = []
        for index in range(len(recent) - 1, -1, -1):
            # An idle query repeats the number of its next batch, at later times.
            if int(recent[index].batchId()) <= batch_id or str(recent[index].timestamp()) < since:
                break
            found.append(StreamingQueryProgress.fromJson(json.loads(recent[index].json())))
        return found[::-1]
