"""Removes old epochs, and what left the code, under the lease, so that no update runs meanwhile."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import PipelineError
from headrace.graph.analysis import SourceKind
from headrace.model.names import QUARANTINE_SUFFIX, InvalidName, Naming, QualifiedName
from headrace.options.nearest import did_you_mean
from headrace.plan.inactive import Inactive
from headrace.plan.steps import Plan
from headrace.project.lease import Lease
from headrace.project.lease_holders import host_name
from headrace.project.maintenance.lock import maintenance_lock
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile
from headrace.storage.adopted_tables import AdoptedTables
from headrace.storage.cleaned_flows import StateRemoval
from headrace.storage.health import FlowHealth, flows_named
from headrace.storage.inactive_parts import check_none_below, inactive_parts, paths_in_use, rows_lost_with
from headrace.storage.inventory import stored_flows, stored_tables
from headrace.storage.old_epochs import KeptPart, OldPart, OldParts, PartKind, old_parts, remove_part
from headrace.storage.removal import Size, finish_removals, removal_folder, size_of
from headrace.stores.paths import StoragePath


@dataclass(frozen=True)
class CleanRequest:
    """What to remove.

    Attributes:
        names: the flows, or datasets, whose old epochs to remove; all if empty, unless *inactive* is given.
        inactive: the datasets, flows and views that left the code, and are removed as a whole.
        unused_since: parts that were used later stay, in seconds since 1970.
        accept_data_loss: also remove inactive tables with rows, and flows with undelivered rows.
        dry_run: remove nothing.
    """

    names: tuple[str, ...] = ()
    inactive: tuple[str, ...] = ()
    unused_since: float = 0.0
    accept_data_loss: bool = False
    dry_run: bool = False


@dataclass(frozen=True)
class Cleaned:
    """What was removed, or would be in a dry run.

    Attributes:
        removed: the parts that were removed.
        kept: old parts that stay, and why.
        leftovers: what an interrupted removal had left.
        dry_run: nothing was removed.
    """

    removed: tuple[OldPart, ...]
    kept: tuple[KeptPart, ...]
    leftovers: Size
    dry_run: bool

    @property
    def size(self) -> Size:
        """All files that were removed."""
        return sum((part.size for part in self.removed), self.leftovers)

    def to_json(self) -> dict[str, Any]:
        """The result for programs."""
        return {
            "dry_run": self.dry_run,
            "removed": [part.to_json() for part in self.removed],
            "kept": [part.to_json() for part in self.kept],
            "leftover_files": self.leftovers.files,
            "files": self.size.files,
            "bytes": self.size.size_bytes,
        }


def clean_storage(
    settings: Settings,
    environ: Mapping[str, str],
    request: CleanRequest,
    read_health: Callable[[], tuple[FlowHealth, ...]],
    plan: Callable[[], Plan],
) -> Cleaned:
    """Remove old epochs, and what left the code; safe to repeat after a crash.

    Args:
        settings: the pipeline's.
        environ: the process environment.
        request: what to remove.
        read_health: reads the current health of the stored flows.
        plan: plans an update; called only if something inactive is to be removed.

    Raises:
        PipelineError: CHECKPOINTS.UNKNOWN, CHECKPOINTS.NOT_INACTIVE, CHECKPOINTS.WHICH_FLOW, CHECKPOINTS.STILL_READ,
            CHECKPOINTS.READERS_UNKNOWN, CHECKPOINTS.CONTAINS_OTHERS, CHECKPOINTS.HAS_ROWS, MAINTENANCE.RUNNING,
            LEASE.HELD.
        Problems: the project is wrong, so that nobody knows what left the code.
    """
    _chosen(read_health(), request, settings.naming)
    if request.dry_run:
        found = _found(settings, request, read_health, plan)
        return Cleaned(found.removable, found.kept, size_of(removal_folder(settings.layout)), dry_run=True)
    with ExitStack() as stack:
        if request.inactive:
            # Maintenance would create the folder of a table again, by rewriting it meanwhile.
            lock = Path(settings.layout.monitoring(MonitoringFile.MAINTENANCE_LOCK))
            stack.enter_context(maintenance_lock(lock))
        lease = stack.enter_context(Lease(settings.layout.lease, host_name(environ), time.time))
        return clean_under_lease(settings, request, read_health, plan, lease.check)


def clean_under_lease(
    settings: Settings,
    request: CleanRequest,
    read_health: Callable[[], tuple[FlowHealth, ...]],
    plan: Callable[[], Plan],
    check: Callable[[], None],
) -> Cleaned:
    """The same for a caller that holds the lease.

    Args:
        settings: the pipeline's.
        request: what to remove.
        read_health: reads the current health of the stored flows.
        plan: plans an update; called only if something inactive is to be removed.
        check: returns while the lease is held; called before each removal.
    """
    removed = removal_folder(settings.layout)
    leftovers = finish_removals(removed)
    found = _found(settings, request, read_health, plan)
    states = StateRemoval(settings.layout, settings.naming, settings.id, removed, check)
    for part in found.removable:
        check()
        if part.kind is PartKind.STATE:
            states.remove(part.dataset, part.path, part.spared)
        else:
            remove_part(part, removed)
    finish_removals(removed)
    return Cleaned(found.removable, found.kept, leftovers, dry_run=False)


def _found(
    settings: Settings,
    request: CleanRequest,
    read_health: Callable[[], tuple[FlowHealth, ...]],
    plan: Callable[[], Plan],
) -> OldParts:
    found = [old_parts(flow, request.unused_since) for flow in _chosen(read_health(), request, settings.naming)]
    removable = [part for parts in found for part in parts.removable]
    kept = [part for parts in found for part in parts.kept]
    if request.inactive:
        inactive = _inactive(settings, request, plan())
        folders = {part.path for part in inactive}
        removable = [part for part in removable if folders.isdisjoint(part.path.parents)] + inactive
    return OldParts(tuple(removable), tuple(kept))


def _chosen(flows: tuple[FlowHealth, ...], request: CleanRequest, naming: Naming) -> tuple[FlowHealth, ...]:
    if not request.names:
        return () if request.inactive else flows
    named = [flow for name in request.names for flow in flows_named(flows, name, naming)]
    return tuple({flow.stored.file: flow for flow in named}.values())


def _inactive(settings: Settings, request: CleanRequest, plan: Plan) -> list[OldPart]:
    """The parts of what left the code."""
    found: dict[StoragePath, OldPart] = {}
    layout, naming = settings.layout, settings.naming
    used = paths_in_use(plan.graph, layout, naming)
    for name in request.inactive:
        for entry in _entries(plan.inactive, name, naming):
            _check_not_adopted(entry, settings)
            parts = inactive_parts(entry, layout, naming, used)
            _check_unread(entry, parts, name, plan, naming)
            check_none_below(parts, name, _other_datasets(entry, plan, settings), layout, naming)
            lost = rows_lost_with(parts)
            if lost and not request.accept_data_loss:
                command = f"headrace checkpoints clean --inactive {shlex.quote(name)} --accept-data-loss"
                raise PipelineError("CHECKPOINTS.HAS_ROWS", name=name, rows=", ".join(lost), command=command)
            found |= {part.path: part for part in parts}
    return list(found.values())


def _entries(inactive: Iterable[Inactive], name: str, naming: Naming) -> list[Inactive]:
    """The inactive datasets or views with a name, or else the inactive flow with it, or with it after its dataset.

    Raises:
        PipelineError: CHECKPOINTS.NOT_INACTIVE, CHECKPOINTS.WHICH_FLOW.
    """
    known = list(inactive)
    try:
        dataset = str(naming.canonical(name))
    except InvalidName:
        dataset = None
    found = [entry for entry in known if entry.flow is None and entry.dataset == dataset]
    found = found or [entry for entry in known if entry.flow == name]
    found = found or [entry for entry in known if entry.flow is not None and f"{entry.dataset}.{entry.flow}" == name]
    if len(found) > 1 and found[0].flow is not None:
        flows = ", ".join(f'"{entry.dataset}.{entry.flow}"' for entry in found)
        raise PipelineError("CHECKPOINTS.WHICH_FLOW", name=name, flows=flows)
    if not found:
        names = [entry.flow or entry.dataset for entry in known]
        raise PipelineError("CHECKPOINTS.NOT_INACTIVE", name=name, suggestion=did_you_mean(name, names))
    return found


def _other_datasets(entry: Inactive, plan: Plan, settings: Settings) -> list[QualifiedName]:
    """All datasets of the code and of the storage but that of an entry."""
    layout, naming = settings.layout, settings.naming
    known = {dataset.name for dataset in plan.graph.datasets} | plan.graph.unavailable_datasets.keys()
    known |= {name for name, _ in stored_tables(layout, naming)}
    known |= {flow.dataset for flow in stored_flows(layout, naming)}
    return sorted(known - {naming.canonical(entry.dataset)}, key=str)


def _check_not_adopted(entry: Inactive, settings: Settings) -> None:
    """Refuse to remove what the storage has of an adopted table: it is released, with its checkpoint."""
    table = settings.layout.table(settings.naming, settings.naming.canonical(entry.dataset))
    record = None if entry.view else AdoptedTables(settings.layout).at(table)
    if record is not None:
        raise PipelineError("ADOPT.NOT_REMOVED", name=entry.dataset, folder=record.location)


def _check_unread(entry: Inactive, parts: Iterable[OldPart], name: str, plan: Plan, naming: Naming) -> None:
    """Refuse to remove a table that a flow of the code reads, although the code does not define it."""
    if entry.flow is not None:
        return
    if plan.graph.unavailable:
        unknown = ", ".join(sorted(f'"{flow.name}"' for flow in plan.graph.unavailable))
        raise PipelineError("CHECKPOINTS.READERS_UNKNOWN", name=name, flows=unknown)
    paths = "|".join(re.escape(str(part.path)) for part in parts)
    path = re.compile(rf"(?:{paths})(?![\w~.-])")
    own = {entry.dataset, f"{entry.dataset}{QUARANTINE_SUFFIX}"}
    for flow in plan.graph.flows:
        analysis = flow.analysis
        streamed = (source.detail for source in analysis.sources if source.kind is SourceKind.DATASET)
        is_read = not own.isdisjoint(str(naming.canonical(detail)) for detail in streamed)
        if is_read or any(map(path.search, (*analysis.external, *analysis.external_tables))):
            raise PipelineError("CHECKPOINTS.STILL_READ", name=name, flow=flow.name)
