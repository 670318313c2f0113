"""The options of the vendor's connector for Event Hubs, as options of Spark's Kafka source.

Source of names and defaults: the connector's guide for PySpark and its ``EventHubsConf``; of the translation: the
service's guide of its Kafka surface, where a hub is a topic and an event's offset is its sequence number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.errors import PipelineError, Problems, problems_of
from headrace.sources.event_hubs_connection import Connection, parse_connection
from headrace.sources.event_hubs_positions import (
    Edge,
    Position,
    positions_as_options,
    read_position,
    read_positions,
)
from headrace.sources.kafka_options import NOT_OF_CLIENT, PASSED_ON, SERVERS, SHARED, TopicOptions, text_for_spark
from headrace.sources.option_reading import (
    GivenOptions,
    Kind,
    Reads,
    SourceFormat,
    SourceOption,
    accepted,
    read_options,
    refused,
)

PREFIX = "eventhubs."
PartitionsOf = Callable[[Mapping[str, str], str], int]
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
FORMAT = SourceFormat(
    "eventhubs",
    (
        SourceOption(_CONNECTION, Kind.SECRET, "Connection string of the event hub, not encrypted", required=True),
        SourceOption(
            f"{PREFIX}consumerGroup",
            Kind.TEXT,
            "Consumer group. Progress is stored in the flow's checkpoint, not in the group",
            "`$Default`",
        ),
        SourceOption(f"{PREFIX}startingPosition", Kind.JSON, "Where a new stream starts", "the start of the stream"),
        SourceOption(
            f"{PREFIX}startingPositions", Kind.JSON, "The same, per partition. Overrides `eventhubs.startingPosition`"
        ),
        SourceOption(
            f"{PREFIX}endingPosition", Kind.JSON, "Where the read ends", "the end of the stream", reads=Reads.BATCHES
        ),
        SourceOption(
            f"{PREFIX}endingPositions",
            Kind.JSON,
            "The same, per partition. Overrides `eventhubs.endingPosition`",
            reads=Reads.BATCHES,
        ),
        SourceOption(
            _LIMITS[0],
            Kind.COUNT,
            "Maximum number of events per batch",
            "no limit; the vendor's connector: 1000 per partition",
            reads=Reads.STREAMS,
        ),
        SourceOption(_LIMITS[1], Kind.COUNT, f"Alias of `{_LIMITS[0]}`. Set only one of them", reads=Reads.STREAMS),
        SourceOption(f"{PREFIX}receiverTimeout", Kind.DURATION, "Maximum time that a task waits for events", "PT2M"),
        SourceOption(f"{PREFIX}operationTimeout", Kind.DURATION, "Timeout of other calls to the service", "PT60S"),
        *SHARED,
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
        *NOT_OF_CLIENT,
    ),
    page="docs/reference/event-hubs.md",
    passed_on=PASSED_ON,
)


def event_hubs_options(
    given: Mapping[str, Any], *, streaming: bool, time_zone: str, partitions_of: PartitionsOf
) -> TopicOptions:
    """The options for Spark's Kafka source; they hold the connection string, and are a secret.

    Args:
        given: the reader's options, names in any case; those of Kafka's client (``kafka.``) win.
        streaming: whether a stream is read.
        time_zone: of times that say none.
        partitions_of: how many partitions a topic has, by the client's options; asked only for positions of partitions.

    Raises:
        Problems: each option that is unknown, refused or has no such value, and a connection string that is none.
        PipelineError: what *partitions_of* raises.
    """
    found = read_options(FORMAT, given, time_zone=time_zone, streams=streaming)
    connection = _connection(found)
    if all(name in found.texts for name in _LIMITS):
        found.wrong(_LIMITS[1], f"{_LIMITS[0]} is given too: keep one of the two")
    sides = ("starting",) if streaming else ("starting", "ending")
    positions = {side: _positions(found, side, connection.hub if connection else None, time_zone) for side in sides}
    for side, edge in () if streaming else (("starting", Edge.LATEST), ("ending", Edge.EARLIEST)):
        everywhere, single = positions[side]
        if edge in {everywhere.edge, *(position.edge for position in (single or {}).values())}:
            found.wrong(f"{PREFIX}{side}Position", "a batch there has no events")
    found.check()
    assert connection is not None  # noqa: S101 - or its problem was raised
    options = {**_client_options(connection, found), "includeHeaders": "true"}
    options |= {option.name: text_for_spark(found, option.name) for option in SHARED if option.name in found.values}
    limit = next((found.values[name] for name in _LIMITS if name in found.values), None)
    if limit is not None:
        options["maxOffsetsPerTrigger"] = str(limit)
    for side, (everywhere, single) in positions.items():
        options |= _placed(found, side, everywhere, single, options, connection.hub, partitions_of)
    found.check()
    return TopicOptions(options, found.without_effect())


def _connection(found: GivenOptions) -> Connection | None:
    if _CONNECTION not in found.values:
        return None
    try:
        return parse_connection(found.values[_CONNECTION])
    except (PipelineError, Problems) as error:
        found.problems.extend(problems_of(error))
        return None


def _client_options(connection: Connection, found: GivenOptions) -> dict[str, str]:
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
    group = found.get(f"{PREFIX}consumerGroup", _DEFAULT_GROUP)
    if group.casefold() != _DEFAULT_GROUP:
        options["kafka.group.id"] = group
    if f"{PREFIX}operationTimeout" in found.values:
        options["kafka.request.timeout.ms"] = _milliseconds(found, "operationTimeout")
        options["kafka.default.api.timeout.ms"] = options["kafka.request.timeout.ms"]
    if f"{PREFIX}receiverTimeout" in found.values:
        options["kafkaConsumer.pollTimeoutMs"] = _milliseconds(found, "receiverTimeout")
    return {**options, **found.passed_on}


def _milliseconds(found: GivenOptions, name: str) -> str:
    return str(max(round(found.values[PREFIX + name] * 1000), 1))


def _positions(
    found: GivenOptions, side: str, hub: str | None, time_zone: str
) -> tuple[Position, Mapping[int, Position] | None]:
    """Where all partitions begin or end, and single ones; None where none was given."""
    everywhere, single = Position.start_or_end(side), None
    name = f"{PREFIX}{side}Position"
    try:
        if name in found.values:
            everywhere = read_position(found.values[name], time_zone, ends=side == "ending")
        name += "s"
        if name in found.values:
            single = read_positions(found.values[name], hub, time_zone, ends=side == "ending")
    except ValueError as error:
        found.wrong(name, str(error))
    return everywhere, single


def _placed(
    found: GivenOptions,
    side: str,
    everywhere: Position,
    single: Mapping[int, Position] | None,
    options: Mapping[str, str],
    hub: str,
    partitions_of: PartitionsOf,
) -> dict[str, str]:
    name = f"{PREFIX}{side}Position"
    try:
        if single is None and everywhere.sequence is None:
            return positions_as_options(side, hub, everywhere)
        name += "s" if single is not None else ""
        number = partitions_of(options, hub)
        unknown = sorted(place for place in single or () if not 0 <= place < number)
        if unknown:
            raise ValueError(f"the hub has the partitions 0 to {number - 1}, and no {unknown[0]}")  # noqa: TRY301 - as those below
        return positions_as_options(
            side, hub, everywhere, {**dict.fromkeys(range(number), everywhere), **(single or {})}
        )
    except ValueError as error:
        found.wrong(name, str(error))
        return {}
