"""Queries a Kafka broker about the topics of a flow, with the client of Spark's own source."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from headrace.checkpoints.offsets import read_progress
from headrace.checkpoints.topic_offsets import next_positions, planned_positions, positions_before
from headrace.errors import PipelineError
from headrace.events.levels import Level
from headrace.events.types import OFFSETS_LOST, Warned
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.sources.kafka_offsets import Bounds, LostOffsets, Partition, Positions, ReportedLosses, losses
from headrace.sources.kafka_options import PASSED_ON, named_partitions, named_topics
from headrace.spark.analysis.plans import analyzed
from headrace.spark.errors.kafka_errors import is_of_kafka, kafka_problem
from headrace.spark.jvm.causes import chain
from headrace.spark.jvm.plan_nodes import items, node_kind
from headrace.spark.update.context import UpdateContext
from headrace.stores.paths import StoragePath

_SOURCE = "kafka"
_MAX_TIMEOUT_MS = 15_000
_NO_SUCH_TOPIC = (".UnknownTopicOrPartitionException", ".InvalidTopicException")
# The partition counts from the resolution of queries, by a digest of the client's options and the topic. When a query
# starts, other flows wait for it, so it does not ask again.
_partition_counts: dict[str, int] = {}


@dataclass(frozen=True)
class TopicSource:
    """One Kafka source of a query: its number among the sources, and its options, which may contain secrets."""

    number: int
    options: Mapping[str, str] = field(repr=False)

    @property
    def topics(self) -> frozenset[str]:
        """The topics that the options name."""
        return named_topics(self.options)

    @property
    def fails_on_loss(self) -> bool:
        """True if lost offsets fail the stream."""
        return self.options.get("failondataloss", "true").strip().casefold() != "false"


def topic_sources(frame: DataFrame) -> tuple[TopicSource, ...]:
    """The Kafka sources of a streaming query, with their numbers in the checkpoint.

    A source that is read twice counts once (``MicroBatchExecution.logicalPlan``).
    """
    found: list[TopicSource] = []
    nodes: list[Any] = []
    for node in _streams(analyzed(frame)):
        if any(node.equals(known) for known in nodes):
            continue
        if node_kind(node) == "StreamingRelationV2" and str(node.sourceName()) == _SOURCE:
            entries = node.extraOptions().asCaseSensitiveMap()
            found.append(TopicSource(len(nodes), {str(key).casefold(): str(entries[key]) for key in entries}))
        nodes.append(node)
    return tuple(found)


def check_topics(
    context: UpdateContext, flow: ResolvedFlow, sources: Iterable[TopicSource], checkpoint: StoragePath
) -> dict[int, ReportedLosses]:
    """Check that the broker still has what the flow reads next, before it starts.

    If the stream tolerates losses, warn of the lost offsets of each partition. Returns the reported losses by source
    number.

    Raises:
        PipelineError: KAFKA.DATA_LOSS, KAFKA.NO_TOPIC, KAFKA.NO_PARTITION, or why the broker does not answer.
    """
    reported: dict[int, ReportedLosses] = {}
    for source in sources:
        read = next_positions(checkpoint, source.number)
        lost_offsets, available = _find_losses(context.session, flow, source, read)
        if lost_offsets and source.fails_on_loss:
            raise _data_loss(flow, lost_offsets)
        report_lost(context, flow, lost_offsets)
        reported[source.number] = ReportedLosses.of(read, planned_positions(checkpoint, source.number), available)
    return reported


def count_partitions(session: SparkSession, flow: ResolvedFlow, source: TopicSource) -> int:
    """The number of partitions of the topics that the options name; 0 for a pattern.

    Raises:
        PipelineError: why the broker does not answer.
    """
    with _admin_client(session, source.options, flow) as admin:
        return len(_partitions(session, admin, source.topics))


def explain_failure(
    context: UpdateContext,
    flow: ResolvedFlow,
    sources: Iterable[TopicSource],
    checkpoint: StoragePath,
    error: Exception,
) -> None:
    """Find a better explanation for a failed query: ask the broker about its topics.

    Raises:
        PipelineError: KAFKA.DATA_LOSS, KAFKA.NO_TOPIC, KAFKA.NO_PARTITION; nothing if the broker does not answer, or
            has everything.
    """
    if not is_of_kafka(tuple(chain(error))):
        return
    for source in sources:
        try:
            lost_offsets, _ = _find_losses(context.session, flow, source, next_positions(checkpoint, source.number))
        except PipelineError as problem:
            if problem.code in ("KAFKA.NO_TOPIC", "KAFKA.NO_PARTITION"):
                raise
            continue
        if lost_offsets and source.fails_on_loss:
            raise _data_loss(flow, lost_offsets) from error


def can_repeat_last_batch(
    context: UpdateContext, flow: ResolvedFlow, sources: Iterable[TopicSource], checkpoint: StoragePath
) -> bool:
    """True if the broker still has all records of the checkpoint's last batch."""
    progress = read_progress(checkpoint)
    for source in sources:
        read = {} if progress is None else positions_before(checkpoint, source.number, progress.batch_id)
        lost_offsets, _ = _find_losses(context.session, flow, source, read)
        if lost_offsets or not read:
            return False
    return True


