"""The stages of a pipeline: what programs and the command line call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.errors import PipelineError, Problems, raise_all
from headrace.events.last_batches import last_batches
from headrace.events.types import Event
from headrace.events.upkeep import StageSwapped
from headrace.model.change_classes import ChangeClass
from headrace.model.outcome import Outcome
from headrace.plan.plan_file import needs_approval
from headrace.project.lease import Lease
from headrace.project.lease_holders import host_name, user_name
from headrace.project.maintenance.lock import maintenance_lock
from headrace.project.savepoints.create import SavepointRequest
from headrace.project.savepoints.recorded import record_event
from headrace.project.savepoints.restore import unfinished_restore
from headrace.project.savepoints.savepoints import PipelineSavepoints
from headrace.project.savepoints.steps import Reached, no_step
from headrace.project.staging.build import CodeProject, StageRequest, begin_flows, new_stage
from headrace.project.staging.stage_settings import stage_settings
from headrace.project.staging.swap_plan import SwapPlan, plan_swap
from headrace.project.staging.swap_steps import SwapSteps
from headrace.project.update.code_version import archive_code, code_digest
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile
from headrace.storage.health import FlowHealth, health_of_flows
from headrace.storage.savepoints.manifest import Savepoint, SavepointKind
from headrace.storage.stages.manifest import Stage, Swap
from headrace.storage.stages.stored import Stages
from headrace.stores.uris import is_store_uri


@dataclass(frozen=True)
class SwapRequest:
    """A swap.

    Attributes:
        stage: the name of the stage.
        savepoint: make a savepoint of production first.
        accept_data_loss: also if streams below miss rows, or get rows again.
    """

    stage: str
    savepoint: bool = True
    accept_data_loss: bool = False


@dataclass(frozen=True)
class Swapped:
    """What a swap did.

    Attributes:
        plan: what was planned, and done; None if an earlier call had begun it.
        before: the savepoint of the state before it; None if none was made.
    """

    plan: SwapPlan | None
    before: Savepoint | None = None


class PipelineStages:
    """The stages of a pipeline.

    Args:
        settings: the pipeline's.
        environ: the process environment.
        session: opens the session, which only a swap needs.
        redact: removes secrets from a text.
        savepoints: the pipeline's.
        open_project: opens the project of settings, to build a stage.
    """

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        session: Callable[[], SparkSession],
        redact: Callable[[str], str],
        savepoints: PipelineSavepoints,
        open_project: Callable[[Settings], CodeProject],
    ) -> None:
        self._settings, self._environ = settings, environ
        self._session, self._redact = session, redact
        self._savepoints = savepoints
        self._open_project = open_project
        self._stored = Stages(settings.layout)

    def all(self) -> tuple[Stage, ...]:
        """All stages that can be read, by name."""
        return self._stored.all()

    def problems(self) -> tuple[PipelineError, ...]:
        """Why other stages cannot be read."""
        return self._stored.problems()

    def find(self, name: str) -> Stage:
        """The stage with a name.

        Raises:
            PipelineError: STAGE.UNKNOWN, STAGE.UNREADABLE.
        """
        return self._stored.find(name)

    def settings_of(self, stage: Stage) -> Settings:
        """The settings with which a stage is built, for what reads its tables."""
        return stage_settings(self._settings, stage)

    def create(
        self, request: StageRequest, *, on_event: Callable[[Event], None] | None = None
    ) -> tuple[Stage, Outcome]:
        """Make a stage and build its datasets from the beginning of their inputs. Production is only read.

        Args:
            request: what to stage.
            on_event: receives every event of the update as it happens.

        Raises:
            PipelineError: STAGE.ON_STORE, STAGE.NAME, STAGE.NAME_TAKEN, STAGE.NOTHING.
            Problems: STAGE.NOT_DEPLOYED, STAGE.UNSUPPORTED; all problems of the project; rows that cannot be read
                again.
        """
        self._check_disk()
        stage = new_stage(self._open_project(self._settings), self._settings, self._environ, request)
        self._stored.check_new(stage.name)
        # What a crash has left of another one.
        self._stored.drop(stage.name)
        self._stored.create(stage)
        try:
            return stage, self._build(stage, on_event)
        except (PipelineError, Problems):
            self._stored.drop(stage.name)
            raise

    def run(self, name: str, *, on_event: Callable[[Event], None] | None = None) -> tuple[Stage, Outcome]:
        """Read new data into a stage. If the code has changed, it is built again from the beginning.

        Args:
            name: of the stage.
            on_event: receives every event of the update as it happens.

        Raises:
            PipelineError, Problems: as :meth:`create`; STAGE.UNKNOWN, STAGE.SWAPPING; LEASE.HELD if another process
                builds it.
        """
        self._stored.check_no_swap()
        stage = self._stored.find(name)
        if code_digest(self._settings) != stage.code_digest:
            request = StageRequest(stage.datasets, name=name, accept_data_loss=stage.accept_data_loss)
            stage = new_stage(self._open_project(self._settings), self._settings, self._environ, request)
            with self._building(stage):
                pass
            self._stored.drop(name)
            self._stored.create(stage)
        return stage, self._build(stage, on_event)

    def plan(self, name: str) -> SwapPlan:
        """What a swap would do; writes nothing.

        Raises:
            PipelineError: STAGE.UNKNOWN, STAGE.UNREADABLE.
        """
        stage = self._stored.find(name)
        staged = self.settings_of(stage)
        plan = plan_swap(stage, self._settings, staged, _health(self._settings), _health(staged))
        return replace(plan, problems=(*self._refusals(stage), *plan.problems))

    def swap(self, request: SwapRequest, reached: Reached = no_step) -> Swapped:
        """Swap a stage in. A crash at any point leaves it to the next update, or to the same call, to finish.

        Args:
            request: what to swap.
            reached: called at each step, for tests that crash there.

        Raises:
            PipelineError: as :meth:`plan`; STAGE.LOSES, STAGE.SWAPPING (another one has begun), SAVEPOINT.RESTORING;
                LEASE.HELD if an update is running, MAINTENANCE.RUNNING if maintenance is.
            Problems: why it is not possible, or SAVEPOINT.UNFINISHED; nothing was written.
        """
        with self._exclusive() as lease:
            begun = self._stored.swap()
            if begun is not None and begun.stage != request.stage:
                raise PipelineError("STAGE.SWAPPING", stage=begun.stage)
            if begun is not None:
                self._finish(begun, lease.check, reached)
                return Swapped(None)
            restore = unfinished_restore(self._settings)
            if restore is not None:
                raise PipelineError("SAVEPOINT.RESTORING", savepoint=restore.savepoint)
            with self._building(self._stored.find(request.stage)):
                return self._swap(request, lease.check, reached)

    def finish(self) -> None:
        """Finish a swap that a crash has interrupted; nothing happens without one.

        Raises:
            PipelineError: as :meth:`swap`.
        """
        if self._stored.swap() is None:
            return
        with self._exclusive() as lease:
            begun = self._stored.swap()
            if begun is not None:
                self._finish(begun, lease.check, no_step)

    def drop(self, name: str) -> Stage:
        """Remove a stage; returns what it was.

        Raises:
            PipelineError: STAGE.UNKNOWN, STAGE.UNREADABLE; STAGE.SWAPPING; LEASE.HELD if another process builds it.
        """
        self._stored.check_no_swap()
        stage = self._stored.find(name)
        with self._building(stage):
            pass
        self._stored.drop(name)
        return stage

    def _build(self, stage: Stage, on_event: Callable[[Event], None] | None) -> Outcome:
        staged = self.settings_of(stage)
        begin_flows(stage, self._settings, staged)
        return self._open_project(staged).run(stage.datasets, on_event=on_event)

    def _swap(self, request: SwapRequest, fence: Callable[[], None], reached: Reached) -> Swapped:
        plan = self.plan(request.stage)
        raise_all(plan.problems)
        if plan.losses and not request.accept_data_loss:
            raise PipelineError("STAGE.LOSES", stage=request.stage, loss="; ".join(plan.losses))
        before = None
        if request.savepoint:
            before = self._savepoints.create_held(SavepointRequest(kind=SavepointKind.BEFORE_SWAP), fence)
        # Compared with that of the stage; it may be another one when the next update finishes the swap.
        archive_code(self._settings)
        self._stored.begin(plan.swap)
        reached("swap begun")
        self._finish(plan.swap, fence, reached)
        return Swapped(plan, before)

    def _finish(self, swap: Swap, fence: Callable[[], None], reached: Reached) -> None:
        if not swap.done:
            stage = self._stored.find(swap.stage)
            staged = self.settings_of(stage)
            SwapSteps(swap, self._settings, staged, self._session, fence, stage.code_digest, reached).run()
            event = StageSwapped(swap.stage, stage.datasets, user_name(self._environ))
            record_event(self._settings, self._redact, event)
            self._stored.begin(replace(swap, done=True))
            reached("steps done")
        self._stored.drop(swap.stage)
        reached("stage removed")
        self._stored.end()

    def _refusals(self, stage: Stage) -> Iterator[PipelineError]:
        """Why a stage cannot be swapped in, whatever its tables are like."""
        try:
            self._check_disk()
        except PipelineError as error:
            yield error
        if stage.pipeline != self._settings.id:
            yield PipelineError("STAGE.OTHER_PIPELINE", stage=stage.name)
        if code_digest(self._settings) != stage.code_digest:
            yield PipelineError("STAGE.OTHER_CODE", stage=stage.name)
        if needs_approval(frozenset({ChangeClass.REBUILD}), self._settings.approval):
            yield PipelineError("STAGE.NEEDS_APPROVAL", stage=stage.name)

    def _check_disk(self) -> None:
        if is_store_uri(self._settings.storage):
            raise PipelineError("STAGE.ON_STORE", storage=self._settings.storage)

    @contextmanager
    def _building(self, stage: Stage) -> Iterator[None]:
        """Hold the lease of a stage, so that nothing builds it meanwhile."""
        with Lease(self.settings_of(stage).layout.lease, host_name(self._environ), _now):
            yield

    @contextmanager
    def _exclusive(self) -> Iterator[Lease]:
        layout = self._settings.layout
        with (
            maintenance_lock(Path(layout.monitoring(MonitoringFile.MAINTENANCE_LOCK))),
            Lease(layout.lease, host_name(self._environ), _now) as lease,
        ):
            yield lease


def _now() -> float:
    return datetime.now(tz=UTC).timestamp()


def _health(settings: Settings) -> tuple[FlowHealth, ...]:
    logged = last_batches(settings.layout.events)
    return health_of_flows(settings.layout, settings.naming, settings.id, logged)
