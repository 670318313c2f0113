"""Translates options of the vendor's connector for Event Hubs to options of Spark's Kafka source.

Source of names and defaults: the connector's guide for PySpark and its ``EventHubsConf``; of the translation: the
service's guide to its Kafka endpoint, where a hub is a topic and an event's offset is its sequence number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.errors import PipelineError, Problems, problems_of
from headrace.options.option import Kind, Option, OptionTable, ReadMode, accepted, refused
from headrace.options.parse import ParsedOptions, parse_options
from headrace.sources.event_hubs_connection import Connection, parse_connection
from headrace.sources.event_hubs_positions import (
    Edge,
    Position,
    positions_as_options,
    read_position,
    read_positions,
)
from headrace.sources.kafka_options import (
    PASSED_ON,
    REFUSED_CLIENT_OPTIONS,
    SERVERS,
    SHARED_OPTIONS,
    TopicOptions,
    text_for_spark,
)

PREFIX = "eventhubs."
PartitionCounter = Callable[[Mapping[str, str], str], int]
_CONNECTION = f"{PREFIX}connectionString"
_LIMITS = ("maxEventsPerTrigger", f"{PREFIX}maxEventsPerTrigger")
_DEFAULT_GROUP = "$default"
_NO_RECEIVERS = "The Kafka client has no receivers"
_NO_ENTRA = (
    "The callback is a Java class",
    'Use format("kafka") with kafka.sasl.mechanism=OAUTHBEARER',
)
_NO_PLUGINS = ("Plug-ins are Java classes of the vendor's connector", "Remove it")
_NO_RATES = ("A batch is divided among partitions in proportion to their backlog", "Use maxEventsPerTrigger")
FORMAT = OptionTable(
    "eventhubs",
    (
        Option(_CONNECTION, Kind.SECRET, "Connection string of the event hub, not encrypted", required=True),
        Option(
            f"{PREFIX}consumerGroup",
            Kind.TEXT,
            "Consumer group. Progress is stored in the flow's checkpoint, not in the group",
            "`$Default`",
        ),
        Option(f"{PREFIX}startingPosition", Kind.JSON, "Where a new stream starts", "the start of the stream"),
        Option(
            f"{PREFIX}startingPositions", Kind.JSON, "The same, per partition. Overrides `eventhubs.startingPosition`"
        ),
        Option(
            f"{PREFIX}endingPosition",
            Kind.JSON,
            "Where the read ends",
            "the end of the stream",
            read_mode=ReadMode.BATCHES,
        ),
        Option(
            f"{PREFIX}endingPositions",
            Kind.JSON,
            "The same, per partition. Overrides `eventhubs.endingPosition`",
            read_mode=ReadMode.BATCHES,
        ),
        Option(
            _LIMITS[0],
            Kind.POSITIVE_INTEGER,
            "Maximum number of events per batch",
            "no limit; the vendor's connector: 1000 per partition",
            read_mode=ReadMode.STREAMS,
        ),
        Option(
            _LIMITS[1],
            Kind.POSITIVE_INTEGER,
            f"Alias of `{_LIMITS[0]}`. Set only one of them",
            read_mode=ReadMode.STREAMS,
        ),
        Option(f"{PREFIX}receiverTimeout", Kind.DURATION, "Maximum time that a task waits for events", "PT2M"),
        Option(f"{PREFIX}operationTimeout", Kind.DURATION, "Timeout of other calls to the service", "PT60S"),
        *SHARED_OPTIONS,
        *(
            accepted(PREFIX + name, _NO_RECEIVERS)
            for name in (
                *("prefetchCount", "threadPoolSize", "useExclusiveReceiver", "maxSilentTime"),
                *("maxAcceptableBatchReceiveTime", "partitionPreferredLocationStrategy"),
            )
        ),
        accepted(f"{PREFIX}DynamicPartitionDiscovery", "New partitions are always found"),
        accepted(f"{PREFIX}slowPartitionAdjustment", "Batches are always divided by backlog"),
        *(refused(PREFIX + name, *_NO_ENTRA) for name in ("useAadAuth", "aadAuthCallback", "aadAuthCallbackParams")),
        *(refused(PREFIX + name, *_NO_PLUGINS) for name in ("metricPlugin", "throttlingStatusPlugin")),
        *(refused(PREFIX + name, *_NO_RATES) for name in ("maxRatePerPartition", "maxRatesPerPartition")),
        *REFUSED_CLIENT_OPTIONS,
    ),
    page="docs/reference/event-hubs.md",
    passed_on=PASSED_ON,
)


def event_hubs_options(
    given: Mapping[str, Any], *, streaming: bool, time_zone: str, count_partitions: PartitionCounter
) -> TopicOptions:
    """The options for Spark's Kafka source. They contain the connection string, so they are secret.

    Args:
        given: the reader's options; names are case-insensitive. Options of Kafka's client (``kafka.``) win.
        streaming: whether a stream is read.
        time_zone: of times without a zone.
        count_partitions: how many partitions a topic has, by the client's options; called only for positions of single
            partitions.

    Raises:
        Problems: each option that is unknown, refused or invalid, and an invalid connection string.
        PipelineError: what *count_partitions* raises.
    """
    parsed = parse_options(FORMAT, given, time_zone=time_zone, streaming=streaming)
    connection = _connection(parsed)
    if all(name in parsed.texts for name in _LIMITS):
        parsed.reject(_LIMITS[1], f"{_LIMITS[0]} is also set; keep only one of the two")
    sides = ("starting",) if streaming else ("starting", "ending")
    positions = {side: _positions(parsed, side, connection.hub if connection else None, time_zone) for side in sides}
    for side, edge in () if streaming else (("starting", Edge.LATEST), ("ending", Edge.EARLIEST)):
        default, by_partition = positions[side]
        if edge in {default.edge, *(position.edge for position in (by_partition or {}).values())}:
            parsed.reject(f"{PREFIX}{side}Position", "with this position, the batch has no events")
    parsed.check()
    assert connection is not None  # noqa: S101 - or its problem was raised
    options = {**_client_options(connection, parsed), "includeHeaders": "true"}
    options |= {
        option.name: text_for_spark(parsed, option.name) for option in SHARED_OPTIONS if option.name in parsed.values
    }
    limit = next((parsed.values[name] for name in _LIMITS if name in parsed.values), None)
    if limit is not None:
        options["maxOffsetsPerTrigger"] = str(limit)
    for side, (default, by_partition) in positions.items():
        options |= _position_options(parsed, side, default, by_partition, options, connection.hub, count_partitions)
    parsed.check()
    return TopicOptions(options, parsed.without_effect())


def _connection(parsed: ParsedOptions) -> Connection | None:
    if _CONNECTION not in parsed.values:
        return None
    try:
        return parse_connection(parsed.values[_CONNECTION])
    except (PipelineError, Problems) as error:
        parsed.problems.extend(problems_of(error))
        return None


def _client_options(connection: Connection, parsed: ParsedOptions) -> dict[str, str]:
    options = {
        SERVERS: connection.servers,
        "subscribe": connection.hub,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": connection.login,
        # The service's guide requires these: the service answers later than Kafka's client expects.
        "kafka.request.timeout.ms": "60000",
        "kafka.session.timeout.ms": "30000",
    }
    group = parsed.get(f"{PREFIX}consumerGroup", _DEFAULT_GROUP)
    if group.casefold() != _DEFAULT_GROUP:
        options["kafka.group.id"] = group
    if f"{PREFIX}operationTimeout" in parsed.values:
        options["kafka.request.timeout.ms"] = _milliseconds(parsed, "operationTimeout")
        options["kafka.default.api.timeout.ms"] = options["kafka.request.timeout.ms"]
    if f"{PREFIX}receiverTimeout" in parsed.values:
        options["kafkaConsumer.pollTimeoutMs"] = _milliseconds(parsed, "receiverTimeout")
    return {**options, **parsed.passed_on}


def _milliseconds(parsed: ParsedOptions, name: str) -> str:
    return str(max(round(parsed.values[PREFIX + name] * 1000), 1))


def _positions(
    parsed: ParsedOptions, side: str, hub: str | None, time_zone: str
) -> tuple[Position, Mapping[int, Position] | None]:
    """The start or end of all partitions, and of single partitions; None if the latter are not set."""
    default, by_partition = Position.start_or_end(side), None
    name = f"{PREFIX}{side}Position"
    try:
        if name in parsed.values:
            default = read_position(parsed.values[name], time_zone, is_end=side == "ending")
        name += "s"
        if name in parsed.values:
            by_partition = read_positions(parsed.values[name], hub, time_zone, is_end=side == "ending")
    except ValueError as error:
        parsed.reject(name, str(error))
    return default, by_partition


def _position_options(
    parsed: ParsedOptions,
    side: str,
    default: Position,
    by_partition: Mapping[int, Position] | None,
    options: Mapping[str, str],
    hub: str,
    count_partitions: PartitionCounter,
) -> dict[str, str]:
    name = f"{PREFIX}{side}Position"
    try:
        if by_partition is None and default.sequence is None:
            return positions_as_options(side, hub, default)
        name += "s" if by_partition is not None else ""
        count = count_partitions(options, hub)
        unknown = sorted(partition for partition in by_partition or () if not 0 <= partition < count)
        if unknown:
            raise ValueError(f"the event hub has partitions 0 to {count - 1}, but no partition {unknown[0]}")  # noqa: TRY301 - as those below
        return positions_as_options(
            side, hub, default, {**dict.fromkeys(range(count), default), **(by_partition or {})}
        )
    except ValueError as error:
        parsed.reject(name, str(error))
        return {}
