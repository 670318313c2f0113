"""Plans the maintenance of a storage, does it, and records each action."""

from __future__ import annotations

import socket
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from headrace.errors import PipelineError
from headrace.events.envelope import Origin
from headrace.events.expiry import Retention
from headrace.events.log import EventLog
from headrace.events.upkeep import TableMaintained
from headrace.model.maintenance import LEAST_RETENTION_S, OF_CHECKPOINTS, MaintenanceRequest, Task, VacuumScope
from headrace.model.names import InvalidName
from headrace.options.nearest import did_you_mean
from headrace.plan.maintenance import Action, ActionState, TableFacts, table_action
from headrace.project.lease_holders import host_name, liveness
from headrace.project.maintenance.limits import Limits
from headrace.project.maintenance.lock import maintenance_lock
from headrace.project.maintenance.log_files import expired_logs, remove_logs
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile
from headrace.storage.listed_storage import reading_storage
from headrace.storage.maintained_tables import (
    MaintainedTable,
    TableReading,
    maintained_tables,
)
from headrace.stores.paths import storage_path

if TYPE_CHECKING:
    from headrace.project.maintenance.actions import TableActions

# Of a damaged table, or one that changes meanwhile: a log that was cleaned, a torn file, a time after 9999.
_FAILURES = (PipelineError, OSError, ValueError, ArithmeticError)


class DoExpiredParts(Protocol):
    """Removes the parts of a storage that are no tables and are past their retention."""

    def __call__(self, task: Task, *, dry_run: bool) -> Iterable[Action]:
        """The actions of a task, done, skipped, or planned in a dry run."""


@dataclass(frozen=True)
class Maintenance:
    """Maintains the storage of a pipeline.

    An update may run meanwhile. Maintenance then leaves out the tables in which it could conflict with it.

    Attributes:
        settings: the pipeline's.
        actions: what does actions on tables; called once one is done.
        now: the time, in seconds since 1970.
        is_held: whether an update is running.
        redact: removes secrets from a text.
        expired_parts: does a task on checkpoints, or plans it.
    """

    settings: Settings
    actions: Callable[[], TableActions]
    now: Callable[[], float]
    is_held: Callable[[], bool]
    redact: Callable[[str], str]
    expired_parts: DoExpiredParts

    def maintain(self, request: MaintenanceRequest) -> tuple[Action, ...]:
        """Do what is due, or plan it; returns all actions, the skipped and failed ones included.

        An action that fails does not stop the others. Nothing is due in a storage that does not exist.

        Raises:
            PipelineError: MAINTENANCE.UNKNOWN, MAINTENANCE.SHORT_RETENTION, MAINTENANCE.RUNNING.
        """
        policy = self.settings.maintenance
        if (
            Task.VACUUM in request.tasks
            and policy.vacuum is not VacuumScope.OFF
            and policy.retain_s < LEAST_RETENTION_S
            and not request.short_retention
        ):
            raise PipelineError("MAINTENANCE.SHORT_RETENTION", location=self.settings.locations.get("maintenance"))
        limits = Limits(policy, self.now(), request.anytime)
        if request.dry_run:
            with reading_storage(self.settings.layout):
                return tuple(self._all(request, self._chosen(request.datasets), limits))
        tables = self._chosen(request.datasets)
        if not storage_path(self.settings.storage).is_dir():
            return ()
        with ExitStack() as stack:
            stack.enter_context(
                maintenance_lock(Path(self.settings.layout.monitoring(MonitoringFile.MAINTENANCE_LOCK)))
            )
            if limits.is_outside:
                # Nothing is done, so there is nothing to record.
                return tuple(self._all(request, tables, limits))
            log = stack.enter_context(self._log())
            done = []
            for action in self._all(request, tables, limits):
                done.append(action)
                log.emit(_event(action))
            return tuple(done)

    def due(self, choose: Callable[[Sequence[str]], Sequence[str]]) -> tuple[Action, ...]:
        """What is due by now for the tables of some datasets, as a dry run says it; starts no JVM.

        Args:
            choose: of the names of all datasets with tables, those to look at.
        """
        with reading_storage(self.settings.layout):
            found = maintained_tables(self.settings.layout, self.settings.naming)
            names = tuple(choose(tuple(dict.fromkeys(str(table.owner) for table in found))))
            tables = tuple(table for table in found if str(table.owner) in names)
            request = MaintenanceRequest(names, dry_run=True, anytime=True)
            limits = Limits(self.settings.maintenance, self.now(), anytime=True)
            return tuple(self._all(request, tables, limits)) if names else ()

    def _chosen(self, names: tuple[str, ...]) -> tuple[MaintainedTable, ...]:
        found = maintained_tables(self.settings.layout, self.settings.naming)
        if not names:
            return found
        chosen = []
        for text in names:
            try:
                name = self.settings.naming.canonical(text)
            except InvalidName:
                name = None
            own = [table for table in found if name is not None and name == table.owner]
            if not own:
                known = sorted({str(table.owner) for table in found})
                raise PipelineError("MAINTENANCE.UNKNOWN", name=text, suggestion=did_you_mean(text, known))
            chosen += own
        return tuple(dict.fromkeys(chosen))

    def _all(
        self,
        request: MaintenanceRequest,
        tables: tuple[MaintainedTable, ...],
        limits: Limits,
    ) -> Iterator[Action]:
        for task in OF_CHECKPOINTS if not request.datasets else ():
            if task in request.tasks:
                yield from self._of_checkpoints(task, request, limits)
        if not request.datasets and Task.RETENTION in request.tasks:
            folder = self.settings.layout.logs
            try:
                yield from self._logs(request, limits)
            except OSError as error:
                yield self._failed("logs", folder, Task.RETENTION, error)
        # Streams move on while something is done, so their positions are read for each table; for a plan, once.
        reading = TableReading(self.settings.layout, self.settings.naming, is_once=request.dry_run)
        for table in tables:
            yield from self._of_table(request, table, limits, reading)

    def _of_checkpoints(self, task: Task, request: MaintenanceRequest, limits: Limits) -> Iterator[Action]:
        wait = "" if request.dry_run else limits.reason_to_wait(self.now())
        try:
            for action in self.expired_parts(task, dry_run=request.dry_run or bool(wait)):
                yield action.skipped(wait) if wait and action.state is ActionState.PLANNED else action
        except _FAILURES as error:
            yield self._failed("checkpoints", self.settings.layout.root, task, error)

    def _failed(self, table: str, path: str, task: Task, error: Exception) -> Action:
        reason = error.message if isinstance(error, PipelineError) else f"{type(error).__name__}: {error}"
        return Action(table, path, task, ActionState.FAILED, self.redact(reason))

    def _logs(self, request: MaintenanceRequest, limits: Limits) -> Iterator[Action]:
        found = expired_logs(
            Path(self.settings.layout.logs), self.settings.maintenance, self.now(), is_held=self.is_held()
        )
        if found is None:
            return
        wait = "" if request.dry_run else limits.reason_to_wait(self.now())
        if wait:
            found = replace(found, action=found.action.skipped(wait))
        elif not request.dry_run:
            remove_logs(found.files)
            found = replace(found, action=replace(found.action, state=ActionState.DONE))
        yield found.action

    def _of_table(
        self, request: MaintenanceRequest, table: MaintainedTable, limits: Limits, reading: TableReading
    ) -> Iterator[Action]:
        facts: TableFacts | None = None
        for task in Task:
            if task not in request.tasks:
                continue
            try:
                facts = facts if facts is not None and request.dry_run else self._facts(table, reading)
                action = None if facts is None else table_action(task, facts, self.settings.maintenance, self.now())
                if (
                    facts is not None
                    and action is not None
                    and action.state is ActionState.PLANNED
                    and not request.dry_run
                ):
                    wait = limits.reason_to_wait(self.now())
                    action = action.skipped(wait) if wait else self._done(action, facts, table, reading)
            except _FAILURES as error:
                # The other tasks would fail too, or act on what nobody knows.
                yield self._failed(table.name, table.path, task, error)
                return
            if facts is None:
                return
            if action is not None:
                yield action

    def _done(self, action: Action, facts: TableFacts, table: MaintainedTable, reading: TableReading) -> Action:
        done = self.actions().perform(action, facts, self.settings.maintenance, self.now())
        if done.state is not ActionState.DONE or done.before is None:
            return done
        try:
            after = self._facts(table, reading)
        except _FAILURES:
            # It is done all the same; the next task reports why the table cannot be read.
            return replace(done, after=None)
        if after is None:
            return done
        return replace(done, after=after.size_on_disk if action.task is Task.VACUUM else after.size)

    def _facts(self, table: MaintainedTable, reading: TableReading) -> TableFacts | None:
        return reading.facts(table, self.settings.maintenance, self.now(), is_held=self.is_held())

    def _log(self) -> EventLog:
        settings = self.settings
        return EventLog(
            settings.layout.monitoring(MonitoringFile.OPERATIONS),
            origin=Origin(settings.id, settings.name, f"maintenance-{uuid.uuid4()}", host=socket.gethostname()),
            clock=lambda: datetime.now(tz=UTC),
            new_id=lambda: str(uuid.uuid4()),
            redact=self.redact,
            retention=Retention(*settings.event_log_retention),
        )


