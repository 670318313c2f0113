"""The schedules of a pipeline: those of its settings, and those of its code as the newest update recorded them.

A schedule in the code takes effect with the update that deploys the code, as the rest of a dataset's definition does.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from headrace.events.reader import EventReader
from headrace.events.recorded import recorded_rows
from headrace.events.types import DatasetDefined, FlowDefined, UpdateCreated, UpdateStateChanged
from headrace.model.datasets import Kind
from headrace.model.names import InvalidName
from headrace.model.outcome import UpdateState
from headrace.schedules.clause import schedule_of
from headrace.schedules.cron import InvalidSchedule
from headrace.schedules.definition import Schedule
from headrace.settings.settings import Settings
from headrace.stores.paths import storage_path

_STORED = (Kind.STREAMING_TABLE, Kind.MATERIALIZED_VIEW, Kind.TABLE)
# The updates in which definitions are looked for.
_UPDATES = 200


@dataclass(frozen=True)
class Declared:
    """The schedules, and the definitions that they refer to.

    Attributes:
        schedules: all of them.
        paths: of the tables of the pipeline, by dataset.
        inputs: by dataset, what its flows read: datasets, and inputs outside of the pipeline.
        problems: what is wrong with schedules of the code, by their name.
    """

    schedules: tuple[Schedule, ...] = ()
    paths: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    inputs: Mapping[str, tuple[str, ...]] = field(default_factory=lambda: MappingProxyType({}))
    problems: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))

    def tables_read_by(self, dataset: str) -> Mapping[str, str]:
        """The Delta tables that a dataset reads, directly or through views, with their paths."""
        found: dict[str, str] = {}
        waiting, seen = list(self.inputs.get(dataset, ())), set[str]()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if name in self.paths:
                found[name] = self.paths[name]
            elif name in self.inputs:
                waiting += self.inputs[name]
            elif (path := _table_path(name)) is not None:
                found[name] = path
        return found


class DeclaredSchedules:
    """Reads the schedules of a pipeline; reads the event log again when it has changed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._reader = EventReader(settings.layout.events)
        self._read: tuple[tuple[str, int] | None, Declared] | None = None

    def current(self) -> Declared:
        """The schedules now.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        position = self._reader.position
        if self._read is None or self._read[0] != position:
            self._read = position, declared(self._settings, self._reader)
        return self._read[1]

    def paths_of(self, names: tuple[str, ...]) -> Mapping[str, str]:
        """The paths of tables, given by the names of datasets or as paths.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        return {name: self._path(name, self.current().paths) for name in names}

    def _path(self, name: str, known: Mapping[str, str]) -> str:
        if name in known:
            return known[name]
        if "/" in name:
            return name if name.startswith("/") or "://" in name else str(self._settings.root / name)
        naming = self._settings.naming
        try:
            return self._settings.layout.table(naming, naming.canonical(name))
        except InvalidName:
            return name


def declared(settings: Settings, reader: EventReader) -> Declared:
    """The schedules of the settings, and of the newest definitions in the event log.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    definitions = _newest_definitions(reader) if reader.exists else ()
    datasets = [event for event in definitions if isinstance(event, DatasetDefined)]
    inputs: dict[str, tuple[str, ...]] = {}
    for event in definitions:
        if isinstance(event, FlowDefined):
            outside = tuple(given.name for given in event.external_inputs)
            inputs[event.dataset] = (*inputs.get(event.dataset, ()), *event.inputs, *outside)
    in_code, problems = [], {}
    for dataset in datasets:
        if dataset.schedule:
            try:
                in_code.append(schedule_of(dataset.dataset, dataset.schedule, settings.update_retries))
            except InvalidSchedule as invalid:
                problems[f"dataset:{dataset.dataset}"] = str(invalid)
    if any(schedule.is_continuous for schedule in settings.schedules):
        # The continuous update refreshes everything as it comes.
        problems |= {one.name: "the continuous update refreshes its dataset already" for one in in_code}
        in_code = []
    return Declared(
        (*settings.schedules, *in_code),
        {one.dataset: one.path for one in datasets if one.path is not None and one.kind in _STORED},
        inputs,
        problems,
    )


def _newest_definitions(reader: EventReader) -> tuple[DatasetDefined | FlowDefined, ...]:
    """The newest definition of each dataset and flow, since an update of all flows has completed.

    An update leaves out what reads a source that is unavailable. It does not complete then, so its definitions are
    added to those before it.
    """
    created = recorded_rows(reader, f"event_type = '{UpdateCreated.event_type}'", f"id DESC LIMIT {_UPDATES}")
    if not created:
        return ()
    states = f"event_type = '{UpdateStateChanged.event_type}' AND id >= '{created[-1].row_id}'"
    completed = {
        one.update_id
        for one in recorded_rows(reader, states)
        if isinstance(one.event, UpdateStateChanged) and one.event.state is UpdateState.COMPLETED
    }
    whole = (
        one
        for one in created
        if isinstance(one.event, UpdateCreated) and one.event.is_whole and one.update_id in completed
    )
    first = next(whole, created[-1])
    kinds = f"event_type IN ('{DatasetDefined.event_type}', '{FlowDefined.event_type}')"
    names = "event_type, origin['dataset_name'], origin['flow_name']"
    numbered = (
        f"SELECT id, row_number() OVER (PARTITION BY {names} ORDER BY id DESC) AS number "  # noqa: S608 - our words
        f"FROM events WHERE {kinds} AND id >= '{first.row_id}'"
    )
    newest = recorded_rows(reader, f"id IN (SELECT id FROM ({numbered}) WHERE number = 1)")  # noqa: S608 - the same
    return tuple(one.event for one in newest if isinstance(one.event, DatasetDefined | FlowDefined))


def _table_path(name: str) -> str | None:
    """The path in the description of an input, if it is one of a Delta table."""
    path = name.removeprefix("delta ").strip()
    is_path = path.startswith("/") or "://" in path
    return path if is_path and (storage_path(path) / "_delta_log").is_dir() else None
