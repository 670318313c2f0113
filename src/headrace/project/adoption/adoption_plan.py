"""What an adoption would take, and why it must not; reads the project, the table and the job's checkpoints."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.checkpoints.foreign import ForeignCheckpoint, ForeignSource, OffsetKind, read_foreign
from headrace.checkpoints.offsets import files_seen, open_batch_planned_at
from headrace.delta_log.table_layout import table_layout
from headrace.delta_log.tables import (
    TableState,
    committed_transaction,
    count_rows,
    open_table_log,
    table_state,
    table_version_or_none,
)
from headrace.errors import PipelineError
from headrace.graph.analysis import Source, SourceKind
from headrace.graph.resolved import ResolvedDataset, ResolvedGraph
from headrace.graph.resolved_flows import AppendFlow, CompleteFlow, ResolvedFlow
from headrace.graph.select import dataset_name
from headrace.model.datasets import Kind
from headrace.model.local_path import local_path
from headrace.plan.adoption import (
    JobProgress,
    Refused,
    committed_batch,
    files_mismatch,
    state_mismatch,
    topics_mismatch,
)
from headrace.plan.agreement import NONE
from headrace.plan.schema_evolution import evolution
from headrace.plan.tables import evolved_by
from headrace.settings.settings import Settings
from headrace.storage.adopted_tables import AdoptedTables, Consent, Handover, TableRecord
from headrace.storage.change_detection import StoredState
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import storage_path

# A checkpoint that changed this recently may still be written to.
_RECENT_S = 120.0
_OTHER_FORMAT = "delta "


@dataclass(frozen=True)
class AdoptRequest:
    """A table to adopt.

    Attributes:
        dataset: the name of the dataset that it becomes, in any spelling.
        table: its folder.
        checkpoints: the checkpoint of the job of each flow, by the flow's name; under the empty name, that of the only
            flow.
        consents: what is allowed to be done with it.
    """

    dataset: str
    table: str
    checkpoints: Mapping[str, str]
    consents: frozenset[Consent] = frozenset()


@dataclass(frozen=True)
class FlowAdoption:
    """What a flow takes over.

    Attributes:
        flow: the flow.
        job: the checkpoint of the job; None without one.
        committed: the newest batch of the job that the table has; -1 for none.
    """

    flow: ResolvedFlow
    job: ForeignCheckpoint | None
    committed: int = NONE

    @property
    def next_batch(self) -> int:
        """The number of the batch that the flow writes next."""
        return self.committed + 1


@dataclass(frozen=True)
class AdoptionPlan:
    """What an adoption would do.

    Attributes:
        dataset: the name of the dataset.
        location: where the table lies.
        path: its place in the storage.
        table: the table; None without one.
        rows: its rows; None if unknown.
        flows: what each flow takes over.
        changes: what the next update changes about the table.
        notes: what the user should know, in sentences.
        problems: why it is not possible.
        begun: the record of an adoption that a crash has interrupted.
    """

    dataset: str
    location: str
    path: str
    table: TableState | None
    rows: int | None
    flows: tuple[FlowAdoption, ...] = ()
    changes: str = ""
    notes: tuple[str, ...] = ()
    problems: tuple[PipelineError, ...] = ()
    begun: TableRecord | None = None


def plan_adoption(
    graph: ResolvedGraph,
    request: AdoptRequest,
    settings: Settings,
    state: StoredState,
    now_s: float,
    coming: Mapping[str, str],
) -> AdoptionPlan:
    """What an adoption would do; writes nothing.

    Args:
        graph: the project.
        request: what to adopt.
        settings: the pipeline's.
        state: the stored state of the pipeline.
        now_s: the time, in seconds since 1970.
        coming: the ids of tables that are adopted before, by the names of their datasets.

    Raises:
        PipelineError: DATASET.UNKNOWN; ADOPT.KIND, ADOPT.NOT_LOCAL, ADOPT.NO_TABLE, ADOPT.INSIDE.
    """
    dataset = _dataset(graph, request.dataset, settings)
    if isinstance(storage_path(settings.storage), ObjectPath) or "://" in request.table.removeprefix("file://"):
        raise PipelineError("ADOPT.NOT_LOCAL", name=dataset.name, folder=request.table)
    location = os.path.realpath(local_path(request.table))
    path = settings.layout.table(settings.naming, dataset.name)
    table = table_state(location)
    if table is None:
        raise PipelineError("ADOPT.NO_TABLE", name=dataset.name, folder=location)
    own = os.path.realpath(path)
    if location != own and Path(location).is_relative_to(os.path.realpath(settings.storage)):
        raise PipelineError("ADOPT.INSIDE", name=dataset.name, folder=location)
    records = AdoptedTables(settings.layout)
    known = next((record for record in records.all() if record.table_id == table.table_id), None)
    begun = known if known is not None and known.state is Handover.ADOPTING else None
    problems = [*_place_problems(records, dataset, location, path, known)]
    step, problem = evolution(dataset, table, table_layout(location), evolved_by(graph, dataset), full_refresh=False)
    problems += [] if problem is None else [problem]

    def table_id(text: str) -> str | None:
        known = settings.naming.canonical(text)
        deployed = state.table(known)
        return coming.get(str(known), None if deployed is None else deployed.table_id)

    notes: list[str] = []
    flows = []
    for flow, checkpoint in _paired(graph, dataset, request):
        try:
            taken, found = _flow(flow, checkpoint, table, table_id)
        except PipelineError as error:
            problems.append(error)
            continue
        flows.append(taken)
        problems += found
        notes += _notes(taken, table, now_s)
    log = open_table_log(location)
    return AdoptionPlan(
        str(dataset.name),
        location,
        path,
        table,
        None if log is None else count_rows(log, location),
        tuple(flows),
        "" if step is None else step.reason,
        tuple(notes),
        tuple(problems),
        begun,
    )


def _dataset(graph: ResolvedGraph, text: str, settings: Settings) -> ResolvedDataset:
    name = dataset_name(graph, text, settings.naming)
    dataset = graph.by_name[name]
    if dataset.kind is not Kind.STREAMING_TABLE:
        reason = f"it is a {dataset.label}, and an update computes it or delivers to it as a whole"
        raise PipelineError("ADOPT.KIND", location=dataset.dataset.location, name=name, reason=reason)
    for flow in graph.flows_into(name):
        if not isinstance(flow, AppendFlow | CompleteFlow):
            reason = (
                f'flow "{flow.name}" is of the kind "{flow.mode.value}", which needs more than a table and a checkpoint'
            )
            raise PipelineError("ADOPT.KIND", location=flow.flow.location, name=name, reason=reason)
    return dataset


def _place_problems(
    records: AdoptedTables, dataset: ResolvedDataset, location: str, path: str, known: TableRecord | None
) -> Iterator[PipelineError]:
    """Why the table cannot take its place in the storage."""
    name = str(dataset.name)
    other = records.of(name, path)
    if known is not None and known.state is Handover.ADOPTED and known.storage == os.path.realpath(records.root):
        yield PipelineError("ADOPT.TAKEN", name=known.dataset, folder=location)
    elif other is not None and other.location != location and other.state is not Handover.RELEASED:
        yield PipelineError("ADOPT.HAS_TABLE", name=name, folder=other.location)
    elif os.path.lexists(path) and os.path.realpath(path) != location:
        yield PipelineError("ADOPT.HAS_TABLE", name=name, folder=path)
    elif os.path.lexists(path) and known is None:
        # Its own table, which never left.
        yield PipelineError("ADOPT.HAS_TABLE", name=name, folder=path)
    elif known is not None and known.state is Handover.RELEASING:
        yield PipelineError("ADOPT.UNFINISHED", dataset=known.dataset, verb="release")


def _paired(
    graph: ResolvedGraph, dataset: ResolvedDataset, request: AdoptRequest
) -> Sequence[tuple[ResolvedFlow, str]]:
    """The flows of a dataset, each with its checkpoint, or an empty text.

    Raises:
        PipelineError: ADOPT.WHICH_FLOW.
    """
    flows = graph.flows_into(dataset.name)
    names = {flow.name for flow in flows}
    unknown = sorted(name for name in request.checkpoints if name and name not in names)
    if unknown or ("" in request.checkpoints and len(flows) != 1):
        listed = ", ".join(f'"{name}"' for name in sorted(names))
        raise PipelineError("ADOPT.WHICH_FLOW", name=dataset.name, flows=listed or "no flow")
    given = request.checkpoints
    return [(flow, given.get(flow.name, given.get("", ""))) for flow in flows]


def _flow(
    flow: ResolvedFlow, checkpoint: str, table: TableState, table_id: Callable[[str], str | None]
) -> tuple[FlowAdoption, list[PipelineError]]:
    if not checkpoint:
        return FlowAdoption(flow, None), []
    if "://" in checkpoint.removeprefix("file://"):
        raise PipelineError("ADOPT.NOT_LOCAL", name=flow.target, folder=checkpoint)
    job = read_foreign(storage_path(os.path.realpath(local_path(checkpoint))))
    location, params = flow.flow.location, {"flow": flow.name, "name": flow.target, "checkpoint": job.path}
    if job.vendor_parts:
        raise PipelineError("ADOPT.DATABRICKS", location=location, parts="; ".join(job.vendor_parts), **params)
    problems = [
        PipelineError("ADOPT.OTHER_SOURCES", location=location, reason=reason, **params)
        for reason in _source_mismatches(flow, job, table_id)
    ]
    reason = state_mismatch(job.operators, [operator.kind for operator in flow.analysis.operators])
    if reason and job.done != NONE:
        problems.append(PipelineError("ADOPT.OTHER_STATE", location=location, reason=reason, **params))
    transaction = committed_transaction(table.path, job.query_id)
    committed = committed_batch(JobProgress(job.planned, job.done, transaction))
    if isinstance(committed, Refused):
        problems.append(PipelineError(committed.code, location=location, reason=committed.reason, **params))
        committed = NONE
    return FlowAdoption(flow, job, committed), problems


def _source_mismatches(
    flow: ResolvedFlow, job: ForeignCheckpoint, table_id: Callable[[str], str | None]
) -> Iterator[str]:
    """Why the sources of a job are not those of a flow, a reason for each."""
    sources = flow.analysis.sources
    if job.planned == NONE:
        return
    if len(job.sources) != len(sources):
        yield f"the checkpoint has {_count(len(job.sources))}, and the flow reads {_count(len(sources))}"
        return
    for number, (source, known) in enumerate(zip(sources, job.sources, strict=True)):
        reason = _source_mismatch(number, source, known, job, table_id)
        if reason:
            yield f"source {number} of the checkpoint is {known.kind.value}, the flow reads {source.name}: {reason}"


def _source_mismatch(
    number: int,
    source: Source,
    known: ForeignSource,
    job: ForeignCheckpoint,
    table_id: Callable[[str], str | None],
) -> str:
    if known.kind is OffsetKind.NOTHING:
        return ""
    match source.kind, known.kind:
        case SourceKind.DATASET, OffsetKind.DELTA:
            return _table_mismatch(table_id(source.detail), known.offset)
        case SourceKind.OTHER, OffsetKind.DELTA if source.detail.startswith(_OTHER_FORMAT):
            version = table_version_or_none(local_path(source.detail.removeprefix(_OTHER_FORMAT)))
            return _table_mismatch(None if version is None else version.table_id, known.offset)
        case SourceKind.FILES, OffsetKind.FILES:
            patterns = map(local_path, json.loads(source.detail)["paths"])
            return files_mismatch(files_seen(job.path, number), patterns)
        case SourceKind.OTHER, OffsetKind.KAFKA if source.detail.partition(" ")[0].casefold() == "kafka":
            return topics_mismatch(known.offset, source.detail)
        case SourceKind.AUTO_LOADER, OffsetKind.FILES:
            return "Auto Loader cannot continue a listing of Spark's own file source; use spark.readStream.json(...)"
        case _:
            return "it cannot be known whether they are the same"


def _table_mismatch(table_id: str | None, offset: Mapping[str, object]) -> str:
    read = offset.get("reservoirId")
    if table_id is None:
        return "that table does not exist"
    return "" if read == table_id else f"it has read the table with the id {read}, and this one has {table_id}"


def _notes(taken: FlowAdoption, table: TableState, now_s: float) -> Iterator[str]:
    flow, job = taken.flow, taken.job
    if job is None:
        yield (
            f'flow "{flow.name}" has no checkpoint, and does not run before you say where it starts: '
            f"headrace run --reset-checkpoint {flow.name}=START"
        )
        return
    if job.planned > taken.committed:
        yield f'flow "{flow.name}" writes batch {job.planned} again: the job has planned it and not written it'
    elif job.planned > job.done:
        yield f'flow "{flow.name}" skips batch {job.planned}: the job was stopped after the table had it'
    if committed_transaction(table.path, job.query_id) is None and job.planned != NONE:
        yield (
            "the table has no transaction of the job, as of one that writes with foreachBatch: "
            "that its batches are in the table is known from the checkpoint alone"
        )
    written_at = _newest_write(job)
    if written_at is not None and now_s - written_at < _RECENT_S:
        yield f"the checkpoint was written {max(now_s - written_at, 0):.0f} s ago: make sure that the job is stopped"


def _newest_write(job: ForeignCheckpoint) -> float | None:
    """When the checkpoint was written last; None if that is unknown."""
    opened = open_batch_planned_at(job.path)
    if opened is not None:
        return opened
    try:
        return (job.path / "commits" / str(job.done)).stat().st_mtime if job.done != NONE else None
    except OSError:
        return None


def _count(sources: int) -> str:
    return f"{sources} source{'' if sources == 1 else 's'}"


def is_running(before: Iterable[FlowAdoption]) -> str:
    """Why a job is still running, by what its checkpoint has now; empty if nothing has changed since it was read."""
    for taken in before:
        if taken.job is None:
            continue
        now = read_foreign(taken.job.path)
        if (now.planned, now.done) != (taken.job.planned, taken.job.done):
            return (
                f'the checkpoint of flow "{taken.flow.name}" was at batch {taken.job.planned}, and is at {now.planned}'
            )
    return ""
