"""Asks a Kafka broker about the topics that a query reads, with the client that Spark's own source brings."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from headrace.checkpoints.offsets import read_progress
from headrace.checkpoints.topic_offsets import next_positions, planned_positions, positions_before
from headrace.errors import PipelineError
from headrace.events.types import Warned
from headrace.graph.resolved import ResolvedFlow
from headrace.sources.kafka_offsets import Bounds, Lost, Partition, Positions, Told, losses
from headrace.sources.kafka_options import PASSED_ON, partitions_named, topics_named
from headrace.spark.analysis.plans import analyzed
from headrace.spark.errors.kafka_errors import is_of_kafka, kafka_problem
from headrace.spark.jvm.causes import chain
from headrace.spark.jvm.plan_nodes import items, node_kind
from headrace.spark.update.context import UpdateContext

_SOURCE = "kafka"
_PATIENCE_MS = 15_000
_NO_SUCH_TOPIC = (".UnknownTopicOrPartitionException", ".InvalidTopicException")
# How many partitions a topic had when a query was looked at, by a digest of the client's options and the topic. What
# is run a little later does not ask again, because others wait for it.
_counted: dict[str, int] = {}


@dataclass(frozen=True)
class TopicSource:
    """One Kafka source of a query: which of its sources it is, and its options, which may hold secrets."""

    number: int
    options: Mapping[str, str] = field(repr=False)

    @property
    def topics(self) -> frozenset[str]:
        """The topics that the options name."""
        return topics_named(self.options)

    @property
    def fails_on_loss(self) -> bool:
        """Whether offsets that are gone end the stream."""
        return self.options.get("failondataloss", "true").strip().casefold() != "false"


def topic_sources(frame: DataFrame) -> tuple[TopicSource, ...]:
    """The Kafka sources of a streaming query, numbered as its checkpoint numbers them.

    One that is read twice is one source (``MicroBatchExecution.logicalPlan``).
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
    context: UpdateContext, flow: ResolvedFlow, sources: Iterable[TopicSource], checkpoint: Path
) -> dict[int, Told]:
    """Look whether the broker still has what the flow reads next, before it starts.

    Where the stream is told to go on without, offsets that are gone are said in a warning for each partition; what
    comes back is what was said, by the number of the source.

    Raises:
        PipelineError: KAFKA.DATA_LOSS, KAFKA.NO_TOPIC, KAFKA.NO_PARTITION, or why the broker does not answer.
    """
    told: dict[int, Told] = {}
    for source in sources:
        read = next_positions(checkpoint, source.number)
        gone, there = _look(context.session, flow, source, read)
        if gone and source.fails_on_loss:
            raise _data_loss(flow, gone)
        tell_lost(context, flow, gone)
        told[source.number] = Told.of(read, planned_positions(checkpoint, source.number), there)
    return told


def count_partitions(session: SparkSession, flow: ResolvedFlow, source: TopicSource) -> int:
    """How many partitions the topics have that the options name; 0 for a pattern.

    Raises:
        PipelineError: why the broker does not answer.
    """
    with _asking(session, source.options, flow) as admin:
        return len(_partitions(session, admin, source.topics))


def explain_failure(
    context: UpdateContext, flow: ResolvedFlow, sources: Iterable[TopicSource], checkpoint: Path, error: Exception
) -> None:
    """Ask the broker what has become of a topic, when a running query failed because of it: it knows better.

    Raises:
        PipelineError: KAFKA.DATA_LOSS, KAFKA.NO_TOPIC, KAFKA.NO_PARTITION; nothing when the broker does not answer, or
            says otherwise.
    """
    if not is_of_kafka(tuple(chain(error))):
        return
    for source in sources:
        try:
            gone, _ = _look(context.session, flow, source, next_positions(checkpoint, source.number))
        except PipelineError as problem:
            if problem.code in ("KAFKA.NO_TOPIC", "KAFKA.NO_PARTITION"):
                raise
            continue
        if gone and source.fails_on_loss:
            raise _data_loss(flow, gone) from error


def can_repeat_last_batch(
    context: UpdateContext, flow: ResolvedFlow, sources: Iterable[TopicSource], checkpoint: Path
) -> bool:
    """Whether the broker still has all that the last batch of a checkpoint has read of topics."""
    progress = read_progress(checkpoint)
    for source in sources:
        read = {} if progress is None else positions_before(checkpoint, source.number, progress.batch_id)
        gone, _ = _look(context.session, flow, source, read)
        if gone or not read:
            return False
    return True


def tell_lost(context: UpdateContext, flow: ResolvedFlow, gone: Iterable[Lost]) -> None:
    """Warn of what a flow goes on without."""
    for lost in gone:
        message = f'flow "{flow.name}": lost {lost.text}'
        context.emit(Warned("KAFKA.OFFSETS_LOST", message, flow.name, str(flow.target)))


def first_left(
    session: SparkSession, source: TopicSource, flow: ResolvedFlow, partitions: Iterable[Partition]
) -> dict[Partition, int]:
    """The first offsets that the broker has of partitions; those that are gone are left out.

    Raises:
        PipelineError: why the broker does not answer.
    """
    wanted = set(partitions)
    with _asking(session, source.options, flow) as admin:
        there = _partitions(session, admin, {topic for topic, _ in wanted})
        return {place: bounds.first for place, bounds in _bounds(session, admin, wanted & there).items()}


