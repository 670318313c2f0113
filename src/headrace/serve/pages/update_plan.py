"""The plan of an update as facts: what was selected, what each flow was to do, and why.

The event log has the reason of the plan in the first state of each flow; the file of a plan that was applied also has
the steps of tables and views.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from headrace.events.recorded import Recorded
from headrace.events.types import FlowStateChanged, UpdateCreated
from headrace.metrics.dataset_health import Health
from headrace.model.outcome import NOT_SELECTED, FlowState, Outcome
from headrace.plan.plan_file import PlanFile
from headrace.plan.steps import Decision

_MOST_STEPS = 500
# What the plan decided about a flow, by its first state.
_DECISIONS = {
    FlowState.UP_TO_DATE: Decision.UP_TO_DATE,
    FlowState.EXCLUDED: Decision.EXCLUDE,
    FlowState.FAILED: Decision.FAIL,
    FlowState.SKIPPED: Decision.SKIP,
}
_NOT_STARTED = "not started"
# Of what a plan should not do.
_MARKS = {
    Decision.FAIL.value: Health.BAD.value,
    Decision.SKIP.value: Health.WARN.value,
    _NOT_STARTED: Health.UNKNOWN.value,
}
_SELECTIONS = (
    ("refresh", "Refresh"),
    ("full_refresh", "Full refresh"),
    ("reset_checkpoint", "Reset checkpoints"),
)


def update_plan(
    first_states: Iterable[Recorded], outcome: Outcome | None, applied: PlanFile | None, *, is_running: bool
) -> dict[str, Any]:
    """What an update was to do.

    Args:
        first_states: the event that created it, and the first state of each of its flows.
        outcome: with all of its flows; None if the event log has none.
        applied: the plan that it applied, if its file is still there.
        is_running: whether flows may still start.
    """
    created: UpdateCreated | None = None
    steps: dict[str, dict[str, Any]] = {}
    for one in first_states:
        match one.event:
            case UpdateCreated():
                created = one.event
            case FlowStateChanged(flow=flow, state=FlowState.EXCLUDED, reason=reason) if reason in (None, NOT_SELECTED):
                steps[flow] = {}
            case FlowStateChanged(flow=flow):
                steps[flow] = _flow_step(one.event)
            case _:
                pass
    waits = "it waits for its inputs" if is_running else "the update ended before it could start"
    for defined in () if outcome is None else outcome.flows:
        steps.setdefault(defined.flow, _step("flow", defined.flow, _NOT_STARTED, waits))
    known = [step for step in steps.values() if step]
    before = [] if applied is None else [*_stored_steps(applied)]
    return {
        **_selected(created),
        "plan_id": None if created is None else created.plan_id,
        "is_plan_stored": applied is not None,
        "request_id": None if created is None else created.request_id,
        "steps": [*before, *known][:_MOST_STEPS],
        "step_count": len(before) + len(known),
        "not_selected": len(steps) - len(known),
    }


def _selected(created: UpdateCreated | None) -> dict[str, Any]:
    """What was selected, in the words of the command line."""
    found = {} if created is None else created.selections
    named = [(label, [str(one) for one in found.get(key) or ()]) for key, label in _SELECTIONS]
    return {
        "selections": [{"label": label, "names": names} for label, names in named if names],
        "is_whole": created is not None and created.is_whole,
        "clears_all": bool(found.get("full_refresh_all")),
        "accepts_data_loss": bool(found.get("accept_data_loss")),
        "is_continuous": created is not None and bool(created.settings.get("continuous")),
    }


def _flow_step(first: FlowStateChanged) -> dict[str, Any]:
    if first.state is FlowState.CANCELED:
        return _step("flow", first.flow, _NOT_STARTED, first.reason)
    return _step("flow", first.flow, _DECISIONS.get(first.state, Decision.START).value, first.reason)


def _stored_steps(plan: PlanFile) -> Iterable[dict[str, Any]]:
    """The steps of tables and views, which come before the flows."""
    steps: Mapping[str, Any] = plan.document.get("steps") or {}
    for kind in ("table", "view"):
        for one in steps.get(f"{kind}s", ()):
            yield _step(kind, str(one["dataset"]), str(one["change"]), str(one.get("reason") or ""))


def _step(kind: str, name: str, action: str, reason: str | None) -> dict[str, Any]:
    return {
        "kind": kind,
        "name": name,
        "action": action,
        "mark": _MARKS.get(action),
        "reason": reason or None,
    }