def report_lost(context: UpdateContext, flow: ResolvedFlow, lost_offsets: Iterable[LostOffsets]) -> None:
    """Warn of offsets that a flow has lost."""
    for lost in lost_offsets:
        message = f'flow "{flow.name}": lost {lost.text}'
        facts = {"topic": lost.topic, "partition": lost.partition, "offsets": lost.offsets}
        context.reporting.emit(Warned(OFFSETS_LOST, message, flow.name, str(flow.target), Level.ERROR, facts))


def earliest_offsets(
    session: SparkSession, source: TopicSource, flow: ResolvedFlow, partitions: Iterable[Partition]
) -> dict[Partition, int]:
    """The first available offsets of partitions; deleted partitions are left out.

    Raises:
        PipelineError: why the broker does not answer.
    """
    wanted = set(partitions)
    with _admin_client(session, source.options, flow) as admin:
        available = _partitions(session, admin, {topic for topic, _ in wanted})
        return {partition: bounds.first for partition, bounds in _bounds(session, admin, wanted & available).items()}


def lost_records(
    session: SparkSession, source: TopicSource, flow: ResolvedFlow, read: Positions
) -> tuple[LostOffsets, ...]:
    """What a stream that reads on at the positions *read* would not get.

    Raises:
        PipelineError: why the broker does not answer.
    """
    with _admin_client(session, source.options, flow) as admin:
        partitions = _partitions(session, admin, {topic for topic, _ in read})
        available = _bounds(session, admin, partitions & read.keys())
    return losses(read, available)


def cached_partition_count(session: SparkSession, options: Mapping[str, str], topic: str, *, refresh: bool) -> int:
    """The number of partitions of a topic, from the cache unless *refresh* is set.

    Raises:
        PipelineError: EVENT_HUBS.NO_HUB, or why the broker does not answer.
    """
    folded = {name.casefold(): text for name, text in options.items()}
    digest = hashlib.sha256(repr((sorted(folded.items()), topic)).encode()).hexdigest()
    if refresh or digest not in _partition_counts:
        with _admin_client(session, folded, None) as admin:
            found = _partitions(session, admin, [topic])
        if not found:
            raise PipelineError("EVENT_HUBS.NO_HUB", hub=topic)
        _partition_counts[digest] = len(found)
    return _partition_counts[digest]


def _find_losses(
    session: SparkSession, flow: ResolvedFlow, source: TopicSource, read: Positions
) -> tuple[tuple[LostOffsets, ...], dict[Partition, Bounds]]:
    """The losses at the positions *read*, and the bounds of the partitions that still exist."""
    names = {*source.topics, *(topic for topic, _ in read)}
    with _admin_client(session, source.options, flow) as admin:
        partitions = _partitions(session, admin, names)
        _check_exist(flow, source, read, partitions)
        available = _bounds(session, admin, partitions & read.keys()) if read else {}
    return losses(read, available), available


