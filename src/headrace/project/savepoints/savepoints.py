"""The savepoints of a pipeline: what programs and the command line call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.errors import PipelineError, Problems, problems_of, raise_all
from headrace.events.last_batches import last_batches
from headrace.events.reader import EVENT_COLUMNS, EventReader
from headrace.events.upkeep import RowsErased, SavepointChanged
from headrace.project.lease import Lease
from headrace.project.lease_holders import user_name
from headrace.project.outside_events import record_event
from headrace.project.savepoints.create import SavepointRequest, create_savepoint
from headrace.project.savepoints.exclusive import exclusive
from headrace.project.savepoints.restore import (
    Restore,
    Unfinished,
    begin_restore,
    end_restore,
    unfinished_restore,
)
from headrace.project.savepoints.restore_plan import RestorePlan, plan_restore
from headrace.project.savepoints.saved_code import write_code
from headrace.project.savepoints.topics import AskBrokers, not_asked, with_answers
from headrace.project.savepoints.verify import findings
from headrace.project.steps import Reached, no_step
from headrace.settings.settings import Settings
from headrace.storage.health import FlowHealth, health_of_flows
from headrace.storage.savepoints.manifest import Savepoint, SavepointKind
from headrace.storage.savepoints.stored import Savepoints
from headrace.storage.stages.stored import Stages


@dataclass(frozen=True)
class RestoreRequest:
    """A restore.

    Attributes:
        savepoint: its id or its name.
        datasets: what to restore, with all that streams read from there; everything if empty.
        accept_data_loss: also if rows cannot be read again.
    """

    savepoint: str
    datasets: tuple[str, ...] = ()
    accept_data_loss: bool = False


@dataclass(frozen=True)
class Restored:
    """What a restore did.

    Attributes:
        plan: what was planned, and done.
        before: the savepoint of the state before it; None if it could not be made.
        reason: why it could not be made.
    """

    plan: RestorePlan
    before: Savepoint | None
    reason: str = ""


class PipelineSavepoints:
    """The savepoints of a pipeline.

    Args:
        settings: the pipeline's.
        environ: the process environment.
        session: opens the session, which only a restore needs.
        redact: removes secrets from a text.
        ask_brokers: asks whether the records are still there that a restore reads again.
    """

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        session: Callable[[], SparkSession],
        redact: Callable[[str], str],
        ask_brokers: AskBrokers = not_asked,
    ) -> None:
        self._settings = settings
        self._environ = environ
        self._session = session
        self._redact = redact
        self._ask_brokers = ask_brokers
        self._stored = Savepoints(settings.layout)

    def all(self) -> tuple[Savepoint, ...]:
        """All savepoints that can be read, the oldest first."""
        return self._stored.all()

    def problems(self) -> tuple[PipelineError, ...]:
        """Why other savepoints cannot be read."""
        return self._stored.problems()

    def find(self, name: str) -> Savepoint:
        """The savepoint with an id or a name.

        Raises:
            PipelineError: SAVEPOINT.UNKNOWN, SAVEPOINT.UNREADABLE.
        """
        return self._stored.find(name)

    def create(self, request: SavepointRequest, reached: Reached = no_step) -> Savepoint:
        """Make a savepoint: whole, or not at all.

        Args:
            request: what to make.
            reached: called at each step, for tests that crash there.

        Raises:
            PipelineError: SAVEPOINT.NAME, SAVEPOINT.NAME_TAKEN, SAVEPOINT.NOTHING, SAVEPOINT.TABLE_BROKEN,
                SAVEPOINT.RESTORING; LEASE.HELD if an update is running, MAINTENANCE.RUNNING if maintenance is.
            Problems: SAVEPOINT.UNFINISHED for each flow that has something unfinished.
        """
        with _exclusive(self._settings, self._environ) as lease:
            unfinished = unfinished_restore(self._settings)
            if unfinished is not None:
                raise PipelineError("SAVEPOINT.RESTORING", savepoint=unfinished.savepoint)
            return self.create_held(request, lease.check, reached)

    def plan(self, request: RestoreRequest) -> RestorePlan:
        """What a restore would do; writes nothing, and asks no broker.

        Raises:
            PipelineError: SAVEPOINT.UNKNOWN, SAVEPOINT.UNREADABLE, SAVEPOINT.NOT_IN_IT.
        """
        return with_answers(self._plan(request), self._settings.layout, not_asked)

    def _plan(self, request: RestoreRequest) -> RestorePlan:
        settings = self._settings
        savepoint = self._stored.find(request.savepoint)
        plan = plan_restore(savepoint, _health(self._settings), settings.layout, settings.naming, request.datasets)
        made_at = datetime.fromtimestamp(savepoint.made_at, UTC)
        where = f"event_type = '{RowsErased.event_type}'"
        found = EventReader(settings.layout.events).rows(", ".join(EVENT_COLUMNS), where)
        erased = [row for row in found if row["timestamp"] > made_at]
        if not erased:
            return plan
        back = f"rows come back that were erased since ({len(erased)} times); erase them again after the restore"
        return replace(plan, notes=(*plan.notes, back))

    def verify(self, name: str) -> tuple[PipelineError, ...]:
        """Why a savepoint cannot be restored, or not completely; empty if it can.

        Raises:
            PipelineError: SAVEPOINT.UNKNOWN, SAVEPOINT.UNREADABLE.
        """
        return findings(self.plan(RestoreRequest(name)), self._settings.layout)

    def restore(self, request: RestoreRequest, reached: Reached = no_step) -> Restored:
        """Restore a savepoint. A crash at any point leaves it to the next update, or to the same call, to finish.

        If flows read topics again, their brokers are asked first; one that does not answer is a note of the plan.

        Args:
            request: what to restore.
            reached: called at each step, for tests that crash there.

        Raises:
            PipelineError: as :meth:`plan`; SAVEPOINT.LOSES, SAVEPOINT.RESTORING (another one has begun);
                SAVEPOINT.DELTA_VERSION; LEASE.HELD if an update is running, MAINTENANCE.RUNNING if maintenance is.
            Problems: why it is not possible; nothing was written.
        """
        with _exclusive(self._settings, self._environ) as lease:
            asked = Unfinished(self._stored.find(request.savepoint).id, request.datasets)
            begun = unfinished_restore(self._settings)
            if begun is not None and begun != asked:
                raise PipelineError("SAVEPOINT.RESTORING", savepoint=begun.savepoint)
            plan = self._plan(request)
            raise_all(plan.problems)
            if begun is None:
                plan = with_answers(plan, self._settings.layout, self._ask_brokers)
            if plan.losses and not request.accept_data_loss and begun is None:
                raise PipelineError("SAVEPOINT.LOSES", savepoint=plan.savepoint.label, loss="; ".join(plan.losses))
            before, reason = (None, "") if begun is not None or not plan.is_needed else self._before(lease.check)
            if plan.is_needed:
                begin_restore(self._settings, asked)
                reached("restore begun")
                Restore(self._settings, plan, self._session, lease.check, reached).run()
                self._changed("restored", plan.savepoint)
            end_restore(self._settings)
            return Restored(plan, before, reason)

    def finish(self) -> None:
        """Finish a restore that a crash has interrupted; nothing happens without one.

        Raises:
            PipelineError, Problems: as :meth:`restore`.
        """
        begun = unfinished_restore(self._settings)
        if begun is not None:
            self.restore(RestoreRequest(begun.savepoint, begun.datasets, accept_data_loss=True))

    def drop(self, name: str) -> Savepoint:
        """Remove a savepoint; returns what it was.

        Raises:
            PipelineError: SAVEPOINT.UNKNOWN, SAVEPOINT.UNREADABLE; SAVEPOINT.RESTORING if it is being restored;
                LEASE.HELD if an update is running, MAINTENANCE.RUNNING if maintenance is.
        """
        with _exclusive(self._settings, self._environ):
            savepoint = self._stored.find(name)
            begun = unfinished_restore(self._settings)
            if begun is not None and begun.savepoint == savepoint.id:
                raise PipelineError("SAVEPOINT.RESTORING", savepoint=begun.savepoint)
            self._stored.drop(savepoint)
            self._changed("dropped", savepoint)
            return savepoint

    def write_code(self, savepoint: Savepoint, folder: Path) -> int:
        """Write the code of a savepoint into a new folder; returns the number of files.

        Raises:
            PipelineError: SAVEPOINT.NO_CODE.
            OSError: the folder exists, or cannot be written.
        """
        return write_code(savepoint, self._stored.folder(savepoint), folder)

    def create_held(
        self, request: SavepointRequest, fence: Callable[[], None], reached: Reached = no_step
    ) -> Savepoint:
        """As :meth:`create`, for a caller that holds the lease; *fence* returns while it does."""
        made = create_savepoint(self._settings, self._environ, request, lambda: _health(self._settings), fence, reached)
        self._changed("created", made)
        return made

    def _before(self, fence: Callable[[], None]) -> tuple[Savepoint | None, str]:
        """A savepoint of the present, so that the restore can be undone; or why that is not possible."""
        try:
            return self.create_held(SavepointRequest(kind=SavepointKind.BEFORE_RESTORE), fence), ""
        except (PipelineError, Problems) as error:
            # What is broken is a reason to restore.
            return None, "; ".join(f"{problem.message}: {problem.detail}" for problem in problems_of(error))

    def _changed(self, action: str, savepoint: Savepoint) -> None:
        user = user_name(self._environ)
        event = SavepointChanged(action, savepoint.id, savepoint.name, savepoint.kind.value, user)
        record_event(self._settings, self._redact, event)


@contextmanager
def _exclusive(settings: Settings, environ: Mapping[str, str]) -> Iterator[Lease]:
    with exclusive(settings, environ) as lease:
        Stages(settings.layout).check_no_swap()
        yield lease


def _health(settings: Settings) -> tuple[FlowHealth, ...]:
    logged = last_batches(settings.layout.events)
    return health_of_flows(settings.layout, settings.naming, settings.id, logged)
