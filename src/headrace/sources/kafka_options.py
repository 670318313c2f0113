"""The options of Spark's Kafka source: checks names, and converts readable times to Spark's milliseconds.

Source of names, defaults and rules: Spark 4.2's ``KafkaSourceProvider`` and its Kafka integration guide. Spark ignores
unknown options. Here they are errors, because a misspelled limit does not limit.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.model.triggers import parse_interval_s
from headrace.options.option import Kind, Option, OptionTable, ReadMode, refused
from headrace.options.parse import ParsedOptions, parse_options
from headrace.options.values import time_ms
from headrace.sources.kafka_offsets import Partition

PASSED_ON = "kafka."
SERVERS = "kafka.bootstrap.servers"
TOPICS = ("subscribe", "subscribePattern", "assign")
# Spark sets these itself, and would refuse them only when the query starts.
REFUSED_CLIENT_OPTIONS = (
    refused(
        "kafka.auto.offset.reset", "The source sets it", "Set the starting position with the options of the source"
    ),
    refused("kafka.key.deserializer", "Keys are always bytes", "Convert the column in the query"),
    refused("kafka.value.deserializer", "Values are always bytes", "Convert the column in the query"),
    refused("kafka.enable.auto.commit", "Progress is stored in the flow's checkpoint", "Remove it"),
    refused("kafka.interceptor.classes", "Interceptors may change records", "Change the columns in the query"),
)
# Options that Event Hubs has too, with the same meaning.
SHARED_OPTIONS = (
    Option("failOnDataLoss", Kind.BOOLEAN, "Fail the stream if data was deleted before it was read", "true"),
    Option("minPartitions", Kind.POSITIVE_INTEGER, "Minimum number of tasks that read a batch"),
    Option("maxRecordsPerPartition", Kind.POSITIVE_INTEGER, "Maximum number of offsets per task"),
)
_VENDORS = ("It is a Databricks service", "Use kafka.sasl.jaas.config")
FORMAT = OptionTable(
    "kafka",
    (
        Option(SERVERS, Kind.TEXT, "Brokers for the first connection: `host:9092`, separated by commas", required=True),
        Option(
            "subscribe",
            Kind.TEXT,
            "Topics, separated by commas. Set exactly one of `subscribe`, `subscribePattern` and `assign`",
        ),
        Option("subscribePattern", Kind.TEXT, "Java regular expression for topic names"),
        Option("assign", Kind.JSON, 'Partitions, such as `{"orders": [0, 1]}`'),
        Option(
            "startingOffsets",
            Kind.OFFSETS,
            'Where a new stream starts. JSON: `{"orders": {"0": 23, "1": -2}}`; -2 is earliest, -1 is latest',
            "`latest`; for a batch read `earliest`",
        ),
        Option(
            "startingTimestamp",
            Kind.MILLISECONDS,
            "Start each partition at its first record at or after this time. Overrides `startingOffsets`",
        ),
        Option(
            "startingOffsetsByTimestamp",
            Kind.JSON,
            'The same, per partition: `{"orders": {"0": "2026-01-01T00:00:00Z"}}`',
        ),
        Option(
            "startingOffsetsByTimestampStrategy",
            Kind.TEXT,
            "What to do if a partition has no record at or after this time",
            "error",
            values=("error", "latest"),
        ),
        Option("endingOffsets", Kind.OFFSETS, "Where the read ends", "`latest`", read_mode=ReadMode.BATCHES),
        Option(
            "endingTimestamp",
            Kind.MILLISECONDS,
            "End each partition before its first record at or after this time",
            read_mode=ReadMode.BATCHES,
        ),
        Option("endingOffsetsByTimestamp", Kind.JSON, "The same, per partition", read_mode=ReadMode.BATCHES),
        Option(
            "maxOffsetsPerTrigger",
            Kind.POSITIVE_INTEGER,
            "Maximum number of offsets per batch, divided among partitions in proportion to their backlog",
            read_mode=ReadMode.STREAMS,
        ),
        Option(
            "minOffsetsPerTrigger",
            Kind.POSITIVE_INTEGER,
            "Minimum number of offsets per batch",
            read_mode=ReadMode.STREAMS,
        ),
        Option(
            "maxTriggerDelay",
            Kind.TEXT,
            "Maximum wait for `minOffsetsPerTrigger`, such as `10 min`",
            "15m",
            read_mode=ReadMode.STREAMS,
        ),
        *SHARED_OPTIONS,
        Option("includeHeaders", Kind.BOOLEAN, "Add the column `headers`", "false"),
        Option("groupIdPrefix", Kind.TEXT, "Prefix of the consumer group IDs", "spark-kafka-source"),
        Option(
            "kafkaConsumer.pollTimeoutMs", Kind.POSITIVE_INTEGER, "Milliseconds that a task waits for records", "120000"
        ),
        Option("fetchOffset.numRetries", Kind.POSITIVE_INTEGER, "Number of retries to fetch offsets", "3"),
        Option("fetchOffset.retryIntervalMs", Kind.INTEGER, "Milliseconds between these retries", "1000"),
        *REFUSED_CLIENT_OPTIONS,
        refused("databricks.serviceCredential", *_VENDORS),
        refused("serviceCredential", *_VENDORS),
    ),
    page="docs/reference/kafka.md",
    passed_on=PASSED_ON,
)
# Our own options among those of Spark's source, which ignores them: the reader's format, and its ignored options.
_FORMAT_OPTION, _IGNORED_OPTION = "headrace.format", "headrace.without_effect"
_SPARK_DELAY = re.compile(r"\d{1,15}(us|ms|s|m|min|h|d)?")
_EARLIEST, _LATEST = -2, -1


@dataclass(frozen=True)
class TopicOptions:
    """The options for Spark's source, which may hold secrets, and the ignored options, each with the reason."""

    options: Mapping[str, str] = field(repr=False)
    without_effect: tuple[tuple[str, str], ...] = ()

    def for_reader(self, name: str) -> dict[str, str]:
        """The options for Spark's reader, which also record the format *name*."""
        return {**self.options, _FORMAT_OPTION: name, _IGNORED_OPTION: json.dumps(self.without_effect)}