def maintenance_of(settings: Settings, environ: Mapping[str, str], expired_parts: DoExpiredParts) -> Maintenance:
    """The maintenance of a pipeline's storage; opens a session once an action needs it."""
    secrets = settings.open_secrets(environ)

    @cache
    def actions() -> TableActions:
        # Imported by name, because they load PySpark, which takes longer than a plan of maintenance.
        opening = import_module("headrace.project.resolution.open_catalog")
        acting = import_module("headrace.project.maintenance.actions")
        done: TableActions = acting.TableActions(
            lambda: opening.open_catalog(settings, secrets, environ).session, secrets.redact
        )
        return done

    check_lease = partial(liveness, settings.layout.lease, host_name(environ), time.time)
    return Maintenance(settings, actions, time.time, lambda: check_lease().is_held, secrets.redact, expired_parts)


def planned_vacuums(settings: Settings, environ: Mapping[str, str]) -> tuple[Action, ...]:
    """What a vacuum of every table would remove by now. Writes nothing, and opens no session."""

    def no_parts(task: Task, *, dry_run: bool) -> tuple[Action, ...]:
        del task, dry_run
        return ()

    request = MaintenanceRequest(tasks=(Task.VACUUM,), dry_run=True, short_retention=True)
    return maintenance_of(settings, environ, no_parts).maintain(request)


def _event(action: Action) -> TableMaintained:
    before, after = action.before, action.after
    return TableMaintained(
        dataset=action.table,
        path=action.path,
        task=action.task.value,
        state=action.state.value,
        reason=action.reason,
        files_before=None if before is None else before.files,
        bytes_before=None if before is None else before.size_bytes,
        files_after=None if after is None else after.files,
        bytes_after=None if after is None else after.size_bytes,
        rows=action.rows,
    )
