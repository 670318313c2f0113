"""Events of OpenLineage about the runs of an update's flows, made from the events of its log.

A flow is a job; an update runs it once. The run begins with the first sign that the flow does something, so a flow that
is up to date has no run, and ends once. Counts of an event are those since the event before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, TypeAlias
from uuid import NAMESPACE_URL, UUID, uuid5

from headrace.events.levels import Json
from headrace.events.types import (
    TERMINAL_UPDATE_STATES,
    BatchDone,
    DatasetDefined,
    Event,
    FlowDefined,
    FlowStateChanged,
    SinkDefined,
    StreamProgress,
    TableEvaluated,
    UpdateCreated,
    UpdateStateChanged,
)
from headrace.lineage.datasets import Datasets
from headrace.lineage.facets import RUN_EVENT, Batches, Facets, Repository
from headrace.model.location import split_cell
from headrace.model.outcome import FlowCounts, FlowState, UpdateState

RunEvent: TypeAlias = dict[str, Any]

_STREAMING = frozenset({"APPEND", "UPDATE", "COMPLETE", "CHANGE"})
_LOST = "the process of the update is gone, without recording how the flow ended"


class EventType(str, Enum):
    """How a run has changed."""

    START = "START"
    RUNNING = "RUNNING"
    COMPLETE = "COMPLETE"
    FAIL = "FAIL"
    ABORT = "ABORT"


_ENDS = {
    FlowState.COMPLETED: EventType.COMPLETE,
    FlowState.FAILED: EventType.FAIL,
    FlowState.CANCELED: EventType.ABORT,
}
_ENDS_OF_UPDATE = {
    UpdateState.COMPLETED: EventType.COMPLETE,
    UpdateState.FAILED: EventType.FAIL,
    UpdateState.CANCELED: EventType.ABORT,
}


@dataclass(frozen=True)
class Producer:
    """What makes the events, and of which update.

    Attributes:
        namespace: of the jobs.
        pipeline: its name.
        update_id: of the update.
        every_s: how often a run that goes on is reported, at most.
        version: of Headrace.
        spark_version: of Spark; empty if unknown.
        repository: what the project is in; None if unknown.
    """

    namespace: str
    pipeline: str
    update_id: str
    every_s: float
    version: str
    spark_version: str = ""
    repository: Repository | None = None

    @property
    def uri(self) -> str:
        """Identifies what makes the events."""
        return f"urn:headrace:{self.version}"

    @property
    def update_run_id(self) -> str:
        """The run of the update: its id, unless that is no UUID."""
        return str(_uuid(self.update_id))

    def run_id(self, flow: str) -> str:
        """The run of a flow: the same whoever computes it, and whenever."""
        return str(uuid5(_uuid(self.update_id), flow))


def _uuid(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        return uuid5(NAMESPACE_URL, text)


@dataclass
class _Run:
    """A run of a flow, and what happened since its last event."""

    flow: str
    dataset: str
    begun_at: datetime
    # When the last event was sent; None before the first one.
    reported_at: datetime | None = None
    is_ended: bool = False
    counts: FlowCounts = field(default_factory=FlowCounts)
    batches: Batches | None = None
    size: int = 0
    files: int = 0
    has_files: bool = False
    # Rows by the description of the source.
    rows_read: dict[str, int] = field(default_factory=dict)
    # The newest batch of each epoch: of several records of a batch only the first counts.
    newest: dict[int, int] = field(default_factory=dict)

    def add_batch(self, event: BatchDone) -> None:
        if event.batch_id <= self.newest.get(event.epoch, -1):
            return
        self.newest[event.epoch] = event.batch_id
        self.counts = self.counts.plus(event.counts)
        known, commit = self.batches, event.commit
        first = known.first_batch if known is not None and known.epoch == event.epoch else event.batch_id
        version = commit.version if commit is not None else known.table_version if known is not None else None
        self.batches = Batches(event.epoch, first, event.batch_id, version)
        if commit is not None:
            self.size, self.files, self.has_files = self.size + commit.size, self.files + commit.files, True

    def reset(self, at: datetime) -> None:
        """Nothing has happened since the event at a time."""
        self.reported_at, self.counts, self.batches = at, FlowCounts(), None
        self.size, self.files, self.has_files = 0, 0, False
        self.rows_read = {}


class RunEvents:
    """Makes the events of one update from those of its log, in their order.

    Law: each run that is started ends exactly once, at the latest with the update or by :meth:`lost`. The ids of runs
    depend on the update and the flow alone.
    """

    def __init__(self, producer: Producer) -> None:
        self._producer = producer
        self._facets = Facets(producer.uri)
        self._datasets = Datasets(producer.namespace)
        self._commit: str | None = None
        self._runs: dict[str, _Run] = {}

    def add(self, event: Event, at: datetime) -> list[RunEvent]:
        """The events that the next event of the log, at a time, makes due."""
        match event:
            case UpdateCreated(git_commit=commit):
                self._commit = commit
            case DatasetDefined() | SinkDefined() | FlowDefined():
                self._datasets.add(event)
            case FlowStateChanged():
                return list(self._changed(event, at))
            case BatchDone() | StreamProgress() | TableEvaluated():
                return list(self._progressed(event, at))
            case UpdateStateChanged(state=state, error=error) if state in TERMINAL_UPDATE_STATES:
                return [self._ended(run, _ENDS_OF_UPDATE[state], at, error=error) for run in self._open()]
            case _:
                pass
        return []

    def lost(self, at: datetime) -> list[RunEvent]:
        """The ends of the runs that have none, of an update whose process is gone; *at* is its last sign of life."""
        return [self._ended(run, EventType.ABORT, at, reason=_LOST) for run in self._open()]

    def _open(self) -> list[_Run]:
        return [run for run in self._runs.values() if run.reported_at is not None and not run.is_ended]

    def _changed(self, event: FlowStateChanged, at: datetime) -> Iterator[RunEvent]:
        run = self._runs.get(event.flow)
        if event.state is FlowState.STARTING and run is None:
            # It may turn out to be up to date.
            self._runs[event.flow] = _Run(event.flow, event.dataset, at)
            return
        if run is None:
            if event.state not in (FlowState.RUNNING, FlowState.FAILED, FlowState.COMPLETED, FlowState.RETRYING):
                return
            run = self._runs[event.flow] = _Run(event.flow, event.dataset, at)
        if run.is_ended:
            return
        if event.state is FlowState.UP_TO_DATE or (event.state is FlowState.CANCELED and run.reported_at is None):
            if run.reported_at is None:
                del self._runs[event.flow]
                return
            yield self._ended(run, EventType.COMPLETE, at)
            return
        if event.state in (FlowState.RUNNING, FlowState.RETRYING) or event.state in _ENDS:
            yield from self._started(run)
        if event.state in _ENDS:
            yield self._ended(run, _ENDS[event.state], at, error=event.error, reason=event.reason)

    def _progressed(self, event: BatchDone | StreamProgress | TableEvaluated, at: datetime) -> Iterator[RunEvent]:
        run = self._runs.setdefault(event.flow, _Run(event.flow, event.dataset, at))
        if run.is_ended:
            return
        if isinstance(event, StreamProgress) and not event.progress.batches:
            return
        yield from self._started(run)
        match event:
            case BatchDone():
                run.add_batch(event)
            case TableEvaluated():
                run.counts = run.counts.plus(FlowCounts(expectations=event.expectations))
            case StreamProgress(progress=progress):
                for source in progress.sources:
                    run.rows_read[source.source] = run.rows_read.get(source.source, 0) + source.input_rows
        if run.reported_at is not None and at - run.reported_at >= timedelta(seconds=self._producer.every_s):
            yield self._event(EventType.RUNNING, run, at)

    def _started(self, run: _Run) -> Iterator[RunEvent]:
        if run.reported_at is None:
            yield self._event(EventType.START, run, run.begun_at)

    def _ended(
        self, run: _Run, kind: EventType, at: datetime, *, error: Json | None = None, reason: str | None = None
    ) -> RunEvent:
        run.is_ended = True
        failed = kind is EventType.FAIL or (kind is EventType.ABORT and (error is not None or reason is not None))
        message = {"errorMessage": self._facets.error_message(error, reason)} if failed else {}
        return self._event(kind, run, at, message)

    def _event(self, kind: EventType, run: _Run, at: datetime, facets: Mapping[str, Any] | None = None) -> RunEvent:
        producer = self._producer
        # Some receivers keep the facets of the last event alone.
        is_whole = kind is not EventType.RUNNING
        found = {
            "eventType": kind.value,
            "eventTime": at.isoformat(),
            "producer": producer.uri,
            "schemaURL": RUN_EVENT,
            "run": {"runId": producer.run_id(run.flow), "facets": {**self._run_facets(run), **(facets or {})}},
            "job": {
                "namespace": producer.namespace,
                "name": f"{run.dataset}.{run.flow}",
                "facets": self._job_facets(run),
            },
            "inputs": self._inputs(run, is_whole=is_whole),
            "outputs": self._outputs(run, is_whole=is_whole, has_counts=kind is not EventType.START),
        }
        run.reset(at)
        return found

    def _run_facets(self, run: _Run) -> dict[str, Any]:
        producer, facets = self._producer, self._facets
        found = {"parent": facets.parent(producer.update_run_id, producer.namespace, producer.pipeline)}
        if producer.spark_version:
            found["processing_engine"] = facets.processing_engine(producer.spark_version, producer.version)
        if run.batches is not None:
            found["headrace_batch"] = facets.batches(run.batches)
        return found

    def _job_facets(self, run: _Run) -> dict[str, Any]:
        flow, repository = self._datasets.flow(run.flow), self._producer.repository
        is_streaming = flow is not None and flow.mode in _STREAMING and not flow.once
        found = {"jobType": self._facets.job_type(is_streaming=is_streaming)}
        if flow is not None and flow.location is not None and repository is not None and self._commit is not None:
            place = self._facets.source_code_location(repository, self._commit, split_cell(flow.location.file)[0])
            found |= {} if place is None else {"sourceCodeLocation": place}
        return found

    def _inputs(self, run: _Run, *, is_whole: bool) -> list[dict[str, Any]]:
        found = []
        for dataset in self._datasets.inputs(run.flow):
            facets = self._dataset_facets(self._datasets.names_of(dataset)) if is_whole else {}
            rows = self._datasets.rows_of(run.flow, dataset, run.rows_read)
            statistics = {} if rows is None else {"inputStatistics": self._facets.input_statistics(rows)}
            found.append(_dataset_json(dataset.namespace, dataset.name, facets, inputFacets=statistics))
        return found

    def _outputs(self, run: _Run, *, is_whole: bool, has_counts: bool) -> list[dict[str, Any]]:
        facets: dict[str, Any] = {}
        if is_whole:
            facets = self._dataset_facets((run.dataset,))
            columns = self._datasets.columns(run.flow)
            if columns is not None and columns.columns:
                facets["columnLineage"] = self._facets.column_lineage(columns, self._datasets.ids)
        statistics: dict[str, Any] = {}
        if has_counts:
            size, files = (run.size, run.files) if run.has_files else (None, None)
            statistics["outputStatistics"] = self._facets.output_statistics(run.counts.rows_written, size, files)
            if run.counts.expectations:
                target = self._datasets.table(run.dataset)
                facts = () if target is None else target.facts
                statistics["dataQualityAssertions"] = self._facets.assertions(run.counts.expectations, facts)
        return [
            _dataset_json(dataset.namespace, dataset.name, facets, outputFacets=statistics)
            for dataset in self._datasets.outputs(run.dataset)
        ]

    def _dataset_facets(self, names: Iterable[str]) -> dict[str, Any]:
        """The schema and the name of a table of the pipeline."""
        facets: dict[str, Any] = {}
        for name in names:
            defined = self._datasets.table(name)
            if defined is not None:
                facets |= {"schema": self._facets.schema(defined.schema)} if defined.schema else {}
                facets["symlinks"] = self._facets.symlinks(self._producer.namespace, name)
        return facets


def _dataset_json(
    namespace: str, name: str, facets: Mapping[str, Any], **of_event: Mapping[str, Any]
) -> dict[str, Any]:
    known = {key: value for key, value in {"facets": facets, **of_event}.items() if value}
    return {"namespace": namespace, "name": name, **known}
