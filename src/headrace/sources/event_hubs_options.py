"""The options of the vendor's connector for Event Hubs, as options of Spark's Kafka source.

Source of names and defaults: the connector's guide for PySpark and its ``EventHubsConf``; of the translation: the
service's guide of its Kafka surface, where a hub is a topic and an event's offset is its sequence number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.errors import PipelineError, Problems
from headrace.settings.check import nearest
from headrace.sources.event_hubs_connection import Connection, parse_connection
from headrace.sources.event_hubs_positions import Position, positions_as_options, read_position, read_positions
from headrace.sources.kafka_options import PASSED_ON, SERVERS, kafka_options, text_of

FORMAT = "eventhubs"
PREFIX = "eventhubs."
PartitionsOf = Callable[[Mapping[str, str], str], int]
_DURATION = re.compile(r"PT(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?", re.IGNORECASE)
_DEFAULT_GROUP = "$default"


@dataclass(frozen=True)
class HubsOption:
    """One option: what it does here, or why it does nothing or is refused (then ``instead`` says what to do)."""

    name: str
    about: str
    default: str = ""
    used: bool = True
    instead: str = ""


_NO_RECEIVERS = "Kafka's client has no receivers"
_NO_ENTRA = "a callback of Java code cannot come from here"
OPTIONS = tuple(
    HubsOption(*row)
    for row in (
        ("eventhubs.connectionString", "The hub's connection string, as it is: not encrypted"),
        ("eventhubs.consumerGroup", "The consumer group; progress is in the checkpoint", "`$Default`"),
        ("eventhubs.startingPosition", "Where to begin, as JSON", "the start of the stream"),
        ("eventhubs.startingPositions", "The same for single partitions"),
        ("eventhubs.endingPosition", "Where a batch ends, as JSON", "the end of the stream"),
        ("eventhubs.endingPositions", "The same for single partitions"),
        ("maxEventsPerTrigger", "Events in a batch, at most; also with `eventhubs.` in front", "no limit"),
        ("eventhubs.receiverTimeout", "How long a task waits for events, such as `PT1M`", "`PT60S`"),
        ("eventhubs.operationTimeout", "How long other calls may take", "`PT60S`"),
        ("failOnDataLoss", "As that of [Kafka](kafka.md)", "`true`"),
        ("minPartitions", "As that of Kafka"),
        ("maxRecordsPerPartition", "As that of Kafka"),
        ("eventhubs.prefetchCount", _NO_RECEIVERS, "", False),
        ("eventhubs.threadPoolSize", _NO_RECEIVERS, "", False),
        ("eventhubs.useExclusiveReceiver", _NO_RECEIVERS, "", False),
        ("eventhubs.maxSilentTime", _NO_RECEIVERS, "", False),
        ("eventhubs.maxAcceptableBatchReceiveTime", _NO_RECEIVERS, "", False),
        ("eventhubs.partitionPreferredLocationStrategy", _NO_RECEIVERS, "", False),
        ("eventhubs.DynamicPartitionDiscovery", "partitions that are added are always found", "", False),
        ("eventhubs.slowPartitionAdjustment", "batches are shared out by what there is", "", False),
        ("eventhubs.useAadAuth", _NO_ENTRA, "", False, 'Use format("kafka") with kafka.sasl.mechanism OAUTHBEARER'),
        (
            "eventhubs.aadAuthCallback",
            _NO_ENTRA,
            "",
            False,
            'Use format("kafka") with kafka.sasl.mechanism OAUTHBEARER',
        ),
        ("eventhubs.aadAuthCallbackParams", _NO_ENTRA, "", False, "Remove it"),
        ("eventhubs.metricPlugin", "plug-ins are classes of the vendor's connector", "", False, "Remove it"),
        ("eventhubs.throttlingStatusPlugin", "plug-ins are classes of the vendor's connector", "", False, "Remove it"),
    )
)
_BY_NAME = {option.name.casefold(): option for option in OPTIONS}
_BY_NAME[PREFIX + "maxeventspertrigger"] = _BY_NAME["maxeventspertrigger"]
_SAME = ("failondataloss", "minpartitions", "maxrecordsperpartition")


def without_effect(given: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """The options that were given and do nothing here, each with the reason."""
    found = ((name, _BY_NAME.get(name.casefold())) for name in given)
    return tuple((name, option.about) for name, option in found if option and not option.used and not option.instead)


def event_hubs_options(
    given: Mapping[str, Any], *, streaming: bool, time_zone: str, partitions_of: PartitionsOf
) -> dict[str, str]:
    """The options for Spark's Kafka source; they hold the connection string, and are a secret.

    Args:
        given: the reader's options, names in any case; those of Kafka's client (``kafka.``) win.
        streaming: whether a stream is read.
        time_zone: of times that say none.
        partitions_of: how many partitions a topic has, by the client's options; asked only for positions of partitions.

    Raises:
        Problems: each option that is unknown, refused or has no such value.
        PipelineError: EVENT_HUBS.CONNECTION.
    """
    texts = {name.casefold(): text_of(value) for name, value in given.items() if value is not None}
    problems = list(_unknown(given, texts, streaming=streaming))
    if PREFIX + "connectionstring" not in texts:
        problems.append(PipelineError("EVENT_HUBS.CONNECTION", reason="there is no eventhubs.connectionString"))
    if problems:
        raise Problems(problems)
    connection = parse_connection(texts[PREFIX + "connectionstring"])
    options = {**_client_options(connection, texts), "includeHeaders": "true"}
    options.update((name, texts[name]) for name in _SAME if name in texts)
    limit = texts.get("maxeventspertrigger", texts.get(PREFIX + "maxeventspertrigger"))
    if limit is not None and streaming:
        options["maxOffsetsPerTrigger"] = limit
    for side in ("starting",) if streaming else ("starting", "ending"):
        options.update(_positions(side, texts, options, connection.hub, time_zone, partitions_of))
    return kafka_options(options, streaming=streaming, time_zone=time_zone)


def _client_options(connection: Connection, texts: Mapping[str, str]) -> dict[str, str]:
    options = {
        SERVERS: connection.servers,
        "subscribe": connection.hub,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": connection.login,
        # What the service's guide asks for: it answers later than Kafka's client expects.
        "kafka.request.timeout.ms": "60000",
        "kafka.session.timeout.ms": "30000",
    }
    group = texts.get(PREFIX + "consumergroup", _DEFAULT_GROUP)
    if group.casefold() != _DEFAULT_GROUP:
        options["kafka.group.id"] = group
    if PREFIX + "operationtimeout" in texts:
        options["kafka.request.timeout.ms"] = _milliseconds("operationTimeout", texts)
        options["kafka.default.api.timeout.ms"] = options["kafka.request.timeout.ms"]
    if PREFIX + "receivertimeout" in texts:
        options["kafkaConsumer.pollTimeoutMs"] = _milliseconds("receiverTimeout", texts)
    options.update((name, text) for name, text in texts.items() if name.startswith(PASSED_ON))
    return options


def _positions(
    side: str,
    texts: Mapping[str, str],
    options: Mapping[str, str],
    hub: str,
    time_zone: str,
    partitions_of: PartitionsOf,
) -> dict[str, str]:
    one, several = texts.get(f"{PREFIX}{side}position"), texts.get(f"{PREFIX}{side}positions")
    name = f"{PREFIX}{side}Position"
    try:
        everywhere = read_position(_json(one), time_zone) if one else Position.start_or_end(side)
        if several is None:
            return positions_as_options(side, hub, everywhere)
        name += "s"
        single = read_positions(_json(several), hub, time_zone)
        number = partitions_of(options, hub)
        return positions_as_options(side, hub, everywhere, {**dict.fromkeys(range(number), everywhere), **single})
    except ValueError as error:
        raise PipelineError("EVENT_HUBS.POSITION", option=name, reason=str(error)) from None


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        raise ValueError("it is no JSON") from None


def _unknown(given: Mapping[str, Any], texts: Mapping[str, str], *, streaming: bool) -> Iterator[PipelineError]:
    for name in given:
        folded = name.casefold()
        option = _BY_NAME.get(folded)
        if folded.startswith(PASSED_ON) or folded not in texts:
            continue
        if option is None:
            near = nearest(name, [known.name for known in OPTIONS]) or "none of a similar name"
            yield PipelineError("EVENT_HUBS.OPTION_UNKNOWN", option=name, near=near)
        elif option.instead:
            why, instead = option.about, option.instead
            yield PipelineError("EVENT_HUBS.OPTION_REFUSED", option=name, reason=why, instead=instead)
        elif streaming and folded.startswith(f"{PREFIX}ending"):
            why, instead = "a stream has no end", "Remove it, or read with spark.read"
            yield PipelineError("EVENT_HUBS.OPTION_REFUSED", option=name, reason=why, instead=instead)


def _milliseconds(name: str, texts: Mapping[str, str]) -> str:
    text = texts[PREFIX + name.casefold()].strip()
    match = _DURATION.fullmatch(text)
    if match is None or not any(match.groups()):
        raise PipelineError(
            "EVENT_HUBS.POSITION", option=PREFIX + name, reason="it is a duration in ISO 8601, such as PT1M30S"
        )
    hours, minutes, seconds = (float(part or 0) for part in match.groups())
    return str(max(round((hours * 3600 + minutes * 60 + seconds) * 1000), 1))
