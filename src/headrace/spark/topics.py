"""Asks a Kafka broker about the topics that a query reads, with the client that Spark's own source brings."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import DataFrame, SparkSession

from headrace.checkpoints.topic_positions import next_positions
from headrace.errors import PipelineError
from headrace.events.types import Warned
from headrace.graph.resolved import ResolvedFlow
from headrace.sources.kafka_offsets import Bounds, Partition, losses
from headrace.sources.kafka_options import PASSED_ON, topics_named
from headrace.spark.causes import chain
from headrace.spark.kafka_failures import kafka_problem
from headrace.spark.plans import analyzed, items, node_kind
from headrace.spark.surroundings import Surroundings

_SOURCE = "kafka"
_PATIENCE_MS = 15_000


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
    """The Kafka sources of a streaming query, numbered as its checkpoint numbers them."""
    found = []
    for number, node in enumerate(_streams(analyzed(frame))):
        if node_kind(node) == "StreamingRelationV2" and str(node.sourceName()) == _SOURCE:
            entries = node.extraOptions().asCaseSensitiveMap()
            found.append(TopicSource(number, {str(key).casefold(): str(entries[key]) for key in entries}))
    return tuple(found)


def check_topics(
    around: Surroundings, flow: ResolvedFlow, sources: Iterable[TopicSource], checkpoint: Path, *, warns: bool
) -> None:
    """Look whether the broker still has what the flow reads next.

    Where the stream is told to go on without, offsets that are gone are said in a warning for each partition, if it
    *warns*: once, before the stream starts.

    Raises:
        PipelineError: KAFKA.DATA_LOSS, KAFKA.NO_TOPIC, or why the broker does not answer.
    """
    for source in sources:
        read = next_positions(checkpoint, source.number)
        names = {*source.topics, *(topic for topic, _ in read)}
        with _asking(around.session, source.options, flow) as admin:
            partitions = _partitions(around.session, admin, names)
            missing = sorted(source.topics - {topic for topic, _ in partitions})
            if missing:
                last = {topic: position for (topic, _), position in read.items()}
                known = "; it was read before" if set(missing) & set(last) else ""
                raise PipelineError(
                    "KAFKA.NO_TOPIC",
                    location=flow.flow.location,
                    flow=flow.name,
                    topics=", ".join(f'"{name}"' for name in missing),
                    known=known,
                    name=flow.target,
                )
            gone = losses(read, _bounds(around.session, admin, partitions & read.keys())) if read else ()
        if not gone:
            continue
        said = "; ".join(lost.text for lost in gone)
        if source.fails_on_loss:
            place, name = flow.flow.location, flow.target
            raise PipelineError("KAFKA.DATA_LOSS", location=place, flow=flow.name, name=name, lost=said)
        for lost in gone if warns else ():
            message = f'flow "{flow.name}": lost {lost.text}'
            around.emit(Warned("KAFKA.OFFSETS_LOST", message, flow.name, str(flow.target)))


def partitions_of_topic(session: SparkSession, options: Mapping[str, str], topic: str) -> int:
    """How many partitions a topic has.

    Raises:
        PipelineError: the topic is not there, or why the broker does not answer.
    """
    folded = {name.casefold(): text for name, text in options.items()}
    with _asking(session, folded, None) as admin:
        found = _partitions(session, admin, [topic])
    if not found:
        named = f'"{topic}"'
        raise PipelineError("KAFKA.NO_TOPIC", flow="", topics=named, known="", name="")
    return len(found)


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
    settings.put("default.api.timeout.ms", str(_PATIENCE_MS))
    settings.put("request.timeout.ms", str(_PATIENCE_MS // 2))
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
            if any(cause.java_class.endswith(".UnknownTopicOrPartitionException") for cause in chain(error)):
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
