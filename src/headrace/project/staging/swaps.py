"""Swaps stages in: under the lease, after a savepoint, and to the end, whatever happens in between."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from pyspark.sql import SparkSession

from headrace.errors import PipelineError, raise_all
from headrace.events.upkeep import StageSwapped
from headrace.plan.plan_file import PlanFile, check_approved
from headrace.project.lease_holders import user_name
from headrace.project.outside_events import record_event
from headrace.project.savepoints.create import SavepointRequest
from headrace.project.savepoints.exclusive import exclusive
from headrace.project.savepoints.restore import unfinished_restore
from headrace.project.savepoints.savepoints import PipelineSavepoints
from headrace.project.staging.stage_storage import health, stage_lease, stage_settings
from headrace.project.staging.swap_document import check_same, swap_document, unapproved
from headrace.project.staging.swap_facts import SwapFacts
from headrace.project.staging.swap_plan import SwapPlan, plan_swap
from headrace.project.staging.swap_steps import SwapSteps
from headrace.project.steps import Reached, no_step
from headrace.project.update.code_version import archive_code, code_digest
from headrace.settings.settings import Settings
from headrace.storage.savepoints.manifest import Savepoint, SavepointKind
from headrace.storage.stages.manifest import Stage, Swap
from headrace.storage.stages.stored import Stages


@dataclass(frozen=True)
class SwapRequest:
    """A swap.

    Attributes:
        stage: the name of the stage.
        savepoint: make a savepoint of production first.
        accept_data_loss: also if streams below miss rows, or get rows again.
        plan: the plan that it follows; None if it needs no approval.
        file: the name of the plan's file.
    """

    stage: str
    savepoint: bool = True
    accept_data_loss: bool = False
    plan: PlanFile | None = None
    file: str = ""

    @staticmethod
    def of(plan: PlanFile, file: str, *, savepoint: bool = True) -> SwapRequest:
        """The swap of a plan."""
        return SwapRequest(plan.stage, savepoint, plan.selection.accept_data_loss, plan, file)


@dataclass(frozen=True)
class Swapped:
    """What a swap did.

    Attributes:
        plan: what was planned, and done; None if an earlier call had begun it.
        before: the savepoint of the state before it; None if none was made.
    """

    plan: SwapPlan | None
    before: Savepoint | None = None


class StageSwaps:
    """The swaps of a pipeline.

    Args:
        settings: the pipeline's.
        environ: the process environment.
        session: opens the session.
        redact: removes secrets from a text.
        savepoints: the pipeline's.
    """

    def __init__(
        self,
        settings: Settings,
        environ: Mapping[str, str],
        session: Callable[[], SparkSession],
        redact: Callable[[str], str],
        savepoints: PipelineSavepoints,
    ) -> None:
        self._settings, self._environ = settings, environ
        self._session, self._redact = session, redact
        self._savepoints = savepoints
        self._stored = Stages(settings.layout)

    def plan(self, name: str) -> SwapPlan:
        """What a swap would do; writes nothing.

        Raises:
            PipelineError: STAGE.UNKNOWN, STAGE.UNREADABLE.
        """
        stage = self._stored.find(name)
        plan = self._plan(stage)
        return replace(plan, problems=(*plan.problems, *unapproved(stage, plan, self._settings.approval)))

    def plan_file(self, name: str, *, accept_data_loss: bool = False) -> PlanFile:
        """A swap as a plan that can be approved and applied; writes nothing.

        Args:
            name: of the stage.
            accept_data_loss: also if streams below miss rows, or get rows again.

        Raises:
            PipelineError: as :meth:`plan`; STAGE.LOSES.
            Problems: why it is not possible.
        """
        stage = self._stored.find(name)
        plan = self._possible(stage, accept_data_loss=accept_data_loss)
        made_by = user_name(self._environ) or ""
        return swap_document(stage, plan, made_by, datetime.now(tz=UTC), accept_data_loss=accept_data_loss)

    def swap(self, request: SwapRequest, reached: Reached = no_step) -> Swapped:
        """Swap a stage in. A crash at any point leaves it to the next update, or to the same call, to finish.

        Args:
            request: what to swap.
            reached: called at each step, for tests that crash there.

        Raises:
            PipelineError: as :meth:`plan`; STAGE.LOSES, STAGE.SWAPPING (another one has begun), SAVEPOINT.RESTORING;
                PLAN.NOT_APPROVED, PLAN.REJECTED, STAGE.DRIFTED of its plan;
                LEASE.HELD if an update is running, MAINTENANCE.RUNNING if maintenance is.
            Problems: why it is not possible, or SAVEPOINT.UNFINISHED; nothing was written.
        """
        if request.plan is not None:
            check_approved(request.plan, self._settings.approval, request.file)
        with exclusive(self._settings, self._environ) as lease:
            begun = self._stored.swap()
            if begun is not None and begun.stage != request.stage:
                raise PipelineError("STAGE.SWAPPING", stage=begun.stage)
            if begun is not None:
                self._finish(begun, lease.check, reached)
                return Swapped(None)
            restore = unfinished_restore(self._settings)
            if restore is not None:
                raise PipelineError("SAVEPOINT.RESTORING", savepoint=restore.savepoint)
            stage = self._stored.find(request.stage)
            with stage_lease(stage_settings(self._settings, stage), self._environ):
                return self._swap(request, lease.check, reached)

    def finish(self) -> None:
        """Finish a swap that a crash has interrupted; nothing happens without one.

        Raises:
            PipelineError: as :meth:`swap`.
        """
        if self._stored.swap() is None:
            return
        with exclusive(self._settings, self._environ) as lease:
            begun = self._stored.swap()
            if begun is not None:
                self._finish(begun, lease.check, no_step)

    def _swap(self, request: SwapRequest, fence: Callable[[], None], reached: Reached) -> Swapped:
        stage = self._stored.find(request.stage)
        plan = self._possible(stage, accept_data_loss=request.accept_data_loss)
        if request.plan is None:
            raise_all(unapproved(stage, plan, self._settings.approval))
        else:
            check_same(request.plan, request.file, stage, plan, datetime.now(tz=UTC))
        before = None
        if request.savepoint:
            plan_id = "" if request.plan is None else request.plan.plan_id
            wanted = SavepointRequest(kind=SavepointKind.BEFORE_SWAP, plan_id=plan_id)
            before = self._savepoints.create_held(wanted, fence)
        # Compared with that of the stage; it may be another one when the next update finishes the swap.
        archive_code(self._settings)
        self._stored.begin(plan.swap)
        reached("swap begun")
        self._finish(plan.swap, fence, reached)
        return Swapped(plan, before)

    def _finish(self, swap: Swap, fence: Callable[[], None], reached: Reached) -> None:
        if not swap.done:
            stage = self._stored.find(swap.stage)
            staged = stage_settings(self._settings, stage)
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
        if stage.pipeline != self._settings.id:
            yield PipelineError("STAGE.OTHER_PIPELINE", stage=stage.name)
        if code_digest(self._settings) != stage.code_digest:
            yield PipelineError("STAGE.OTHER_CODE", stage=stage.name)

    def _plan(self, stage: Stage) -> SwapPlan:
        settings = self._settings
        staged = stage_settings(settings, stage)
        plan = plan_swap(SwapFacts(stage, settings, staged, health(settings), health(staged)))
        return replace(plan, problems=(*self._refusals(stage), *plan.problems))

    def _possible(self, stage: Stage, *, accept_data_loss: bool) -> SwapPlan:
        plan = self._plan(stage)
        raise_all(plan.problems)
        if plan.losses and not accept_data_loss:
            raise PipelineError("STAGE.LOSES", stage=stage.name, loss="; ".join(plan.losses))
        return plan
