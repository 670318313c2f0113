"""How far a running query is behind the topics that it reads, from Spark's own progress."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql.streaming.query import StreamingQuery

from headrace.events.types import FlowBehind
from headrace.graph.resolved import ResolvedFlow
from headrace.model.outcome import PartitionLag
from headrace.sources.kafka_offsets import lags, positions_of
from headrace.spark.surroundings import Surroundings

# How Spark describes the source.
_DESCRIPTION = "KafkaV2["
_SAY_EVERY_S = 10.0


class LagTeller:
    """Says how far a query that reads topics is behind, when that has changed, now and then, and at its end."""

    def __init__(self, around: Surroundings, flow: ResolvedFlow, query: StreamingQuery, *, reads_topics: bool) -> None:
        self._reads_topics = reads_topics
        self._around = around
        self._flow = flow
        self._query = query
        self._said: tuple[PartitionLag, ...] = ()
        self._said_at = float("-inf")

    def tell(self, *, last: bool = False) -> None:
        """Record the lag if there is news of it."""
        now = self._around.now()
        if not self._reads_topics or (not last and now - self._said_at < _SAY_EVERY_S):
            return
        progress: Any = self._query.lastProgress
        found = lag_of_progress(progress) if progress is not None else ()
        if found and found != self._said:
            self._said, self._said_at = found, now
            self._around.emit(FlowBehind(self._flow.name, str(self._flow.target), found))


def lag_of_progress(progress: Mapping[str, Any]) -> tuple[PartitionLag, ...]:
    """The lag of every partition that a query reads, by the progress of its last batch; nothing for other sources.

    Source: Spark's ``SourceProgress``; ``latestOffset`` is what the broker had when the batch was planned.
    """
    return tuple(
        partition
        for source in progress["sources"]
        if str(source["description"]).startswith(_DESCRIPTION)
        for partition in lags(positions_of(source["endOffset"]), positions_of(source["latestOffset"]))
    )