def kafka_options(given: Mapping[str, Any], *, streaming: bool, time_zone: str) -> TopicOptions:
    """The options for Spark's source: readable times become milliseconds, options of Kafka's client stay unchanged.

    Args:
        given: the reader's options; names are case-insensitive.
        streaming: whether a stream is read; a batch has other options.
        time_zone: of times without a zone.

    Raises:
        Problems: each option that is unknown, refused or invalid; missing topics or servers.
    """
    parsed = parse_options(FORMAT, given, time_zone=time_zone, streaming=streaming)
    options = {**parsed.passed_on, **{name: text_for_spark(parsed, name) for name in parsed.values}}
    for name in ("startingOffsetsByTimestamp", "endingOffsetsByTimestamp"):
        if name in parsed.values:
            options[name] = _times(parsed, name, time_zone)
    if "maxTriggerDelay" in parsed.values:
        options["maxTriggerDelay"] = _delay(parsed)
    _check_topics(parsed)
    _check_combinations(parsed, streaming=streaming)
    parsed.check()
    return TopicOptions(options, parsed.without_effect())


def text_for_spark(parsed: ParsedOptions, name: str) -> str:
    """The value of an option in the form that Spark's source reads."""
    value = parsed.values[name]
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else parsed.texts[name].strip()


def describe_topics(options: Mapping[str, str]) -> str:
    """A source for people: its format and topics, without servers or credentials."""
    texts = {name.casefold(): text for name, text in options.items()}
    kind = texts.get(_FORMAT_OPTION, FORMAT.name)
    if "subscribepattern" in texts:
        return f"{kind} topics like {texts['subscribepattern'].strip()}"
    return f"{kind} {', '.join(sorted(named_topics(options)))}"


