"""What a design must do, as values. An answer that is missing is None."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from types import MappingProxyType

from headrace.model.ddl import JsonType
from headrace.model.schema import type_text

_NONE: Mapping[str, str] = MappingProxyType({})
_TIMES = ("timestamp", "timestamp_ntz")


class SourceKind(str, Enum):
    """The system that records come from."""

    KAFKA = "kafka"
    EVENT_HUBS = "eventhubs"
    FILES = "files"
    DELTA = "delta"
    KINESIS = "kinesis"
    JDBC = "jdbc"
    CDC = "cdc"
    RATE = "rate"
    SYNTHETIC = "synthetic"


class OutputKind(str, Enum):
    """What an output is."""

    BRONZE = "bronze"
    CLEAN = "clean"
    DEDUP = "dedup"
    ENRICH = "enrich"
    WINDOWS = "windows"
    SESSIONS = "sessions"
    JOIN = "join"
    SCD1 = "scd1"
    SCD2 = "scd2"
    SINK = "sink"


# Kinds that keep state between batches, and need to know how late events are.
STATEFUL = (OutputKind.DEDUP, OutputKind.WINDOWS, OutputKind.SESSIONS, OutputKind.JOIN)
CHANGES = (OutputKind.SCD1, OutputKind.SCD2)


class ErrorPolicy(str, Enum):
    """What happens to records that are wrong."""

    QUARANTINE = "quarantine"
    DROP = "drop"
    FAIL = "fail"
    DEAD_LETTER = "dead-letter"


@dataclass(frozen=True)
class Column:
    """A column with its type as Spark's JSON; None for the result of an expression, whose type only Spark knows."""

    name: str
    type: JsonType | None

    @property
    def ddl(self) -> str:
        """The column as DDL, such as ``amount DECIMAL(10,2)``."""
        return f"{self.name} {type_text(self.type).upper()}" if isinstance(self.type, str) else self._nested

    @property
    def is_time(self) -> bool:
        """Whether it can be an event time."""
        return self.type in _TIMES

    @property
    def _nested(self) -> str:
        # Names of nested fields keep their case.
        return f"{self.name} {type_text(self.type)}"


@dataclass(frozen=True)
class Source:
    """One source. ``lines`` has the lines of its keys."""

    name: str
    kind: SourceKind | None = None
    format: str | None = None
    columns: tuple[Column, ...] = ()
    event_time: str | None = None
    keys: tuple[str, ...] = ()
    duplicate_share: float = 0.0
    events_per_s: float | None = None
    peak: float = 3.0
    retention_s: float | None = None
    options: Mapping[str, str] = field(default_factory=lambda: _NONE, repr=False)
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)

    @property
    def is_debezium(self) -> bool:
        """Whether its records are Debezium's envelopes."""
        return self.kind is SourceKind.CDC and self.format in (None, "debezium")

    def column(self, name: str | None) -> Column | None:
        """The column with a name; case-insensitive, as in Spark."""
        return next((column for column in self.columns if name and column.name.casefold() == name.casefold()), None)


@dataclass(frozen=True)
class Output:
    """One output with the parameters of its kind. ``lines`` has the lines of its keys."""

    name: str
    kind: OutputKind
    reads: str
    comment: str = ""
    latency_s: float | None = None
    keys: tuple[str, ...] = ()
    at: str | None = None
    columns: tuple[str, ...] = ()
    rules: Mapping[str, str] = field(default_factory=lambda: _NONE)
    aggregates: Mapping[str, str] = field(default_factory=lambda: _NONE)
    size_s: float | None = None
    slide_s: float | None = None
    gap_s: float | None = None
    joins: str | None = None
    on: tuple[str, ...] = ()
    within_s: float | None = None
    how: str = "inner"
    sequence_by: str | None = None
    deletes: str | None = None
    where: str | None = None
    format: str | None = None
    options: Mapping[str, str] = field(default_factory=lambda: _NONE, repr=False)
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True)
class Lateness:
    """How late events are: the stated or measured delay, and the share of events that arrive within it."""

    within_s: float | None = None
    share: float = 0.999
    measure_from: str | None = None
    scenario: str | None = None


@dataclass(frozen=True)
class History:
    """Older records: none if there is no path."""

    path: str | None = None
    format: str = "delta"


@dataclass(frozen=True)
class Requirements:
    """All answers; ``file`` and ``lines`` locate problems."""

    name: str
    sources: tuple[Source, ...]
    outputs: tuple[Output, ...]
    latency_s: float | None = None
    lateness: Lateness = field(default_factory=Lateness)
    memory_bytes: int | None = None
    keys: int | None = None
    guarantee: str | None = None
    on_error: ErrorPolicy | None = None
    history: History | None = None
    alerts: str | None = None
    file: str = "requirements.yml"
    lines: Mapping[str, int] = field(default_factory=dict, compare=False, repr=False)

    def source(self, name: str) -> Source | None:
        """The source with a name."""
        return next((source for source in self.sources if source.name == name), None)

    def output(self, name: str) -> Output | None:
        """The output with a name."""
        return next((output for output in self.outputs if output.name == name), None)

    def latency_of(self, output: Output) -> float:
        """The latency of an output, in seconds; needs an answer."""
        found = output.latency_s if output.latency_s is not None else self.latency_s
        if found is None:
            raise ValueError("the latency is an open question")
        return found

    def root(self, output: Output) -> Source | None:
        """The source that an output reads, directly or through other outputs; None if it reads no source."""
        reads, seen = output.reads, {output.name}
        while reads not in seen:
            seen.add(reads)
            if (source := self.source(reads)) is not None:
                return source
            if (before := self.output(reads)) is None:
                return None
            reads = before.reads
        return None
