"""The datasets of a design, and what each reads: the sources, a bronze table for each, then the outputs.

A dataset knows its columns, its event time and whether it is a stream, so that decisions and files need nothing else.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from headrace.assistant.design.combinations import problems_of_combinations
from headrace.assistant.design.requirements import (
    CHANGES,
    STATEFUL,
    Column,
    Output,
    OutputKind,
    Requirements,
    Source,
    SourceKind,
)
from headrace.assistant.design.source_defaults import facts_of
from headrace.assistant.design.suitability import LatencyClass, is_recomputed, latency_class
from headrace.errors import raise_all

# The columns of a bronze table of envelopes that other datasets read.
MESSAGE = (Column("key", "string"), Column("value", "string"))
DEFAULT_AGGREGATES = {"events": "count(*)"}


class DatasetKind(str, Enum):
    """What a dataset is: an output, or a part of the way to one."""

    SOURCE = "source"  # a view: the records, real or sampled
    LIVE = "live"  # the same without a limit, for real-time mode
    CHANGES = "changes"  # a view: change events without their envelopes
    REFERENCE = "reference"  # a materialized view of a source that streams are enriched with
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

    @property
    def is_view(self) -> bool:
        """Whether nothing is stored."""
        return self in (DatasetKind.SOURCE, DatasetKind.LIVE, DatasetKind.CHANGES)

    @property
    def layer(self) -> str:
        """The layer of the medallion architecture."""
        if self.is_view or self is DatasetKind.SINK:
            return ""
        silver = (
            *(DatasetKind.CLEAN, DatasetKind.DEDUP, DatasetKind.ENRICH, DatasetKind.REFERENCE),
            *(DatasetKind.SCD1, DatasetKind.SCD2),
        )
        return "bronze" if self is DatasetKind.BRONZE else "silver" if self in silver else "gold"


_STATEFUL = {DatasetKind(kind.value) for kind in STATEFUL}


@dataclass(frozen=True)
class Dataset:
    """A dataset of the design.

    Attributes:
        name: its name.
        kind: what it is.
        source: the source that its rows come from.
        output: the output of the requirements; None if it is only needed on the way to one.
        reads: the names of the datasets that it reads; the first is the main input.
        columns: the columns that readers use.
        event_time: the column with the event time; None if it has none.
        keys: the columns that it groups, compares or merges by, or that identify its rows.
        is_stream: whether its flow reads new rows only; otherwise it is computed again.
        latency_s: how old its newest row may be.
        hops: the number of tables from the source to it, itself included.
    """

    name: str
    kind: DatasetKind
    source: Source
    output: Output | None
    reads: tuple[str, ...]
    columns: tuple[Column, ...]
    event_time: str | None
    keys: tuple[str, ...]
    is_stream: bool
    latency_s: float
    hops: int

    @property
    def keeps_state(self) -> bool:
        """Whether its flow keeps state between batches."""
        return self.is_stream and self.kind in _STATEFUL

    @property
    def is_real_time(self) -> bool:
        """Whether its flow passes on each record at once."""
        return self.kind is DatasetKind.SINK and latency_class(self.latency_s) is LatencyClass.REAL_TIME

    def column(self, name: str) -> Column | None:
        """The column with a name; case-insensitive."""
        return next((column for column in self.columns if column.name.casefold() == name.casefold()), None)


@dataclass(frozen=True)
class Blueprint:
    """The datasets of a design; each comes after those that it reads."""

    requirements: Requirements
    datasets: tuple[Dataset, ...]

    def of(self, *kinds: DatasetKind) -> tuple[Dataset, ...]:
        """The datasets of some kinds."""
        return tuple(dataset for dataset in self.datasets if dataset.kind in kinds)

    def dataset(self, name: str) -> Dataset:
        """The dataset with a name."""
        return next(dataset for dataset in self.datasets if dataset.name == name)

    def readers(self, name: str) -> tuple[Dataset, ...]:
        """The datasets that read a dataset."""
        return tuple(dataset for dataset in self.datasets if name in dataset.reads)

    @property
    def tables(self) -> tuple[Dataset, ...]:
        """The stored datasets."""
        return tuple(dataset for dataset in self.datasets if dataset.kind.layer)

    @property
    def latency_class(self) -> LatencyClass:
        """The class of the smallest latency, which decides how the pipeline runs."""
        return latency_class(min(dataset.latency_s for dataset in self.datasets))

    @property
    def is_continuous(self) -> bool:
        """Whether the pipeline runs until it is stopped."""
        return self.latency_class in (LatencyClass.CONTINUOUS, LatencyClass.REAL_TIME)


def make_blueprint(requirements: Requirements) -> Blueprint:
    """The datasets of requirements whose questions are answered.

    Raises:
        Problems: outputs that cannot be built, each by name.
    """
    raise_all(problems_of_combinations(requirements))
    return Blueprint(requirements, tuple(_Builder(requirements).datasets()))


def origin_columns(source: Source) -> dict[str, str]:
    """The columns of the bronze table that say where a record comes from, by the reader's name for them.

    A name that the schema has too gets the prefix ``source_``.
    """
    own = {column.name.casefold() for column in source.columns}
    names = [*facts_of(source).origin]
    if source.kind is SourceKind.FILES:
        names = ["source_file"]
    renamed = {"timestamp": "kafka_timestamp"} if facts_of(source).reader == "kafka" else {}
    wanted = {name: renamed.get(name, name) for name in names}
    return {name: f"source_{new}" if new.casefold() in own else new for name, new in wanted.items()}


class _Builder:
    def __init__(self, requirements: Requirements) -> None:
        self._requirements = requirements
        self._made: dict[str, Dataset] = {}

    def datasets(self) -> Iterable[Dataset]:
        for output in self._requirements.outputs:
            self._output(output)
        return self._made.values()

    def _add(self, dataset: Dataset) -> Dataset:
        return self._made.setdefault(dataset.name, dataset)

    def _output(self, output: Output) -> Dataset:
        if output.name in self._made:
            return self._made[output.name]
        kind, latency_s = DatasetKind(output.kind.value), self._requirements.latency_of(output)
        source = self._requirements.root(output)
        if source is None:
            raise ValueError(f"output {output.name} reads no source")
        if latency_class(latency_s) is LatencyClass.REAL_TIME:
            inputs = [self._view(source, DatasetKind.LIVE, latency_s)]
        elif kind is DatasetKind.BRONZE:
            inputs = [self._view(source, DatasetKind.SOURCE, latency_s)]
        else:
            inputs = [self._input(output.reads)]
        if output.kind in CHANGES and source.is_debezium:
            inputs = [self._changes(inputs[0])]
        if output.joins:
            inputs.append(self._joined(output))
        first = inputs[0]
        # What reads Debezium's envelopes sees them as they came.
        is_messages = kind is DatasetKind.BRONZE and source.is_debezium
        return self._add(
            Dataset(
                name=output.name,
                kind=kind,
                source=source,
                output=output,
                reads=tuple(dataset.name for dataset in inputs),
                columns=MESSAGE if is_messages else tuple(_columns(output, inputs)),
                event_time=None if is_messages else _event_time(output, first),
                keys=() if is_messages else _keys(output, inputs),
                is_stream=not is_recomputed(output, self._requirements),
                latency_s=latency_s,
                hops=max(dataset.hops for dataset in inputs) + (kind is not DatasetKind.SINK),
            )
        )

    def _input(self, name: str) -> Dataset:
        """The dataset that a stream reads: an output, or the bronze table of a source."""
        output = self._requirements.output(name)
        if output is not None:
            return self._output(output)
        source = self._requirements.source(name)
        if source is None:
            raise ValueError(f"nothing is named {name}")
        bronze = next((o for o in self._requirements.outputs if o.kind is OutputKind.BRONZE and o.reads == name), None)
        return self._output(bronze) if bronze is not None else self._implied_bronze(source)

    def _implied_bronze(self, source: Source) -> Dataset:
        latency_s = self._latency_of_readers(source)
        view = self._view(source, DatasetKind.SOURCE, latency_s)
        bronze = self._derived(f"{source.name}_bronze", DatasetKind.BRONZE, view, latency_s)
        return self._add(replace(bronze, columns=MESSAGE, event_time=None, keys=()) if source.is_debezium else bronze)

    def _view(self, source: Source, kind: DatasetKind, latency_s: float) -> Dataset:
        suffix = "source" if kind is DatasetKind.SOURCE else "live"
        return self._add(
            Dataset(
                name=f"{source.name}_{suffix}",
                kind=kind,
                source=source,
                output=None,
                reads=(),
                columns=source.columns,
                event_time=source.event_time,
                keys=source.keys,
                is_stream=True,
                latency_s=latency_s,
                hops=0,
            )
        )

    def _changes(self, bronze: Dataset) -> Dataset:
        view = self._derived(f"{bronze.name}_changes", DatasetKind.CHANGES, bronze, bronze.latency_s)
        source = bronze.source
        return self._add(replace(view, columns=source.columns, event_time=source.event_time, keys=source.keys))

    def _joined(self, output: Output) -> Dataset:
        """The other input of a join or an enrichment."""
        name = str(output.joins)
        source = self._requirements.source(name)
        if output.kind is OutputKind.JOIN or source is None:
            return self._input(name)
        # Its view reads all rows at once, so it has none of its own.
        latency_s = self._requirements.latency_of(output)
        return self._add(
            Dataset(
                name=f"{name}_reference",
                kind=DatasetKind.REFERENCE,
                source=source,
                output=None,
                reads=(),
                columns=source.columns,
                event_time=None,
                keys=source.keys,
                is_stream=False,
                latency_s=latency_s,
                hops=1,
            )
        )

    def _derived(self, name: str, kind: DatasetKind, before: Dataset, latency_s: float) -> Dataset:
        return Dataset(
            name=name,
            kind=kind,
            source=before.source,
            output=None,
            reads=(before.name,),
            columns=before.columns,
            event_time=before.event_time,
            keys=before.keys,
            is_stream=True,
            latency_s=latency_s,
            hops=before.hops + (not kind.is_view),
        )

    def _latency_of_readers(self, source: Source) -> float:
        """A table is as fresh as its most demanding reader needs it."""
        found = [
            self._requirements.latency_of(output)
            for output in self._requirements.outputs
            if source in (self._requirements.root(output), self._requirements.source(output.joins or ""))
            and latency_class(self._requirements.latency_of(output)) is not LatencyClass.REAL_TIME
        ]
        return min(found)


def _event_time(output: Output, first: Dataset) -> str | None:
    if output.kind is OutputKind.WINDOWS:
        return "window_end"
    if output.kind is OutputKind.SESSIONS:
        return "session_start"
    wanted = output.at or first.event_time
    return wanted if wanted is None or first.column(wanted) is not None else None


def _keys(output: Output, inputs: Sequence[Dataset]) -> tuple[str, ...]:
    if output.kind in (OutputKind.JOIN, OutputKind.ENRICH):
        return output.on or inputs[1].keys
    return output.keys or inputs[0].keys


def event_time_read(dataset: Dataset, first: Dataset) -> str:
    """The column of its main input that a stateful dataset takes as event time."""
    wanted = dataset.output.at if dataset.output is not None and dataset.output.at else first.event_time
    if wanted is None:
        raise ValueError(f"{dataset.name} has no event time")
    return wanted


def aggregates_of(output: Output) -> dict[str, str]:
    """The aggregates of windows or sessions; sessions count their events anyway."""
    if output.aggregates or output.kind is OutputKind.SESSIONS:
        return dict(output.aggregates)
    return dict(DEFAULT_AGGREGATES)


def _columns(output: Output, inputs: list[Dataset]) -> Iterator[Column]:
    first = inputs[0]
    if output.kind in (OutputKind.WINDOWS, OutputKind.SESSIONS):
        yield from _aggregate_columns(output, first)
        return
    if output.columns and output.kind is not OutputKind.ENRICH:
        yield from (column for name in output.columns if (column := first.column(name)) is not None)
    else:
        yield from first.columns
    if output.kind in (OutputKind.JOIN, OutputKind.ENRICH):
        yield from (Column(new, column.type) for new, column in added_columns(output, first, inputs[1]).items())
    if output.kind is OutputKind.SCD2:
        yield from (Column(name, None) for name in ("__START_AT", "__END_AT"))


def added_columns(output: Output, first: Dataset, second: Dataset) -> dict[str, Column]:
    """The columns that a join or an enrichment adds, by their new names: a name of the main input gets a prefix."""
    on = {name.casefold() for name in _keys(output, (first, second))}
    wanted = {name.casefold() for name in output.columns} if output.kind is OutputKind.ENRICH else set()
    found = {}
    for column in second.columns:
        folded = column.name.casefold()
        if folded in on or (wanted and folded not in wanted):
            continue
        found[f"{second.source.name}_{column.name}" if first.column(column.name) else column.name] = column
    return found


def _aggregate_columns(output: Output, first: Dataset) -> Iterator[Column]:
    for name in output.keys:
        yield first.column(name) or Column(name, None)
    prefix = "window" if output.kind is OutputKind.WINDOWS else "session"
    yield from (Column(f"{prefix}_{end}", "timestamp") for end in ("start", "end"))
    if output.kind is OutputKind.SESSIONS:
        yield Column("events_in_session", "long")
    yield from (Column(name, None) for name in aggregates_of(output))