def _check_exist(flow: ResolvedFlow, source: TopicSource, read: Positions, available: AbstractSet[Partition]) -> None:
    """Refuse topics and partitions that the options name, but the broker lacks."""
    missing = sorted(source.topics - {topic for topic, _ in available})
    location = flow.flow.location
    if missing:
        known = "; it was read before" if set(missing) & {topic for topic, _ in read} else ""
        named = ", ".join(f'"{name}"' for name in missing)
        raise PipelineError(
            "KAFKA.NO_TOPIC", location=location, flow=flow.name, topics=named, known=known, name=flow.target
        )
    absent = sorted(named_partitions(source.options) - available)
    if absent:
        topics = {topic for topic, _ in absent}
        raise PipelineError(
            "KAFKA.NO_PARTITION",
            location=location,
            missing=_listed(absent),
            there=_listed(sorted(known for known in available if known[0] in topics)),
        )


def _listed(partitions: Iterable[Partition]) -> str:
    return ", ".join(f'{number} of "{topic}"' for topic, number in partitions)


def _data_loss(flow: ResolvedFlow, lost_offsets: Iterable[LostOffsets]) -> PipelineError:
    lost_texts = "; ".join(lost.text for lost in lost_offsets)
    location = flow.flow.location
    return PipelineError("KAFKA.DATA_LOSS", location=location, flow=flow.name, name=flow.target, lost=lost_texts)


def _streams(node: Any) -> Iterator[Any]:
    """The streaming leaves of a plan, in the order of Spark's numbers."""
    children = list(items(node.children()))
    if not children and node.isStreaming():
        yield node
    for child in children:
        yield from _streams(child)


@contextmanager
def _admin_client(session: SparkSession, options: Mapping[str, str], flow: ResolvedFlow | None) -> Iterator[Any]:
    jvm: Any = session._jvm  # noqa: SLF001 - Kafka's client has no other form here
    settings = jvm.java.util.HashMap()
    for name, text in options.items():
        if name.startswith(PASSED_ON) and name != "kafka.group.id":
            settings.put(name.removeprefix(PASSED_ON), text)
    timeout_ms = _timeout_ms(options)
    settings.put("default.api.timeout.ms", str(timeout_ms))
    settings.put("request.timeout.ms", str(timeout_ms // 2))
    admin = None
    try:
        admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(settings)
        yield admin
    except Py4JJavaError as error:
        problem = kafka_problem(tuple(chain(error)), flow.flow if flow else None)
        if problem is None:
            raise
        raise problem.error from error
    finally:
        if admin is not None:
            admin.close(jvm.java.time.Duration.ofSeconds(1))


def _timeout_ms(options: Mapping[str, str]) -> int:
    """The timeout of requests: that of the client's options, but 15 s at most."""
    given = options.get("kafka.default.api.timeout.ms", "").strip()
    return min(int(given), _MAX_TIMEOUT_MS) if given.isdecimal() and int(given) > 1 else _MAX_TIMEOUT_MS


def _partitions(session: SparkSession, admin: Any, topics: Iterable[str]) -> set[Partition]:
    """The partitions of those topics that exist."""
    jvm: Any = session._jvm  # noqa: SLF001 - the same
    requested = jvm.java.util.HashSet()
    for topic in topics:
        requested.add(topic)
    results = admin.describeTopics(requested).topicNameValues()
    found = set()
    for topic in results:
        try:
            described = results[topic].get()
        except Py4JJavaError as error:
            if any(cause.java_class.endswith(_NO_SUCH_TOPIC) for cause in chain(error)):
                continue
            raise
        found |= {(str(topic), int(one.partition())) for one in described.partitions()}
    return found


def _bounds(session: SparkSession, admin: Any, partitions: Iterable[Partition]) -> dict[Partition, Bounds]:
    jvm: Any = session._jvm  # noqa: SLF001 - the same
    spec = jvm.org.apache.kafka.clients.admin.OffsetSpec
    topic_partitions = {partition: jvm.org.apache.kafka.common.TopicPartition(*partition) for partition in partitions}
    first, last = jvm.java.util.HashMap(), jvm.java.util.HashMap()
    for topic_partition in topic_partitions.values():
        first.put(topic_partition, spec.earliest())
        last.put(topic_partition, spec.latest())
    firsts, ends = admin.listOffsets(first), admin.listOffsets(last)
    return {
        name: Bounds(int(firsts.partitionResult(found).get().offset()), int(ends.partitionResult(found).get().offset()))
        for name, found in topic_partitions.items()
    }
