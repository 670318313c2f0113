"""What an adoption would take, and why it must not; reads the project, the table and the job's checkpoints."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.delta_log.table_layout import table_layout
from headrace.delta_log.tables import (
    TableState,
    count_rows,
    open_table_log,
    table_state,
)
from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedDataset, ResolvedGraph
from headrace.graph.resolved_flows import AppendFlow, CompleteFlow, ResolvedFlow
from headrace.graph.select import dataset_name
from headrace.model.datasets import Kind
from headrace.model.local_path import local_path
from headrace.plan.schema_evolution import evolution
from headrace.plan.tables import evolved_by
from headrace.project.adoption.job_comparison import FlowAdoption, compare, notes_on
from headrace.settings.settings import Settings
from headrace.settings.storage import StorageLayout
from headrace.storage.adopted_tables import AdoptedTables, Consent, Handover, TableRecord
from headrace.storage.change_detection import StoredState
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import storage_path


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
        PipelineError: DATASET.UNKNOWN; ADOPT.KIND, ADOPT.NOT_LOCAL, ADOPT.NO_TABLE, ADOPT.INSIDE, ADOPT.OTHER_PIPELINE.
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
    other = None if location == own else _other_storage(location)
    if other is not None:
        raise PipelineError("ADOPT.OTHER_PIPELINE", name=dataset.name, folder=location, storage=other)
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
            taken, found = compare(flow, checkpoint, table, table_id)
        except PipelineError as error:
            problems.append(error)
            continue
        flows.append(taken)
        problems += found
        notes += notes_on(taken, table, now_s)
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


def _other_storage(location: str) -> Path | None:
    """The storage of a pipeline that a table belongs to; None if it lies in none, or has left it."""
    storages = (folder for folder in Path(location).parents if (folder / "system" / "events").is_dir())
    found = next(storages, None)
    if found is None or location in AdoptedTables(StorageLayout(str(found))).released():
        return None
    return found


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
