"""Changes: the plans of the project, what each would change, who approved it, and what is in force."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any

from headrace.errors import PipelineError
from headrace.events.past_updates import PastUpdate
from headrace.events.recorded import recorded_rows
from headrace.events.types import UpdateCreated
from headrace.metrics.dataset_health import Health
from headrace.model.change_classes import ApprovalMode, ApprovalPolicy, ChangeClass
from headrace.options.nearest import did_you_mean
from headrace.plan.changes import Change
from headrace.plan.plan_file import Approval, PlanFile, needs_approval
from headrace.project.changes.saved_plans import SavedPlan, SavedPlans, code_of_plan, comparison, saved_plans
from headrace.project.inspection.diagnosis.careful_reading import CarefulReading, reading_carefully
from headrace.project.requests.plan_files import saved_plans as requested_plans
from headrace.serve.formats import iso
from headrace.serve.pages.careful import unread_facts
from headrace.serve.pages.facts import mark_of
from headrace.serve.pages.paging import part_of
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import Page

_EACH_PART = 10
_CHANGES = 100
_STEPS = 200
_APPLIED = 200
_DIFF_CHARACTERS = 20_000
_BAD_CLASSES = (ChangeClass.BLOCKED, ChangeClass.DESTRUCTIVE)


@dataclass(frozen=True)
class AppliedPlan:
    """An update that applied a plan."""

    plan_id: str
    update_id: str
    at: datetime


@dataclass(frozen=True)
class PlanContext:
    """What the state of a plan depends on.

    Attributes:
        policy: which changes need an approval.
        now: the time, with a zone.
        applied: the updates that applied plans, the newest first.
        differences: by the id of a plan, what has changed since it was made.
        by_request: the ids of the plans that were made by request, which the server can approve and apply.
    """

    policy: ApprovalPolicy
    now: datetime
    applied: Sequence[AppliedPlan] = ()
    differences: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    by_request: frozenset[str] = frozenset()


def changes_page(pipeline: ServedPipeline, number: int = 1, chosen: str = "") -> Page:
    """The page of the plans, or of one of them.

    Args:
        pipeline: the pipeline.
        number: the part of the list that is shown.
        chosen: the id of a plan, of which all changes, steps and the changed code are shown; empty for the list.

    Raises:
        PipelineError: SERVE.NO_PAGE if the chosen one is unknown.
    """
    view, settings = pipeline.view(), pipeline.settings
    now = datetime.fromtimestamp(view.as_of, UTC)
    with reading_carefully(settings.layout) as reading:
        found = reading.read("the plans of the project", lambda: saved_plans(settings), SavedPlans())
        applied = reading.read("the plans that were applied", lambda: _applied(pipeline), ())
        kept = reading.read("the plans that were made by request", lambda: requested_plans(settings.layout), [])
        by_request = frozenset(one.plan.plan_id for one in kept if not one.is_rejected)
        ids = [one.plan.plan_id for one in found.plans]
        if chosen and chosen not in ids:
            raise PipelineError("SERVE.NO_PAGE", what=f'plan "{chosen}"', suggestion=did_you_mean(chosen, ids))
        wanted = [one for one in found.plans if chosen in ("", one.plan.plan_id)]
        part, paging = part_of(wanted, number, _EACH_PART)
        changed_since = pipeline.remembered.of("code of now", partial(comparison, settings, now))
        shown = _shown(
            reading, part, PlanContext(settings.approval, now, applied, by_request=by_request), changed_since
        )
        details = reading.read("the code that changed", lambda: _details(pipeline, part[0].plan), {}) if chosen else {}
    document = {
        "name": pipeline.name,
        "as_of": iso(view.as_of),
        "unread": unread_facts(reading.unread),
        "chosen": chosen or None,
        "policy": _policy(settings.approval),
        "in_force": in_force(view.updates, applied),
        "is_running": view.is_held,
        "problems": [{"code": one.code, "message": one.message, "detail": one.detail} for one in found.problems],
        "paging": paging,
        "plans": shown,
        **(details or {"steps": [], "code": None}),
    }
    return Page("changes.html", f"Changes: {pipeline.name}", document)


def _shown(
    reading: CarefulReading,
    part: Sequence[SavedPlan],
    context: PlanContext,
    changed_since: Callable[[PlanFile], tuple[str, ...]],
) -> list[dict[str, Any]]:
    """The plans of a part of the list; one with something of another version is left out and named."""
    found = []
    for one in part:
        since = reading.read(f"what changed since plan {one.file}", partial(changed_since, one.plan), ())
        compared = replace(context, differences={one.plan.plan_id: since})
        found.append(reading.read(f"plan {one.file}", partial(plan_facts, one, compared), None))
    return [one for one in found if one is not None]


def plan_facts(saved: SavedPlan, context: PlanContext) -> dict[str, Any]:
    """A plan: its state with the reason, its changes with the worst first, and its approvals.

    Raises:
        LookupError, TypeError, ValueError: a change of the plan is not one of this version.
    """
    plan, document = saved.plan, saved.plan.document
    changes = sorted(map(Change.of, document["changes"]), key=lambda change: change.change_class.rank)
    state = _state(saved, context)
    counted = [(known, sum(one.change_class is known for one in changes)) for known in ChangeClass]
    needed = needs_approval(plan.classes, context.policy)
    return {
        "plan_id": plan.plan_id,
        "by_request": plan.plan_id in context.by_request,
        "is_destructive": plan.clears_rows,
        "file": saved.file,
        "stage": plan.stage or None,
        "made_by": plan.made_by or None,
        "made_at": _time(document.get("made_at")),
        "expires_at": iso(plan.expires_at),
        "digest": plan.digest,
        **state,
        "needs_approval": [known.value for known in needed],
        "classes": [{"class": known.value, "count": count} for known, count in counted if count],
        "rows_cleared": sum(change.rows_cleared for change in changes),
        "changes": [_change(change) for change in changes[:_CHANGES]],
        "change_count": len(changes),
        "approvals": [_approval(one, plan, context.policy) for one in plan.approvals],
        "differences": list(context.differences.get(plan.plan_id, ())),
    }


def _state(saved: SavedPlan, context: PlanContext) -> dict[str, Any]:
    """The state of a plan, the reason as a sentence, and the next command."""
    plan = saved.plan
    done = next((one for one in context.applied if one.plan_id == plan.plan_id), None)
    approve, apply = (["headrace", verb, saved.file] for verb in ("approve", "apply"))
    nothing: dict[str, Any] = {"update_id": None, "applied_at": None}
    if done is not None:
        facts = {"update_id": done.update_id, "applied_at": iso(done.at)}
        return {
            **_said("APPLIED", Health.OK, "An update has applied it.", ["headrace", "rollback", plan.plan_id]),
            **facts,
        }
    if context.now >= plan.expires_at:
        return {**_said("EXPIRED", Health.UNKNOWN, "It is older than a day: make it again.", None), **nothing}
    needed = needs_approval(plan.classes, context.policy)
    if needed and context.policy.mode is ApprovalMode.REJECT:
        why = "The settings refuse such changes."
        return {**_said("REFUSED", Health.BAD, why, None), **nothing}
    differences = context.differences.get(plan.plan_id, ())
    if differences:
        why = f"It would be refused: {'; '.join(differences)}. Make it again."
        return {**_said("OUTDATED", Health.WARN, why, None), **nothing}
    counting = [one for one in plan.approvals if _counts(one, plan, context.policy)]
    if needed and not counting:
        classes = ", ".join(known.value for known in needed)
        who = "somebody other than who made it" if context.policy.four_eyes else "somebody"
        why = f"It has changes that need an approval ({classes}): {who} must approve it."
        return {**_said("WAITS FOR APPROVAL", Health.WARN, why, approve), **nothing}
    if needed:
        why = f"{' and '.join(dict.fromkeys(one.by for one in counting))} approved it: it can be applied."
        return {**_said("APPROVED", Health.OK, why, apply), **nothing}
    return {**_said("READY", Health.OK, "Nothing in it needs an approval: it can be applied.", apply), **nothing}


def _said(state: str, mark: Health, why: str, command: list[str] | None) -> dict[str, Any]:
    return {"state": state, "mark": mark.value, "why": why, "command": command}


def _counts(approval: Approval, plan: PlanFile, policy: ApprovalPolicy) -> bool:
    return approval.digest == plan.digest and not (policy.four_eyes and approval.by == plan.made_by)


def _approval(approval: Approval, plan: PlanFile, policy: ApprovalPolicy) -> dict[str, Any]:
    reason = None
    if approval.digest != plan.digest:
        reason = "it is of another plan"
    elif not _counts(approval, plan, policy):
        reason = "the plan is their own"
    return {
        "by": approval.by,
        "at": _time(approval.at),
        "note": approval.note or None,
        "counts": reason is None,
        "why_not": reason,
    }


def _change(change: Change) -> dict[str, Any]:
    mark = Health.BAD if change.change_class in _BAD_CLASSES else None
    if mark is None:
        mark = Health.WARN if change.change_class.rank <= ChangeClass.REDELIVER.rank else Health.UNKNOWN
    return {
        "class": change.change_class.value,
        "mark": mark.value,
        "name": change.name,
        "dataset": change.dataset or None,
        "why": change.why,
        # As the command `plan` prints them.
        "facts": [{"label": label, "text": text} for label, text in change.facts()],
    }


def in_force(updates: Sequence[PastUpdate], applied: Sequence[AppliedPlan]) -> dict[str, Any] | None:
    """The code of the newest update, and the newest plan that was applied; None before the first update."""
    if not updates:
        return None
    newest, plan = updates[0], applied[0] if applied else None
    return {
        "update_id": newest.update_id,
        "state": newest.state.value,
        "mark": mark_of(newest.state.value),
        "started_at": iso(newest.started_at),
        "user": newest.created.user,
        "code_digest": newest.created.code_digest or None,
        "git_commit": newest.created.git_commit,
        "plan_id": None if plan is None else plan.plan_id,
        "plan_update_id": None if plan is None else plan.update_id,
        "plan_applied_at": None if plan is None else iso(plan.at),
        "rollback": None if plan is None else ["headrace", "rollback", plan.plan_id],
    }


def _applied(pipeline: ServedPipeline) -> tuple[AppliedPlan, ...]:
    """The newest updates that applied plans."""
    reader = pipeline.events()
    if not reader.exists:
        return ()
    # The text of JSON may have the word elsewhere, too.
    where = f"event_type = '{UpdateCreated.event_type}' AND strpos(details, 'plan_id') > 0"
    found = recorded_rows(reader, where, f"id DESC LIMIT {_APPLIED}")
    return tuple(
        AppliedPlan(one.event.plan_id, one.update_id, one.at)
        for one in found
        if isinstance(one.event, UpdateCreated) and one.event.plan_id
    )


def _details(pipeline: ServedPipeline, plan: PlanFile) -> dict[str, Any]:
    """The steps of a plan, and the code that its flows last ran with against that of now."""
    code = code_of_plan(pipeline.settings, plan).to_json() if not plan.stage else {"flows": [], "files": {}}
    flows = [{**flow, "diff": _cut(flow["diff"])} for flow in code["flows"]]
    files = [{"file": file, "diff": _cut(text)} for file, text in code["files"].items()]
    return {"steps": [*_steps(plan.document.get("steps") or {})][:_STEPS], "code": {"flows": flows, "files": files}}


def _steps(steps: Mapping[str, Any]) -> Iterable[dict[str, Any]]:
    """The steps of tables, views and flows as what, step and reason."""
    for kind, name, step in (
        ("tables", "dataset", "change"),
        ("views", "dataset", "change"),
        ("flows", "flow", "decision"),
    ):
        for one in steps.get(kind, ()):
            found = {"kind": kind.removesuffix("s"), "name": str(one[name]), "step": str(one[step])}
            yield {**found, "reason": str(one.get("reason") or "") or None}


def _cut(text: str | None) -> str | None:
    if text is None or len(text) <= _DIFF_CHARACTERS:
        return text
    kept = text[:_DIFF_CHARACTERS].rsplit("\n", 1)[0]
    return f"{kept}\n... {text.count(chr(10)) - kept.count(chr(10))} more lines: headrace plan --diff"


def _policy(policy: ApprovalPolicy) -> dict[str, Any]:
    return {
        "mode": policy.mode.value,
        "required": [known.value for known in policy.required],
        "four_eyes": policy.four_eyes,
    }


def _time(text: Any) -> str | None:
    """A time of a document in UTC; None for something else."""
    try:
        return iso(datetime.fromisoformat(text))
    except (TypeError, ValueError):
        return None
