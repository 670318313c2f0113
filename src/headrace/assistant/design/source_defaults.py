"""What is known about each kind of source: its columns, its records, and the options that a reader needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from headrace.assistant.design.requirements import Column, Requirements, Source, SourceKind
from headrace.model.ddl import parse_struct
from headrace.options.option import OptionTable
from headrace.sources import event_hubs_options, jdbc_incremental, kafka_options, kinesis_options, synthetic

_DAY_S = 86400.0
_NONE: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class KindFacts:
    """Facts about a kind of source.

    Attributes:
        reader: the format of ``spark.readStream``.
        title: its name in texts.
        payload: the column with the bytes of a record; empty if the reader returns typed columns.
        origin: the columns that say where a record comes from, with the type of each.
        table: the options of its reader; None if only names of Delta or of files are known.
        required: options without which nothing can be read, with their default; ``{NAME}`` is the name of the source
            in capitals, ``{name}`` as it is.
        retention_s: how long records are kept, unless the requirements say it; None if forever.
        starts_at: the option and value with which a new stream reads everything that is left.
        formats: the formats of its records; the first is the default.
    """

    reader: str
    title: str
    payload: str = ""
    origin: Mapping[str, str] = field(default_factory=lambda: _NONE)
    table: OptionTable | None = None
    required: Mapping[str, str] = field(default_factory=lambda: _NONE)
    retention_s: float | None = None
    starts_at: tuple[str, str] | None = None
    formats: tuple[str, ...] = ()


_TOPIC = MappingProxyType(
    {"topic": "STRING", "partition": "INT", "offset": "BIGINT", "timestamp": "TIMESTAMP"},
)
_TOPIC_OPTIONS = MappingProxyType({"kafka.bootstrap.servers": "${{env:{NAME}_SERVERS}}", "subscribe": "{name}"})
_EARLIEST = ("startingOffsets", "earliest")
FACTS: Mapping[SourceKind, KindFacts] = {
    SourceKind.KAFKA: KindFacts(
        "kafka",
        "Kafka",
        payload="value",
        origin=_TOPIC,
        table=kafka_options.FORMAT,
        required=_TOPIC_OPTIONS,
        retention_s=7 * _DAY_S,
        starts_at=_EARLIEST,
        formats=("json", "csv"),
    ),
    SourceKind.CDC: KindFacts(
        "kafka",
        "change events in Kafka",
        payload="value",
        origin=_TOPIC,
        table=kafka_options.FORMAT,
        required=_TOPIC_OPTIONS,
        retention_s=7 * _DAY_S,
        starts_at=_EARLIEST,
        formats=("debezium", "json"),
    ),
    SourceKind.EVENT_HUBS: KindFacts(
        "eventhubs",
        "Event Hubs",
        payload="body",
        origin=MappingProxyType({"partition": "STRING", "sequenceNumber": "BIGINT", "enqueuedTime": "TIMESTAMP"}),
        table=event_hubs_options.FORMAT,
        required=MappingProxyType({"eventhubs.connectionString": "${{secret:{name}/connection}}"}),
        retention_s=_DAY_S,
        formats=("json", "csv"),
    ),
    SourceKind.KINESIS: KindFacts(
        "kinesis",
        "Kinesis",
        payload="data",
        origin=MappingProxyType(
            {"shardId": "STRING", "sequenceNumber": "STRING", "approximateArrivalTimestamp": "TIMESTAMP"}
        ),
        table=kinesis_options.FORMAT,
        required=MappingProxyType({"streamName": "{name}"}),
        retention_s=_DAY_S,
        starts_at=("initialPosition", "earliest"),
        formats=("json", "csv"),
    ),
    SourceKind.FILES: KindFacts(
        "cloudFiles",
        "files",
        required=MappingProxyType({"path": "${{env:{NAME}_PATH}}"}),
        formats=("json", "csv", "parquet", "orc", "avro"),
    ),
    SourceKind.DELTA: KindFacts(
        "delta", "a Delta table", required=MappingProxyType({"path": "${{env:{NAME}_PATH}}"}), formats=("delta",)
    ),
    SourceKind.JDBC: KindFacts(
        "jdbc_incremental",
        "a database",
        table=jdbc_incremental.FORMAT,
        required=MappingProxyType({"url": "${{secret:{name}/url}}", "dbtable": "{name}"}),
        formats=("table",),
    ),
    SourceKind.RATE: KindFacts("rate", "Spark's rate source", formats=("rows",)),
    SourceKind.SYNTHETIC: KindFacts("synthetic", "synthetic events", table=synthetic.FORMAT, formats=("rows",)),
}
_KNOWN_COLUMNS = {
    SourceKind.RATE: ("timestamp TIMESTAMP, value BIGINT", "timestamp", ("value",)),
    SourceKind.SYNTHETIC: (synthetic.COLUMNS, "event_time", ("event_id",)),
}


def facts_of(source: Source) -> KindFacts:
    """The facts about a source; its kind must be known."""
    if source.kind is None:
        raise ValueError("the kind is an open question")
    return FACTS[source.kind]


def format_of(source: Source) -> str:
    """The format of the records of a source."""
    return source.format or facts_of(source).formats[0]


def options_of(source: Source) -> dict[str, str]:
    """The options of the reader: the given ones, and defaults for those without which nothing can be read."""
    facts = facts_of(source)
    given = {name.casefold() for name in source.options}
    found = {
        name: value.format(name=source.name, NAME=source.name.upper())
        for name, value in facts.required.items()
        if name.casefold() not in given and not (name == "subscribe" and given & {"subscribepattern", "assign"})
    }
    if source.kind is SourceKind.JDBC and "cursorcolumn" not in given:
        found["cursorColumn"] = source.event_time or source.columns[0].name
    return {**found, **source.options}


def with_known_columns(requirements: Requirements) -> Requirements:
    """The requirements with the columns of sources whose columns are always the same."""
    return replace(requirements, sources=tuple(_with_known_columns(source) for source in requirements.sources))


def _with_known_columns(source: Source) -> Source:
    if source.kind not in _KNOWN_COLUMNS or source.columns:
        return source
    ddl, time, keys = _KNOWN_COLUMNS[source.kind]
    columns = tuple(Column(field["name"], field["type"]) for field in parse_struct(ddl)["fields"])
    return replace(source, columns=columns, event_time=source.event_time or time, keys=source.keys or keys)
