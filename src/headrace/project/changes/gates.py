"""The gates of updates: the settings' policy for every update, and the comparison with a plan that is applied."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from headrace.errors import PipelineError
from headrace.graph.select import Selection
from headrace.model.change_classes import ApprovalMode, ApprovalPolicy
from headrace.plan.change_classes import DeployedCode, changes_of
from headrace.plan.change_work import DeployedFlows, with_changes
from headrace.plan.changes import Change
from headrace.plan.drift import differences
from headrace.plan.plan_file import PlanFile, needs_approval
from headrace.plan.steps import Plan
from headrace.project.changes.plan_document import PlanDocuments

_MOST_NAMED = 20


@dataclass(frozen=True)
class PolicyGate:
    """Stops an update whose plan has a change that needs an approval.

    Attributes:
        policy: which changes need one.
        deployed: which code flows ran with.
        selection: what is updated.
    """

    policy: ApprovalPolicy
    deployed: DeployedCode
    selection: Selection
    plan_id: str | None = None

    def check(self, plan: Plan) -> None:
        """Return if no change needs an approval.

        Raises:
            PipelineError: PLAN.NEEDS_APPROVAL, PLAN.REJECTED.
        """
        if self.policy.mode is ApprovalMode.ALLOW:
            return
        changes = changes_of(plan, self.deployed)
        needed = needs_approval(frozenset(change.change_class for change in changes), self.policy)
        if not needed:
            return
        classes, options = ", ".join(known.value for known in needed), options_of(self.selection)
        if self.policy.mode is ApprovalMode.REJECT:
            raise PipelineError("PLAN.REJECTED", classes=classes, options=options)
        concerned = [_line(change) for change in changes if change.change_class in needed]
        raise PipelineError(
            "PLAN.NEEDS_APPROVAL", classes=classes, changes="\n".join(concerned[:_MOST_NAMED]), options=options
        )

    def before_run(self, plan: Plan) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class PlanGate:
    """Lets an update run if its plan is that of a file.

    Attributes:
        plan_file: the plan.
        name: of its file.
        documents: makes the document of the plan of now.
        deployed: what flows have done.
        now: the time, with a zone.
        prepare: called under the lease with the plan that is about to run: the place for a savepoint. None for nothing.
    """

    plan_file: PlanFile
    name: str
    documents: PlanDocuments
    deployed: DeployedFlows
    now: Callable[[], datetime]
    prepare: Callable[[Plan], None] | None = None

    @property
    def plan_id(self) -> str | None:
        """The id of the plan."""
        return self.plan_file.plan_id

    def check(self, plan: Plan) -> None:
        """Return if the plan is the same, apart from data.

        Raises:
            PipelineError: PLAN.DRIFTED.
        """
        facts = self.documents.facts(with_changes(plan, self.deployed), self.plan_file.selection)
        refuse_drift(self.plan_file, self.name, differences(self.plan_file, facts, self.now()))

    def before_run(self, plan: Plan) -> None:
        """Make what has to be there before the update writes."""
        if self.prepare is not None:
            self.prepare(plan)


def refuse_drift(plan_file: PlanFile, name: str, found: tuple[str, ...]) -> None:
    """Return if there are no differences.

    Raises:
        PipelineError: PLAN.DRIFTED.
    """
    if not found:
        return
    more = [f"and {len(found) - _MOST_NAMED} more"] if len(found) > _MOST_NAMED else []
    text = "\n".join([*found[:_MOST_NAMED], *more])
    raise PipelineError("PLAN.DRIFTED", plan=plan_file.plan_id, differences=text, file=name)


def options_of(selection: Selection) -> str:
    """A selection as options of a command, with a blank before each."""
    words: list[str] = []
    for option, names in (
        ("--refresh", selection.refresh),
        ("--full-refresh", selection.full_refresh),
        ("--exclude", selection.exclude),
        ("--reset-checkpoint", selection.reset_checkpoint),
    ):
        words += [option, shlex.quote(",".join(names))] if names else []
    words += ["--full-refresh-all"] if selection.full_refresh_all else []
    words += ["--accept-data-loss"] if selection.accept_data_loss else []
    return "".join(f" {word}" for word in words)


def _line(change: Change) -> str:
    return f"{change.change_class.value}: {change.name}, {change.why}"
