"""The options of Spark's Kafka source: checked by name, with readable times turned into Spark's milliseconds.

Source of names, defaults and rules: Spark 4.2's ``KafkaSourceProvider`` and its guide of the Kafka integration. Spark
passes over an option that it does not know; here it is an error, because a limit that is misspelled is no limit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.model.triggers import parse_interval_s
from headrace.sources.kafka_offsets import Partition
from headrace.sources.option_reading import (
    GivenOptions,
    Kind,
    Reads,
    SourceFormat,
    SourceOption,
    read_options,
    refused,
    time_ms,
)

PASSED_ON = "kafka."
SERVERS = "kafka.bootstrap.servers"
TOPICS = ("subscribe", "subscribePattern", "assign")
# Spark decides about these itself, and would refuse them only when the query starts.
NOT_OF_CLIENT = (
    refused(
        "kafka.auto.offset.reset", "The source sets it", "Set the starting position with the options of the source"
    ),
    refused("kafka.key.deserializer", "Keys are always bytes", "Convert the column in the query"),
    refused("kafka.value.deserializer", "Values are always bytes", "Convert the column in the query"),
    refused("kafka.enable.auto.commit", "Progress is stored in the flow's checkpoint", "Remove it"),
    refused("kafka.interceptor.classes", "Interceptors may change records", "Change the columns in the query"),
)
# Those that Event Hubs has too, of the same meaning.
SHARED = (
    SourceOption("failOnDataLoss", Kind.SWITCH, "Fail the stream if data was deleted before it was read", "true"),
    SourceOption("minPartitions", Kind.COUNT, "Minimum number of tasks that read a batch"),
    SourceOption("maxRecordsPerPartition", Kind.COUNT, "Maximum number of offsets per task"),
)
_VENDORS = ("It is a service of Databricks", "Use kafka.sasl.jaas.config")
FORMAT = SourceFormat(
    "kafka",
    (
        SourceOption(
            SERVERS, Kind.TEXT, "Brokers for the first connection: `host:9092`, separated by commas", required=True
        ),
        SourceOption(
            "subscribe",
            Kind.TEXT,
            "Topics, separated by commas. Set exactly one of `subscribe`, `subscribePattern` and `assign`",
        ),
        SourceOption("subscribePattern", Kind.TEXT, "Java regular expression for topic names"),
        SourceOption("assign", Kind.JSON, 'Partitions, such as `{"orders": [0, 1]}`'),
        SourceOption(
            "startingOffsets",
            Kind.OFFSETS,
            'Where a new stream starts. JSON: `{"orders": {"0": 23, "1": -2}}`; -2 is earliest, -1 is latest',
            "`latest`; for a batch read `earliest`",
        ),
        SourceOption(
            "startingTimestamp",
            Kind.MILLISECONDS,
            "Start each partition at its first record at or after this time. Overrides `startingOffsets`",
        ),
        SourceOption(
            "startingOffsetsByTimestamp",
            Kind.JSON,
            'The same, per partition: `{"orders": {"0": "2026-01-01T00:00:00Z"}}`',
        ),
        SourceOption(
            "startingOffsetsByTimestampStrategy",
            Kind.TEXT,
            "What to do if a partition has no record at or after this time",
            "error",
            values=("error", "latest"),
        ),
        SourceOption("endingOffsets", Kind.OFFSETS, "Where the read ends", "`latest`", reads=Reads.BATCHES),
        SourceOption(
            "endingTimestamp",
            Kind.MILLISECONDS,
            "End each partition before its first record at or after this time",
            reads=Reads.BATCHES,
        ),
        SourceOption("endingOffsetsByTimestamp", Kind.JSON, "The same, per partition", reads=Reads.BATCHES),
        SourceOption(
            "maxOffsetsPerTrigger",
            Kind.COUNT,
            "Maximum number of offsets per batch, divided among partitions in proportion to their backlog",
            reads=Reads.STREAMS,
        ),
        SourceOption("minOffsetsPerTrigger", Kind.COUNT, "Minimum number of offsets per batch", reads=Reads.STREAMS),
        SourceOption(
            "maxTriggerDelay",
            Kind.TEXT,
            "Maximum wait for `minOffsetsPerTrigger`, such as `10 min`",
            "15m",
            reads=Reads.STREAMS,
        ),
        *SHARED,
        SourceOption("includeHeaders", Kind.SWITCH, "Add the column `headers`", "false"),
        SourceOption("groupIdPrefix", Kind.TEXT, "Prefix of the consumer group IDs", "spark-kafka-source"),
        SourceOption("kafkaConsumer.pollTimeoutMs", Kind.COUNT, "Milliseconds that a task waits for records", "120000"),
        SourceOption("fetchOffset.numRetries", Kind.COUNT, "Number of retries to fetch offsets", "3"),
        SourceOption("fetchOffset.retryIntervalMs", Kind.WHOLE, "Milliseconds between these retries", "1000"),
        *NOT_OF_CLIENT,
        refused("databricks.serviceCredential", *_VENDORS),
        refused("serviceCredential", *_VENDORS),
    ),
    page="docs/reference/kafka.md",
    passed_on=PASSED_ON,
)
# Options of ours that go along with those of Spark's source, which passes over them: which format the reader was asked
# for, and what has no effect.
_FORMAT_OPTION, _INERT_OPTION = "headrace.format", "headrace.without_effect"
_SPARKS_DELAY = re.compile(r"\d{1,15}(us|ms|s|m|min|h|d)?")
_EARLIEST, _LATEST = -2, -1


@dataclass(frozen=True)
class TopicOptions:
    """What Spark's source is given, which may hold secrets, and which options have no effect, each with the reason."""

    options: Mapping[str, str] = field(repr=False)
    without_effect: tuple[tuple[str, str], ...] = ()

    def described(self, name: str) -> dict[str, str]:
        """The options for Spark's reader, which say too by which format they were asked for."""
        return {**self.options, _FORMAT_OPTION: name, _INERT_OPTION: json.dumps(self.without_effect)}