def named_topics(options: Mapping[str, str]) -> frozenset[str]:
    """The topics that a source's options name; empty if a pattern selects them."""
    texts = {name.casefold(): text for name, text in options.items()}
    try:
        names = json.loads(texts["assign"]) if "assign" in texts else texts.get("subscribe", "").split(",")
    except ValueError:
        names = []
    return frozenset(name.strip() for name in names if name.strip())


def named_partitions(options: Mapping[str, str]) -> frozenset[Partition]:
    """The partitions that a source's option ``assign`` names; empty without it."""
    text = next((text for name, text in options.items() if name.casefold() == "assign"), "{}")
    return frozenset((topic, number) for topic, numbers in json.loads(text).items() for number in numbers)


def without_effect(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The ignored options that :meth:`TopicOptions.for_reader` has recorded in a source's options."""
    texts = {name.casefold(): text for name, text in options.items()}
    return tuple((name, why) for name, why in json.loads(texts.get(_IGNORED_OPTION, "[]")))


def _check_topics(parsed: ParsedOptions) -> None:
    chosen = [name for name in TOPICS if name in parsed.texts]
    if len(chosen) != 1:
        parsed.add_problem("KAFKA.TOPICS", given=" and ".join(chosen) or "none of them")
        return
    (name,) = chosen
    if name not in parsed.values:
        return
    if name == "assign" and not _is_assignment(parsed.values[name]):
        parsed.reject(name, 'use JSON such as {"orders": [0, 1]}')
    elif name != "assign" and not parsed.values[name].replace(",", "").strip():
        parsed.reject(name, "name at least one topic")


def _check_combinations(parsed: ParsedOptions, *, streaming: bool) -> None:
    for name, wrong in () if streaming else (("startingOffsets", _LATEST), ("endingOffsets", _EARLIEST)):
        word = {_LATEST: "latest", _EARLIEST: "earliest"}[wrong]
        offsets = parsed.get(name, {})
        positions = (
            [] if isinstance(offsets, str) else [position for topic in offsets.values() for position in topic.values()]
        )
        if offsets == word or wrong in positions:
            parsed.reject(name, f"a batch that {'begins' if wrong == _LATEST else 'ends'} there has no records")
    minimum, maximum = parsed.get("minOffsetsPerTrigger", 0), parsed.get("maxOffsetsPerTrigger")
    if maximum is not None and minimum > maximum:
        parsed.reject("minOffsetsPerTrigger", "it is greater than maxOffsetsPerTrigger")
    if "kafka.group.id" in parsed.passed_on and "groupIdPrefix" in parsed.values:
        parsed.reject("groupIdPrefix", "kafka.group.id already sets the full name; keep only one of the two")


def _is_assignment(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and bool(value)
        and all(
            isinstance(numbers, list) and numbers and all(type(number) is int and number >= 0 for number in numbers)
            for numbers in value.values()
        )
    )


def _times(parsed: ParsedOptions, name: str, time_zone: str) -> str:
    try:
        topics = {
            topic: {str(int(number)): time_ms(str(moment), time_zone) for number, moment in partitions.items()}
            for topic, partitions in parsed.values[name].items()
        }
    except (ValueError, AttributeError):
        parsed.reject(name, 'use JSON such as {"orders": {"0": "2026-01-01T00:00:00Z"}}')
        return ""
    return json.dumps(topics)


def _delay(parsed: ParsedOptions) -> str:
    text = parsed.values["maxTriggerDelay"].strip()
    if _SPARK_DELAY.fullmatch(text):
        return str(text)
    try:
        return f"{round(parse_interval_s(text) * 1000)}ms"
    except ValueError:
        parsed.reject("maxTriggerDelay", 'use a number with a unit, such as "10 min"')
        return ""
