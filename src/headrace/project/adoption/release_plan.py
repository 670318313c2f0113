"""What a release would do, and why it must not; reads the storage alone, not the project's code."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from headrace.checkpoints.offsets import read_progress
from headrace.checkpoints.state_formats import format_of, format_text
from headrace.checkpoints.state_stores import state_operators
from headrace.delta_log.table_features import features_of
from headrace.delta_log.table_layout import table_layout
from headrace.delta_log.tables import TableState, count_rows, open_table_log, table_state
from headrace.errors import PipelineError
from headrace.graph.resolved_flows import Mode
from headrace.options.nearest import did_you_mean
from headrace.settings.settings import Settings
from headrace.storage.adopted_tables import AdoptedTables, Handover, TableRecord
from headrace.storage.backfills import stored_backfills
from headrace.storage.health import FlowHealth
from headrace.storage.inventory import stored_tables
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import on_disk, storage_path

# Streams that a plain job can continue; the others need what Headrace keeps beside the table.
_PLAIN = (Mode.APPEND, Mode.COMPLETE)
_LEDGER = {"ledger", "number"}


@dataclass(frozen=True)
class ReleaseRequest:
    """A table to release.

    Attributes:
        dataset: its name, in any spelling.
        checkpoint_to: the folder for its checkpoint; empty for none.
        drops_progress: the progress of its flows is not needed.
    """

    dataset: str
    checkpoint_to: str = ""
    drops_progress: bool = False


@dataclass(frozen=True)
class FlowRelease:
    """A flow that is retired.

    Attributes:
        flow: the flow.
        checkpoint: where its checkpoint goes; empty if it is not written out.
        query_id: the id under which a job goes on; empty the same way.
        settings: of Spark, that a job needs to open the state; empty without state.
    """

    flow: FlowHealth
    checkpoint: str
    query_id: str
    settings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class ReleasePlan:
    """What a release would do.

    Attributes:
        dataset: the name of the dataset.
        location: where the table lies, and stays.
        path: its place in the storage.
        table: the table; None if it is lost.
        rows: its rows.
        features: the table features that a reader has to know.
        flows: the flows that are retired.
        is_adopted: the table lies outside of the storage.
        notes: what the user should know, in sentences.
        problems: why it is not possible.
        record: of the table; None for one that was made here.
    """

    dataset: str
    location: str
    path: str
    table: TableState | None
    rows: int
    features: tuple[str, ...]
    flows: tuple[FlowRelease, ...]
    is_adopted: bool
    notes: tuple[str, ...] = ()
    problems: tuple[PipelineError, ...] = ()
    record: TableRecord | None = None


def plan_release(settings: Settings, flows: Sequence[FlowHealth], request: ReleaseRequest) -> ReleasePlan:
    """What a release would do; writes nothing.

    Args:
        settings: the pipeline's.
        flows: the flows of the storage.
        request: what to release.

    Raises:
        PipelineError: RELEASE.UNKNOWN, RELEASE.RELEASED, RELEASE.HOW, RELEASE.NOT_LOCAL.
    """
    layout, naming = settings.layout, settings.naming
    if isinstance(storage_path(settings.storage), ObjectPath):
        raise PipelineError("RELEASE.NOT_LOCAL", name=request.dataset)
    name = naming.canonical(request.dataset)
    path = layout.table(naming, name)
    record = AdoptedTables(layout).of(str(name), path)
    if record is not None and record.state is Handover.RELEASED:
        raise PipelineError("RELEASE.RELEASED", dataset=str(name), folder=record.location)
    location = os.path.realpath(path) if record is None else record.location
    table = table_state(location)
    is_known = record is not None or any(found == name for found, _ in stored_tables(layout, naming))
    if not is_known or (table is None and record is None):
        known = [str(found) for found, _ in stored_tables(layout, naming)]
        raise PipelineError("RELEASE.UNKNOWN", name=request.dataset, suggestion=did_you_mean(request.dataset, known))
    own = [flow for flow in flows if flow.stored.dataset == name]
    if bool(request.checkpoint_to) == request.drops_progress and (own or request.checkpoint_to):
        raise PipelineError("RELEASE.HOW", name=request.dataset)
    released = tuple(_released(own, request, record))
    log = open_table_log(location)
    features = () if table is None else features_of(table_layout(location).features, table.properties).names
    is_begun = record is not None and record.state is Handover.RELEASING
    problems = () if is_begun else tuple(_problems(released, settings))
    return ReleasePlan(
        str(name),
        location,
        path,
        table,
        0 if log is None else count_rows(log, location),
        features,
        released,
        record is not None and on_disk(storage_path(path), "releasing").is_symlink(),
        tuple(_notes(released, flows, "" if table is None else table.table_id, str(name))),
        problems,
        record,
    )


def _released(own: list[FlowHealth], request: ReleaseRequest, record: TableRecord | None) -> Iterator[FlowRelease]:
    begun = {} if record is None or record.state is not Handover.RELEASING else {f.flow: f for f in record.flows}
    streams = [flow for flow in own if flow.has_checkpoint]
    for flow in own:
        if flow.stored.name in begun:
            known = begun[flow.stored.name]
            yield FlowRelease(flow, known.checkpoint, known.query_id)
        elif flow not in streams or not request.checkpoint_to:
            yield FlowRelease(flow, "", "")
        else:
            base = os.path.abspath(request.checkpoint_to)  # noqa: PTH100 - resolves no links
            folder = base if len(streams) == 1 else f"{base}/{flow.stored.file.parent.name}"
            # Read now: what the pipeline has of the flow is moved away.
            path = flow.stores.checkpoint
            yield FlowRelease(flow, folder, str(uuid4()), dict(format_of(path)) if state_operators(path) else {})


def _problems(released: Iterable[FlowRelease], settings: Settings) -> Iterator[PipelineError]:
    for one in released:
        flow, name = one.flow, one.flow.stored.name
        record = flow.stored.record
        reason = ""
        if any(backfill.pending for backfill in stored_backfills(flow.stored.file.parent, settings.naming.canonical)):
            reason = "a backfill or a replay is unfinished; the next update finishes it"
        elif record.resetting:
            reason = "a full refresh or a reset is unfinished; the next update finishes it"
        elif one.checkpoint:
            reason = _no_export(one)
        if reason:
            yield PipelineError("RELEASE.NOT_POSSIBLE", flow=name, name=flow.stored.dataset, reason=reason)


def _no_export(one: FlowRelease) -> str:
    """Why a plain job cannot go on with the checkpoint of a flow; empty if it can."""
    flow = one.flow
    if flow.stores.mode not in _PLAIN:
        return f'it is of the kind "{flow.stores.mode.value}", whose rows depend on more than a checkpoint'
    if flow.problem is not None:
        return f"its stores do not agree: {flow.problem.message}"
    if not (flow.stores.checkpoint / "metadata").is_file():
        return "it has no checkpoint"
    progress = read_progress(flow.stores.checkpoint)
    offsets = progress.offsets if progress is not None else ()
    if any(isinstance(offset, Mapping) and offset.keys() >= _LEDGER for offset in offsets):
        return "it reads with Auto Loader, which plain Spark does not have"
    if os.path.lexists(one.checkpoint) and os.listdir(one.checkpoint):  # noqa: PTH208 - a folder of the user
        return f"{one.checkpoint} is not empty"
    return ""


def _notes(released: Iterable[FlowRelease], flows: Iterable[FlowHealth], table_id: str, dataset: str) -> Iterator[str]:
    for one in released:
        if not one.checkpoint:
            continue
        if one.flow.stores.mode is Mode.COMPLETE:
            yield f'the job of flow "{one.flow.stored.name}" writes with outputMode("complete")'
        if one.settings:
            confs = ", ".join(f"{key}={value}" for key, value in sorted(one.settings.items()))
            yield f"its state is in the format {format_text(one.settings)}: the job needs {confs}"
    for flow in flows:
        if str(flow.stored.dataset) != dataset and flow.has_checkpoint and _reads(flow, table_id):
            yield f'flow "{flow.stored.name}" reads the table: read it by its path from now on'


def _reads(flow: FlowHealth, table_id: str) -> bool:
    progress = read_progress(flow.stores.checkpoint)
    offsets: tuple[Any, ...] = progress.offsets if progress is not None else ()
    return any(isinstance(offset, Mapping) and offset.get("reservoirId") == table_id for offset in offsets)
