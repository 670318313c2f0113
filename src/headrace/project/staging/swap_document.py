"""A swap as a plan that can be approved: its changes by class, its document, and what has changed since it was made."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from headrace.errors import PipelineError
from headrace.model.change_classes import ApprovalMode, ApprovalPolicy, ChangeClass
from headrace.plan.changes import Change
from headrace.plan.drift import rows_cleared
from headrace.plan.plan_file import SWAP_FORMAT, PlanFile, needs_approval
from headrace.project.staging.swap_plan import SwapPlan
from headrace.storage.stages.manifest import FlowStep, Stage

VALID_FOR = timedelta(hours=24)
# By how much the rows that a swap replaces may have grown when it is applied.
_GROWTH = 1.1


def swap_changes(stage: Stage, plan: SwapPlan) -> tuple[Change, ...]:
    """The changes of a swap, worst first.

    A stage that was allowed to have fewer rows than production is destructive. Streams below that would miss rows, or
    get rows again, are restarted; the others change nothing.
    """
    return tuple(sorted(_changes(stage, plan), key=lambda change: change.change_class.rank))


def swap_document(stage: Stage, plan: SwapPlan, made_by: str, at: datetime, *, accept_data_loss: bool) -> PlanFile:
    """The plan of a swap, to be approved and applied; valid for 24 hours.

    Args:
        stage: the stage.
        plan: what the swap does.
        made_by: who makes it.
        at: the time.
        accept_data_loss: also if streams below miss rows, or get rows again.
    """
    facts = _facts(stage, plan)
    nothing: Mapping[str, Any] = {"refresh": [], "full_refresh": [], "reset_checkpoint": [], "selects_nothing": True}
    selection = {**nothing, "full_refresh_all": False, "accept_data_loss": accept_data_loss}
    return PlanFile(
        {
            "format": SWAP_FORMAT,
            "plan_id": f"pl-{at:%Y%m%d}-{secrets.token_hex(4)}",
            "made_at": at.isoformat(timespec="seconds"),
            "made_by": made_by,
            "expires_at": (at + VALID_FOR).isoformat(timespec="seconds"),
            **facts,
            "selection": selection,
            "limits": {"rows_cleared": math.floor(rows_cleared(facts) * _GROWTH)},
        }
    )


def unapproved(stage: Stage, plan: SwapPlan, policy: ApprovalPolicy) -> Iterator[PipelineError]:
    """Why the settings do not allow a swap that follows no plan: STAGE.NEEDS_APPROVAL, STAGE.REJECTED."""
    found = frozenset(change.change_class for change in swap_changes(stage, plan))
    classes = ", ".join(known.value for known in needs_approval(found, policy))
    if classes and policy.mode is ApprovalMode.REJECT:
        yield PipelineError("STAGE.REJECTED", stage=stage.name, classes=classes)
    elif classes:
        yield PipelineError("STAGE.NEEDS_APPROVAL", stage=stage.name, classes=classes)


def check_same(plan_file: PlanFile, file: str, stage: Stage, plan: SwapPlan, at: datetime) -> None:
    """Return if a swap does what its plan says.

    Args:
        plan_file: the plan.
        file: the name of its file.
        stage: the stage of now.
        plan: what the swap of it does now.
        at: the time.

    Raises:
        PipelineError: STAGE.DRIFTED.
    """
    found = swap_differences(plan_file, stage, plan, at)
    if found:
        text = "\n".join(found)
        raise PipelineError("STAGE.DRIFTED", plan=plan_file.plan_id, differences=text, stage=stage.name, file=file)


def swap_differences(plan_file: PlanFile, stage: Stage, plan: SwapPlan, at: datetime) -> tuple[str, ...]:
    """What has changed since the plan of a swap was made, in words; data that arrived meanwhile is no difference.

    Args:
        plan_file: the plan.
        stage: the stage of now.
        plan: what the swap of it does now.
        at: the time.
    """
    return tuple(_differences(plan_file, _facts(stage, plan), at))


def _changes(stage: Stage, plan: SwapPlan) -> Iterator[Change]:
    below = tuple(sorted({flow.dataset for flow in plan.swap.flows if flow.step is FlowStep.MOVED}))
    for dataset in stage.datasets:
        own = [one for one in plan.changes if one.name == dataset or one.name.startswith(f"{dataset}, ")]
        rows = next((one.staged_rows for one in own if one.name == dataset), None)
        then = "" if rows is None else f", with {rows} rows"
        yield Change(
            ChangeClass.DESTRUCTIVE if stage.accept_data_loss else ChangeClass.REBUILD,
            dataset,
            None,
            f"replaced by stage {stage.name}{then}",
            below,
            sum(one.rows or 0 for one in own),
        )
    for flow in plan.swap.flows if plan.losses else ():
        if flow.step is FlowStep.MOVED:
            why = "reads on behind the swap; rows may be missing or there twice"
            yield Change(ChangeClass.RESTART, flow.dataset, flow.name, why)


def _facts(stage: Stage, plan: SwapPlan) -> dict[str, Any]:
    """All that is compared when the swap is applied."""
    tables = [{"table": table.name, "step": table.step.value} for table in plan.swap.tables]
    flows = [
        {"flow": flow.name, "dataset": flow.dataset, "step": flow.step.name.lower(), "epoch": flow.epoch}
        for flow in plan.swap.flows
    ]
    return {
        "pipeline_id": stage.pipeline,
        "stage": {"name": stage.name, "id": stage.id, "code": stage.code_digest},
        "changes": [change.to_json() for change in swap_changes(stage, plan)],
        "swap": {"tables": tables, "flows": flows},
    }


def _differences(plan_file: PlanFile, now: Mapping[str, Any], at: datetime) -> Iterator[str]:
    before = plan_file.document
    if at >= plan_file.expires_at:
        yield f"the plan expired at {before['expires_at']}"
    if before["pipeline_id"] != now["pipeline_id"]:
        yield f"it is the plan of another pipeline, with id {before['pipeline_id']}"
    if before["stage"] != now["stage"]:
        yield f"stage {before['stage']['name']} was built again"
    for what, of in (("table", "tables"), ("flow", "flows")):
        if _as_set(before["swap"][of]) != _as_set(now["swap"][of]):
            names = sorted(one[0][1] for one in _as_set(before["swap"][of]) ^ _as_set(now["swap"][of]))
            yield f"other steps are planned for the {what} {', '.join(dict.fromkeys(names))}"
    classes = [{(one["class"], one["dataset"], one["flow"]) for one in known["changes"]} for known in (before, now)]
    yield from (f"change that was not planned: {kind} of {name}" for kind, name, _ in sorted(classes[1] - classes[0]))
    if rows_cleared(now) > plan_file.rows_limit:
        yield f"it replaces {rows_cleared(now)} rows, and the plan allows {plan_file.rows_limit}"


def _as_set(steps: list[dict[str, Any]]) -> set[tuple[tuple[str, Any], ...]]:
    return {tuple(step.items()) for step in steps}
