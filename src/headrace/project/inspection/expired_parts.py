"""Removes old epochs, and what left the code, once they were unused for as long as the settings say."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from headrace.delta_log.tables import commit_file, newest_version
from headrace.errors import PipelineError, Problems, problems_of
from headrace.model.maintenance import DAY_S, MaintenanceRequest, Task
from headrace.plan.inactive import Inactive
from headrace.plan.maintenance import Action, ActionState, Size
from headrace.plan.steps import Plan
from headrace.project.clean import Cleaned, CleanRequest, clean_storage, clean_under_lease
from headrace.project.inspection.event_metrics import FoldedEvents
from headrace.project.lease import Lease
from headrace.project.lease_holders import host_name
from headrace.project.maintenance.maintain import maintenance_of
from headrace.settings.settings import Settings
from headrace.storage.adopted_tables import AdoptedTables
from headrace.storage.health import FlowHealth
from headrace.storage.inactive_parts import inactive_parts, rows_lost_with
from headrace.storage.inventory import stored_flows
from headrace.storage.old_epochs import OldPart, last_used_at
from headrace.stores.paths import storage_path

_NOTHING = Size(0, 0)


@dataclass(frozen=True)
class ExpiredParts:
    """The parts of a storage that nothing uses any more, beside its tables.

    Attributes:
        settings: the pipeline's.
        environ: the process environment.
        health: reads the current health of the stored flows.
        plan: plans an update; called only if something that left the code is to be removed.
        now: the time in seconds since 1970.
    """

    settings: Settings
    environ: Mapping[str, str]
    health: Callable[[], tuple[FlowHealth, ...]]
    plan: Callable[[], Plan]
    now: Callable[[], float] = time.time

    def actions(self, task: Task, *, dry_run: bool) -> Iterator[Action]:
        """Remove the parts of a task, or plan it; returns the actions, the skipped ones included.

        Args:
            task: EPOCHS or INACTIVE; nothing is due if the settings keep them for ever.
            dry_run: only say what would be removed; starts no JVM.
        """
        policy = self.settings.maintenance
        retain_s = policy.epochs_retain_s if task is Task.EPOCHS else policy.inactive_retain_s
        if retain_s is None:
            return
        unused_since, age = self.now() - retain_s, f"unused for {retain_s / DAY_S:g} days"
        yield from (
            self._epochs(unused_since, age, dry_run=dry_run)
            if task is Task.EPOCHS
            else self._inactive(unused_since, age, dry_run=dry_run)
        )

    def _epochs(self, unused_since: float, age: str, *, dry_run: bool) -> Iterator[Action]:
        request = CleanRequest(unused_since=unused_since)
        found = self._clean(CleanRequest(unused_since=unused_since, dry_run=True))
        reason = ""
        if not dry_run and found.removed:
            try:
                found = self._clean(request)
            except PipelineError as error:
                reason = error.message
        state = ActionState.PLANNED if dry_run else ActionState.DONE
        for (dataset, flow), parts in groupby(found.removed, lambda part: (part.dataset, part.flow)):
            own = tuple(parts)
            folder = str(own[0].path.parent)
            about = f"{len(own)} old epoch{'' if len(own) == 1 else 's'} or damaged files, {age}"
            action = Action(flow or dataset, folder, Task.EPOCHS, state, about, _size(own), _NOTHING)
            yield action.skipped(f"{about}: {reason}") if reason else action

    def _inactive(self, unused_since: float, age: str, *, dry_run: bool) -> Iterator[Action]:
        for name, parts in self._unused(unused_since):
            about = f"it left the code, {age}"
            action = Action(
                name, str(parts[-1].path), Task.INACTIVE, ActionState.PLANNED, about, _size(parts), _NOTHING
            )
            rows = rows_lost_with(parts)
            if rows:
                # A setting must not delete rows that may be nowhere else.
                yield action.skipped(f"{about}, but has {', '.join(rows)}; headrace checkpoints clean --inactive asks")
            elif dry_run:
                yield action
            else:
                yield self._removed(name, action)

    def _removed(self, name: str, action: Action) -> Action:
        try:
            found = self._clean(CleanRequest(inactive=(name,)))
        except (PipelineError, Problems) as error:
            return action.skipped(f"{action.reason}: {problems_of(error)[0].message}")
        size = _size(found.removed)
        return Action(action.table, action.path, action.task, ActionState.DONE, action.reason, size, _NOTHING)

    def _clean(self, request: CleanRequest) -> Cleaned:
        if request.dry_run:
            return clean_storage(self.settings, self.environ, request, self.health, self.plan)
        # The caller has the lock of maintenance, which clean_storage would wait for.
        with Lease(self.settings.layout.lease, host_name(self.environ), time.time) as lease:
            return clean_under_lease(self.settings, request, self.health, self.plan, lease.check)

    def _unused(self, unused_since: float) -> Iterator[tuple[str, tuple[OldPart, ...]]]:
        """What the latest update of all flows did not define, and nothing has used since a time: its name and parts."""
        layout, naming = self.settings.layout, self.settings.naming
        flows = {(str(flow.dataset), flow.name): flow for flow in stored_flows(layout, naming)}
        for dataset, flow in sorted(FoldedEvents(self.settings).newest().definitions.inactive):
            name = naming.canonical(dataset)
            own = [found for (target, known), found in flows.items() if target == dataset and flow in ("", known)]
            table, view = layout.table(naming, name), layout.view(naming, name)
            if flow:
                entries = [Inactive(dataset, str(found.file.parent), flow) for found in own if not found.record.cleaned]
            else:
                entries = [Inactive(dataset, table)] if storage_path(table).is_dir() else []
                entries += [Inactive(dataset, view, view=True)] if storage_path(view).is_file() else []
            used_at = [last_used_at(found.file.parent / str(found.record.epoch)) for found in own]
            used_at += [found.record.started_at for found in own] + ([] if flow else [_written_at(table, view)])
            if AdoptedTables(self.settings.layout).at(table) is not None:
                # It is released by a command of its own.
                continue
            parts = [part for entry in entries for part in inactive_parts(entry, layout, naming, frozenset())]
            if parts and max(used_at) < unused_since:
                yield f"{dataset}.{flow}" if flow else dataset, tuple(parts)


def _written_at(table: str, view: str) -> float:
    """When a table or the definition of a view was written last, in seconds since 1970; 0 if neither exists."""
    files = [storage_path(view)]
    if (storage_path(table) / "_delta_log").is_dir():
        files.append(commit_file(storage_path(table), newest_version(table)))
    return max((file.stat().st_mtime for file in files if file.is_file()), default=0.0)


def _size(parts: tuple[OldPart, ...]) -> Size:
    return Size(sum(part.size.files for part in parts), sum(part.size.size_bytes for part in parts))


def maintain_storage(
    settings: Settings,
    environ: Mapping[str, str],
    request: MaintenanceRequest,
    health: Callable[[], tuple[FlowHealth, ...]],
    plan: Callable[[], Plan],
) -> tuple[Action, ...]:
    """Maintain the tables, checkpoints and log files of a storage.

    Args:
        settings: the pipeline's.
        environ: the process environment.
        request: what to do.
        health: reads the current health of the stored flows.
        plan: plans an update; called only if something that left the code is to be removed.

    Raises:
        PipelineError: MAINTENANCE.UNKNOWN, MAINTENANCE.SHORT_RETENTION, MAINTENANCE.RUNNING.
    """
    expired = ExpiredParts(settings, environ, health, plan)
    return maintenance_of(settings, environ, expired.actions).maintain(request)