def kafka_options(given: Mapping[str, Any], *, streaming: bool, time_zone: str) -> TopicOptions:
    """The options for Spark's source; readable times are milliseconds, those of Kafka's client are as they were given.

    Args:
        given: the reader's options, names in any case.
        streaming: whether a stream is read; a batch takes other options.
        time_zone: of times that say none.

    Raises:
        Problems: each option that is unknown, refused or has no such value; topics or servers that are missing.
    """
    found = read_options(FORMAT, given, time_zone=time_zone, streams=streaming)
    options = {**found.passed_on, **{name: text_for_spark(found, name) for name in found.values}}
    for name in ("startingOffsetsByTimestamp", "endingOffsetsByTimestamp"):
        if name in found.values:
            options[name] = _times(found, name, time_zone)
    if "maxTriggerDelay" in found.values:
        options["maxTriggerDelay"] = _delay(found)
    _check_topics(found)
    _check_together(found, streaming=streaming)
    found.check()
    return TopicOptions(options, found.without_effect())


def text_for_spark(found: GivenOptions, name: str) -> str:
    """The value of an option as Spark's source reads it."""
    value = found.values[name]
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else found.texts[name].strip()


def topics_text(options: Mapping[str, str]) -> str:
    """What a source reads, for people: its format and topics, without servers or credentials."""
    texts = {name.casefold(): text for name, text in options.items()}
    kind = texts.get(_FORMAT_OPTION, FORMAT.name)
    if "subscribepattern" in texts:
        return f"{kind} topics like {texts['subscribepattern'].strip()}"
    return f"{kind} {', '.join(sorted(topics_named(options)))}"


def topics_named(options: Mapping[str, str]) -> frozenset[str]:
    """The topics that the options of a source name; none when they are chosen by a pattern."""
    texts = {name.casefold(): text for name, text in options.items()}
    try:
        names = json.loads(texts["assign"]) if "assign" in texts else texts.get("subscribe", "").split(",")
    except ValueError:
        names = []
    return frozenset(name.strip() for name in names if name.strip())


def partitions_named(options: Mapping[str, str]) -> frozenset[Partition]:
    """The partitions that the option ``assign`` of a source names; none when it names topics."""
    text = next((text for name, text in options.items() if name.casefold() == "assign"), "{}")
    return frozenset((topic, number) for topic, numbers in json.loads(text).items() for number in numbers)


def without_effect(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What :class:`TopicOptions` has said in the options of a source."""
    texts = {name.casefold(): text for name, text in options.items()}
    return tuple((name, why) for name, why in json.loads(texts.get(_INERT_OPTION, "[]")))


def _check_topics(found: GivenOptions) -> None:
    chosen = [name for name in TOPICS if name in found.texts]
    if len(chosen) != 1:
        found.problem("KAFKA.TOPICS", given=" and ".join(chosen) or "none of them")
        return
    (name,) = chosen
    if name not in found.values:
        return
    if name == "assign" and not _is_assignment(found.values[name]):
        found.wrong(name, 'it is JSON like {"orders": [0, 1]}')
    elif name != "assign" and not found.values[name].replace(",", "").strip():
        found.wrong(name, "it names no topic")


def _check_together(found: GivenOptions, *, streaming: bool) -> None:
    for name, wrong in () if streaming else (("startingOffsets", _LATEST), ("endingOffsets", _EARLIEST)):
        word = {_LATEST: "latest", _EARLIEST: "earliest"}[wrong]
        offsets = found.get(name, {})
        places = [] if isinstance(offsets, str) else [at for topic in offsets.values() for at in topic.values()]
        if offsets == word or wrong in places:
            found.wrong(name, f"a batch that {'begins' if wrong == _LATEST else 'ends'} there has no records")
    least, most = found.get("minOffsetsPerTrigger", 0), found.get("maxOffsetsPerTrigger")
    if most is not None and least > most:
        found.wrong("minOffsetsPerTrigger", "it is above maxOffsetsPerTrigger")
    if "kafka.group.id" in found.passed_on and "groupIdPrefix" in found.values:
        found.wrong("groupIdPrefix", "kafka.group.id says the whole name: keep one of the two")


def _is_assignment(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and all(
            isinstance(numbers, list) and numbers and all(type(number) is int and number >= 0 for number in numbers)
            for numbers in value.values()
        )
    )


def _times(found: GivenOptions, name: str, time_zone: str) -> str:
    try:
        topics = {
            topic: {str(int(number)): time_ms(str(moment), time_zone) for number, moment in partitions.items()}
            for topic, partitions in found.values[name].items()
        }
    except (ValueError, AttributeError):
        found.wrong(name, 'it is JSON like {"orders": {"0": "2026-01-01T00:00:00Z"}}')
        return ""
    return json.dumps(topics)


def _delay(found: GivenOptions) -> str:
    text = found.values["maxTriggerDelay"].strip()
    if _SPARKS_DELAY.fullmatch(text):
        return str(text)
    try:
        return f"{round(parse_interval_s(text) * 1000)}ms"
    except ValueError:
        found.wrong("maxTriggerDelay", 'it is a number with a unit, such as "10 min"')
        return ""
