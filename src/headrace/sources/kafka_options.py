"""The options of Spark's Kafka source: checked by name, with readable times turned into Spark's milliseconds.

Source of names, defaults and rules: Spark 4.2's ``KafkaSourceProvider`` and its guide of the Kafka integration. Spark
passes over an option that it does not know; here it is an error, because a limit that is misspelled is no limit.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from headrace.errors import PipelineError, Problems
from headrace.settings.check import nearest

PASSED_ON = "kafka."
TOPICS = ("assign", "subscribe", "subscribePattern")
SERVERS = "kafka.bootstrap.servers"


@dataclass(frozen=True)
class KafkaOption:
    """One option of the reader; ``reads`` says whether a stream, a batch or both take it."""

    name: str
    about: str
    default: str = ""
    reads: str = "both"


OPTIONS = tuple(
    KafkaOption(*row)
    for row in (
        ("subscribe", "Topics, separated by commas"),
        ("subscribePattern", "A Java pattern that the names of topics match"),
        ("assign", 'Partitions as JSON: `{"orders": [0, 1]}`'),
        (
            "startingOffsets",
            'Where to begin: `earliest`, `latest`, or JSON: `{"orders": {"0": 23, "1": -2}}`',
            "`latest`",
        ),
        ("startingTimestamp", "Begin with the first record of this time or later, in every partition"),
        ("startingOffsetsByTimestamp", "The same for each partition, as JSON"),
        ("startingOffsetsByTimestampStrategy", "What if no record is so late: `error` or `latest`", "`error`"),
        ("endingOffsets", "Where to end, as `startingOffsets`", "`latest`", "batch"),
        ("endingTimestamp", "End before the first record of this time or later", "", "batch"),
        ("endingOffsetsByTimestamp", "The same for each partition, as JSON", "", "batch"),
        ("maxOffsetsPerTrigger", "Offsets in a batch, at most, shared out in proportion", "", "stream"),
        ("minOffsetsPerTrigger", "Wait for so many", "", "stream"),
        ("maxTriggerDelay", "How long to wait for them", "`15m`", "stream"),
        ("minPartitions", "Read with so many tasks, at least"),
        ("maxRecordsPerPartition", "Offsets that a task reads, at most"),
        ("failOnDataLoss", "Whether offsets that are gone end the stream", "`true`"),
        ("includeHeaders", "Whether there is a column `headers`", "`false`"),
        ("groupIdPrefix", "What the names of consumer groups begin with", "`spark-kafka-source`"),
        ("kafkaConsumer.pollTimeoutMs", "How long a task waits for records", "`120000`"),
        ("fetchOffset.numRetries", "How often offsets are asked for again", "`3`"),
        ("fetchOffset.retryIntervalMs", "How long to wait before that", "`1000`"),
    )
)
# Spark decides about these itself, and refuses them only when the query starts.
REFUSED: Mapping[str, tuple[str, str]] = {
    "kafka.auto.offset.reset": ("where to begin is the stream's own affair", "Use startingOffsets"),
    "kafka.key.deserializer": ("keys are always bytes", "Convert the column key in the query"),
    "kafka.value.deserializer": ("values are always bytes", "Convert the column value in the query"),
    "kafka.enable.auto.commit": ("progress is in the flow's checkpoint", "Remove it"),
    "kafka.interceptor.classes": ("interceptors may change what is read", "Change it in the query"),
    "databricks.servicecredential": ("it is a service of the vendor's cloud", "Use kafka.sasl.jaas.config"),
    "servicecredential": ("it is a service of the vendor's cloud", "Use kafka.sasl.jaas.config"),
}
_BY_NAME = {option.name.casefold(): option for option in OPTIONS}
_TIMES = ("startingtimestamp", "endingtimestamp")
_TIMES_BY_PARTITION = ("startingoffsetsbytimestamp", "endingoffsetsbytimestamp")


def kafka_options(given: Mapping[str, Any], *, streaming: bool, time_zone: str) -> dict[str, str]:
    """The options for Spark's source; readable times are milliseconds, everything else is as it was given.

    Args:
        given: the reader's options, names in any case.
        streaming: whether a stream is read; a batch takes other options.
        time_zone: of times that say none.

    Raises:
        Problems: each option that is unknown, refused or has no such value; topics or servers that are missing.
    """
    texts = {name: text_of(value) for name, value in given.items() if value is not None}
    problems = [*_unknown(texts, streaming=streaming), *_missing(texts)]
    taken = {}
    for name, text in texts.items():
        try:
            taken[name] = _translated(name.casefold(), text, time_zone)
        except ValueError as error:
            problems.append(PipelineError("KAFKA.OPTION_VALUE", option=name, reason=str(error)))
    if problems:
        raise Problems(problems)
    return taken


def text_of(value: Any) -> str:
    """An option's value as Spark's readers make a text of it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def milliseconds(text: str, time_zone: str) -> int:
    """The milliseconds since 1970 behind a time in ISO 8601, or behind milliseconds.

    Raises:
        ValueError: it is neither.
    """
    text = text.strip()
    if text.removeprefix("-").isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text.replace("Z", "+00:00") if text.endswith("Z") else text)
    except ValueError:
        said = f'"{text}" is no time; write it like 2026-01-01T00:00:00Z, or as milliseconds since 1970'
        raise ValueError(said) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=ZoneInfo(time_zone))
    return round(moment.timestamp() * 1000)


