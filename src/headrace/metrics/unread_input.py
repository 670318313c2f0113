"""Since when streams have input that they have not read, from their reports."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from headrace.events.types import FlowLagMetrics
from headrace.metrics.topic_age import TopicAge
from headrace.model.outcome import PartitionLag
from headrace.model.stream_progress import StreamBatches

_TOPICS = "KafkaV2["


class UnreadInput:
    """By flow, its sources and the age of what it has not read of each."""

    def __init__(self) -> None:
        # By flow and source, in seconds since 1970; None if everything was read.
        self.oldest: dict[str, dict[str, float | None]] = {}
        # By flow and topic. What a report saw of a topic stays true while the flow does not run.
        self._topics: dict[str, dict[str, TopicAge]] = {}
        # By flow: how many sources it streams besides topics, and whether it streams topics.
        self._sources: dict[str, tuple[int, bool]] = {}

    def add_progress(self, flow: str, progress: StreamBatches) -> None:
        """Add which sources a flow streams."""
        if progress.sources:
            topics = [source.source.startswith(_TOPICS) for source in progress.sources]
            self._sources[flow] = (topics.count(False), any(topics))

    def add_lag(self, event: FlowLagMetrics, moment: float) -> None:
        """Replace what is known of a flow by a new report, with its time in seconds since 1970."""
        found: dict[str, float | None] = {}
        for table in event.tables:
            if table.oldest_unread_at is not None:
                found[table.source] = table.oldest_unread_at.timestamp()
            elif table.commits == 0:
                # Of unread commits that log clean-up has removed, the age is unknown, not zero.
                found[table.source] = None
        for files in event.backlog:
            if files.oldest_unread_at is not None:
                found[files.source] = files.oldest_unread_at.timestamp()
            elif files.files == 0:
                found[files.source] = None
        for source in event.sources:
            if source.seconds is not None:
                found[source.source] = moment - source.seconds if source.seconds > 0 else None
        self.oldest[event.flow] = found | self._topic_ages(event, moment)

    def _topic_ages(self, event: FlowLagMetrics, moment: float) -> dict[str, float | None]:
        by_topic: defaultdict[str, list[PartitionLag]] = defaultdict(list)
        for partition in event.lag:
            by_topic[partition.topic].append(partition)
        known = self._topics.get(event.flow, {})
        ages = {topic: known.get(topic, TopicAge()) for topic in by_topic}
        for topic, age in ages.items():
            age.observe(moment, by_topic[topic])
        if ages or known:
            self._topics[event.flow] = ages
        return {topic: age.oldest_unread_at for topic, age in ages.items()}

    def age_s(self, flow: str, now: float) -> float | None:
        """The age of the oldest input that a flow had not read in its last report; None if a source has none."""
        found, sources = self.oldest.get(flow, {}), self._sources.get(flow)
        topics = self._topics.get(flow, {})
        if sources is None or sources != (len(found.keys() - topics.keys()), bool(topics)):
            return None
        return max((0.0 if oldest is None else now - oldest for oldest in found.values()), default=None)

    def forget_ages(self, flow: str) -> None:
        """Forget the ages of a flow that starts again."""
        self.oldest.pop(flow, None)

    def keep(self, is_kept: Callable[[str], bool]) -> None:
        """Forget other flows."""
        self.oldest = {flow: found for flow, found in self.oldest.items() if is_kept(flow)}
        self._topics = {flow: found for flow, found in self._topics.items() if is_kept(flow)}
        self._sources = {flow: found for flow, found in self._sources.items() if is_kept(flow)}

    def to_json(self) -> dict[str, Any]:
        """Everything that the next reports need."""
        topics = {flow: {topic: age.to_json() for topic, age in ages.items()} for flow, ages in self._topics.items()}
        return {"oldest_unread": self.oldest, "topics": topics, "sources": self._sources}

    @classmethod
    def from_json(cls, given: Any) -> UnreadInput:
        """The input of :meth:`to_json`; raises LookupError, TypeError, AttributeError or ValueError for others."""
        found = cls()
        found.oldest = {
            str(flow): {str(source): None if at is None else float(at) for source, at in sources.items()}
            for flow, sources in given["oldest_unread"].items()
        }
        # Older versions had no topics.
        found._topics = {
            str(flow): {str(topic): TopicAge.from_json(age) for topic, age in ages.items()}
            for flow, ages in given.get("topics", {}).items()
        }
        found._sources = {
            str(flow): (int(others), bool(topics)) for flow, (others, topics) in given.get("sources", {}).items()
        }
        return found
