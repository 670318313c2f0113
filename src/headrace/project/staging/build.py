"""Builds a stage: what belongs to it, where its flows begin, and the update that reads into it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol
from uuid import uuid4

from headrace.autoloader.source import Source as LoaderSource
from headrace.delta_log.tables import table_exists
from headrace.errors import PipelineError, raise_all
from headrace.events.types import Event
from headrace.graph.analysis import SourceKind
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.resolved_flows import ResolvedFlow, SnapshotFlow
from headrace.graph.select import Selected, Selection
from headrace.model.datasets import Kind
from headrace.model.names import QualifiedName
from headrace.model.outcome import Outcome
from headrace.project.lease_holders import user_name
from headrace.project.update.code_version import code_digest
from headrace.settings.settings import Settings
from headrace.storage.flow_record import FlowRecord, next_epoch, read_record, write_record
from headrace.storage.inventory import first_record, flows_of
from headrace.storage.stages.manifest import Stage, StagedFlow
from headrace.stores.paths import relative_path, storage_path

_OFF = "OFF"


@dataclass(frozen=True)
class StageRequest:
    """A stage to make.

    Attributes:
        selection: its datasets, in the grammar of :mod:`headrace.graph.selectors`.
        exclude: datasets to leave out, in the same form.
        name: its name; empty for that of the first dataset of the selection.
        accept_data_loss: also if rows of production cannot be read again.
    """

    selection: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    name: str = ""
    accept_data_loss: bool = False


class CodeProject(Protocol):
    """A project, as a stage is built from its code."""

    def selected(self, selection: Selection) -> tuple[ResolvedGraph, Selected]:
        """The graph, and what a selection finds in it, if an update could do it.

        Raises:
            Problems: all problems of the project or the selection; rows that cannot be read again.
        """

    def run(self, refresh: tuple[str, ...], *, on_event: Callable[[Event], None] | None) -> Outcome:
        """Run one update of these datasets."""


def new_stage(project: CodeProject, settings: Settings, environ: Mapping[str, str], request: StageRequest) -> Stage:
    """What a stage of a selection has; nothing is written.

    Raises:
        PipelineError: STAGE.NOTHING.
        Problems: STAGE.NOT_DEPLOYED, STAGE.UNSUPPORTED; all problems of the project or the selection.
    """
    selection = Selection(
        full_refresh=request.selection, exclude=request.exclude, accept_data_loss=request.accept_data_loss
    )
    # Read before the code is loaded: what changes meanwhile is found when the stage is swapped in.
    digest = code_digest(settings)
    graph, selected = project.selected(selection)
    wanted = selected.refresh | selected.full_refresh
    names = frozenset(name for name in selected.full_refresh if graph.by_name[name].kind.stored)
    left_out = tuple(_left_out(graph, selected, wanted - names))
    if not names:
        reason = "; ".join(left_out) or "it selects nothing"
        raise PipelineError("STAGE.NOTHING", selection=", ".join(request.selection), reason=reason)
    flows = [flow for name in sorted(names) for flow in graph.flows_into(name)]
    raise_all([*_not_deployed(settings, names), *_unsupported(graph, flows, names)])
    return Stage(
        id=uuid4().hex[:8],
        name=request.name or _default_name(request.selection),
        datasets=tuple(map(str, sorted(names))),
        flows=tuple(_staged_flow(settings, flow) for flow in flows),
        left_out=left_out,
        made_at=time.time(),
        made_by=user_name(environ),
        pipeline=settings.id,
        code_digest=digest,
        accept_data_loss=request.accept_data_loss,
    )


def begin_flows(stage: Stage, settings: Settings, staged: Settings) -> None:
    """Give each flow of a stage the record with which it starts, in an epoch that production has never used.

    So the batches of the stage have in its tables the transactions that they have in production after the swap.
    """
    for flow in stage.flows:
        file = storage_path(staged.layout.root) / flow.folder / "flow.json"
        if read_record(file) is not None:
            continue
        known = read_record(storage_path(settings.layout.root) / flow.folder / "flow.json")
        fresh = FlowRecord(identity=flow.identity, pipeline=settings.id) if known is None else known
        cleared = replace(fresh, flow=flow.name, dataset=flow.dataset).cleared(flow.epoch, rows_lost=False)
        # The mode is that of the new code.
        write_record(file, replace(cleared, identity=flow.identity, mode=""))


def _default_name(selection: Iterable[str]) -> str:
    first = next(iter(selection), "")
    return "".join(letter if letter.isalnum() or letter in "_-" else "-" for letter in first).strip("-_") or "stage"


def _left_out(graph: ResolvedGraph, selected: Selected, names: Iterable[QualifiedName]) -> Iterator[str]:
    for name in sorted(names):
        if graph.by_name[name].kind is Kind.SINK:
            yield f'sink "{name}" is left out: nothing is delivered from a stage'
        elif name in selected.protected:
            yield f'"{name}" is left out: its property pipelines.reset.allowed keeps its rows'
        else:
            yield f'"{name}" is left out: it stores no rows'


def _not_deployed(settings: Settings, names: Iterable[QualifiedName]) -> Iterator[PipelineError]:
    for name in sorted(names):
        if not table_exists(settings.layout.table(settings.naming, name)):
            yield PipelineError("STAGE.NOT_DEPLOYED", name=name)


def _unsupported(
    graph: ResolvedGraph, flows: Iterable[ResolvedFlow], names: frozenset[QualifiedName]
) -> Iterator[PipelineError]:
    for flow in flows:
        reason = _why_not(graph, flow, names)
        if reason:
            yield PipelineError("STAGE.UNSUPPORTED", location=flow.flow.location, flow=flow.name, reason=reason)


def _why_not(graph: ResolvedGraph, flow: ResolvedFlow, names: frozenset[QualifiedName]) -> str:
    if isinstance(flow, SnapshotFlow) and any(given.name in names for given in graph.stored_inputs(flow)):
        return "it reads the versions of a table that is staged too, and the versions of the stage are other ones"
    for source in flow.analysis.sources:
        if source.kind is SourceKind.AUTO_LOADER:
            options = LoaderSource.from_json(source.detail).options
            if options.schema_location is not None:
                return "it sets cloudFiles.schemaLocation, which the stage would share with production"
            if options.clean_source.upper() != _OFF:
                return "it sets cloudFiles.cleanSource: the stage would take files away before production reads them"
            if options.notifications:
                return "it sets cloudFiles.useNotifications: the stage would take messages that production waits for"
        elif source.lacks_retention:
            return f"what {source.name} has sent cannot be read again"
    return ""


def _staged_flow(settings: Settings, flow: ResolvedFlow) -> StagedFlow:
    layout, naming = settings.layout, settings.naming
    file = storage_path(layout.flow_state(naming, flow.target, flow.name))
    known = read_record(file)
    if known is not None and known.unreadable:
        raise PipelineError("FLOW.RECORD_UNREADABLE", flow=flow.name, file=file, reason=known.unreadable)
    first, _ = first_record(flow.name, flows_of(layout, naming, flow.target), None)
    return StagedFlow(
        name=flow.name,
        dataset=str(flow.target),
        folder=str(relative_path(file.parent, storage_path(layout.root))),
        identity=first.identity if known is None else known.identity or known.flow or flow.name,
        epoch=next_epoch(file, known or FlowRecord()),
        production_epoch=-1 if known is None else known.epoch,
        production_fingerprint="" if known is None else known.fingerprint,
    )