def topics_text(options: Mapping[str, str]) -> str:
    """What a source reads, for people: its topics, without servers or credentials."""
    texts = {name.casefold(): text for name, text in options.items()}
    if "subscribepattern" in texts:
        return f"topics like {texts['subscribepattern'].strip()}"
    try:
        names = sorted(json.loads(texts["assign"])) if "assign" in texts else texts.get("subscribe", "").split(",")
    except ValueError:
        names = []
    return ", ".join(name.strip() for name in names if name.strip())


def _unknown(texts: Mapping[str, str], *, streaming: bool) -> Iterator[PipelineError]:
    for name in texts:
        folded = name.casefold()
        if folded in REFUSED:
            reason, instead = REFUSED[folded]
            yield PipelineError("KAFKA.OPTION_REFUSED", option=name, reason=reason, instead=instead)
        elif folded in _BY_NAME:
            if streaming and _BY_NAME[folded].reads == "batch":
                instead = "Remove it, or read with spark.read"
                yield PipelineError("KAFKA.OPTION_REFUSED", option=name, reason="a stream has no end", instead=instead)
        elif not folded.startswith(PASSED_ON):
            near = nearest(name, [option.name for option in OPTIONS]) or "none of a similar name"
            yield PipelineError("KAFKA.OPTION_UNKNOWN", option=name, near=near)


def _missing(texts: Mapping[str, str]) -> Iterator[PipelineError]:
    given = {name.casefold() for name in texts}
    if SERVERS not in given:
        yield PipelineError("KAFKA.NO_SERVERS")
    chosen = [name for name in TOPICS if name.casefold() in given]
    if len(chosen) != 1:
        yield PipelineError("KAFKA.TOPICS", given=" and ".join(chosen) or "none of them")


def _translated(folded: str, text: str, time_zone: str) -> str:
    if folded in _TIMES:
        return str(milliseconds(text, time_zone))
    if folded in _TIMES_BY_PARTITION:
        return json.dumps(_times(text, time_zone))
    if folded in ("maxoffsetspertrigger", "minoffsetspertrigger", "minpartitions", "maxrecordsperpartition") and (
        not text.strip().isdecimal() or int(text) == 0
    ):
        raise ValueError(f'"{text}" is no whole number above 0')
    return text


def _times(text: str, time_zone: str) -> dict[str, dict[str, int]]:
    try:
        topics = json.loads(text)
        return {
            topic: {partition: milliseconds(str(moment), time_zone) for partition, moment in partitions.items()}
            for topic, partitions in topics.items()
        }
    except (json.JSONDecodeError, AttributeError):
        raise ValueError('it is JSON like {"orders": {"0": "2026-01-01T00:00:00Z"}}') from None