def partitions_of_topic(session: SparkSession, options: Mapping[str, str], topic: str, *, again: bool) -> int:
    """How many partitions a topic has; *again* asks although it is known.

    Raises:
        PipelineError: EVENT_HUBS.NO_HUB, or why the broker does not answer.
    """
    folded = {name.casefold(): text for name, text in options.items()}
    digest = hashlib.sha256(repr((sorted(folded.items()), topic)).encode()).hexdigest()
    if again or digest not in _counted:
        with _asking(session, folded, None) as admin:
            found = _partitions(session, admin, [topic])
        if not found:
            raise PipelineError("EVENT_HUBS.NO_HUB", hub=topic)
        _counted[digest] = len(found)
    return _counted[digest]


def _look(
    session: SparkSession, flow: ResolvedFlow, source: TopicSource, read: Positions
) -> tuple[tuple[Lost, ...], dict[Partition, Bounds]]:
    """What of the positions is gone, and the bounds of their partitions that are there."""
    names = {*source.topics, *(topic for topic, _ in read)}
    with _asking(session, source.options, flow) as admin:
        partitions = _partitions(session, admin, names)
        _check_there(flow, source, read, partitions)
        there = _bounds(session, admin, partitions & read.keys()) if read else {}
    return losses(read, there), there


def _check_there(flow: ResolvedFlow, source: TopicSource, read: Positions, there: AbstractSet[Partition]) -> None:
    """Refuse topics and partitions that the options name and the broker has not."""
    missing = sorted(source.topics - {topic for topic, _ in there})
    place = flow.flow.location
    if missing:
        known = "; it was read before" if set(missing) & {topic for topic, _ in read} else ""
        named = ", ".join(f'"{name}"' for name in missing)
        raise PipelineError(
            "KAFKA.NO_TOPIC", location=place, flow=flow.name, topics=named, known=known, name=flow.target
        )
    absent = sorted(partitions_named(source.options) - there)
    if absent:
        topics = {topic for topic, _ in absent}
        raise PipelineError(
            "KAFKA.NO_PARTITION",
            location=place,
            missing=_listed(absent),
            there=_listed(sorted(known for known in there if known[0] in topics)),
        )


def _listed(partitions: Iterable[Partition]) -> str:
    return ", ".join(f'{number} of "{topic}"' for topic, number in partitions)


def _data_loss(flow: ResolvedFlow, gone: Iterable[Lost]) -> PipelineError:
    said = "; ".join(lost.text for lost in gone)
    place = flow.flow.location
    return PipelineError("KAFKA.DATA_LOSS", location=place, flow=flow.name, name=flow.target, lost=said)


def _streams(node: Any) -> Iterator[Any]:
    """The streaming leaves of a plan, in the order in which Spark numbers them."""
    children = list(items(node.children()))
    if not children and node.isStreaming():
        yield node
    for child in children:
        yield from _streams(child)


@contextmanager
def _asking(session: SparkSession, options: Mapping[str, str], flow: ResolvedFlow | None) -> Iterator[Any]:
    jvm: Any = session._jvm  # noqa: SLF001 - Kafka's client has no other form here
    settings = jvm.java.util.HashMap()
    for name, text in options.items():
        if name.startswith(PASSED_ON) and name != "kafka.group.id":
            settings.put(name.removeprefix(PASSED_ON), text)
    patience_ms = _patience_ms(options)
    settings.put("default.api.timeout.ms", str(patience_ms))
    settings.put("request.timeout.ms", str(patience_ms // 2))
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


def _patience_ms(options: Mapping[str, str]) -> int:
    """How long the broker may take: as long as the options let the client wait, but for 15 s at most."""
    given = options.get("kafka.default.api.timeout.ms", "").strip()
    return min(int(given), _PATIENCE_MS) if given.isdecimal() and int(given) > 1 else _PATIENCE_MS


def _partitions(session: SparkSession, admin: Any, topics: Iterable[str]) -> set[Partition]:
    """The partitions of those topics that are there."""
    jvm: Any = session._jvm  # noqa: SLF001 - the same
    asked = jvm.java.util.HashSet()
    for topic in topics:
        asked.add(topic)
    answers = admin.describeTopics(asked).topicNameValues()
    found = set()
    for topic in answers:
        try:
            described = answers[topic].get()
        except Py4JJavaError as error:
            if any(cause.java_class.endswith(_NO_SUCH_TOPIC) for cause in chain(error)):
                continue
            raise
        found |= {(str(topic), int(one.partition())) for one in described.partitions()}
    return found


def _bounds(session: SparkSession, admin: Any, partitions: Iterable[Partition]) -> dict[Partition, Bounds]:
    jvm: Any = session._jvm  # noqa: SLF001 - the same
    spec = jvm.org.apache.kafka.clients.admin.OffsetSpec
    places = {place: jvm.org.apache.kafka.common.TopicPartition(*place) for place in partitions}
    first, last = jvm.java.util.HashMap(), jvm.java.util.HashMap()
    for place in places.values():
        first.put(place, spec.earliest())
        last.put(place, spec.latest())
    firsts, ends = admin.listOffsets(first), admin.listOffsets(last)
    return {
        name: Bounds(int(firsts.partitionResult(place).get().offset()), int(ends.partitionResult(place).get().offset()))
        for name, place in places.items()
    }
