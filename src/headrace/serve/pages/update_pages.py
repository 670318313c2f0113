"""The updates of a pipeline, and one of them: when its flows ran, how they ended, its plan, and its events."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from headrace.errors import PipelineError
from headrace.events.reader import EventReader
from headrace.events.recorded import find_update
from headrace.events.types import UpdateCreated
from headrace.events.update_events import first_states
from headrace.metrics.trace import Span
from headrace.model.outcome import Outcome, UpdateState
from headrace.plan.plan_file import PlanFile
from headrace.project.changes.saved_plans import saved_plans
from headrace.project.inspection.diagnosis.careful_reading import CarefulReading, reading_carefully
from headrace.serve.charts import gantt, update_bars
from headrace.serve.formats import iso
from headrace.serve.pages.careful import unread_facts
from headrace.serve.pages.facts import error_facts, mark_of, update_facts
from headrace.serve.pages.update_events import AskedEvents, update_events
from headrace.serve.pages.update_plan import update_plan
from headrace.serve.pipelines import NEWEST_UPDATES, ServedPipeline
from headrace.serve.render import Page

_NONE: Mapping[str, str] = MappingProxyType({})


def updates_page(pipeline: ServedPipeline, most: int = NEWEST_UPDATES, before: int | None = None) -> Page:
    """So many of the newest updates; with *before*, of those created before the event with this sequence number.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    view = pipeline.view()
    # The view has the newest ones, also if a part of the event log cannot be read.
    found = view.updates if before is None and most == NEWEST_UPDATES else pipeline.updates(most, before)
    updates = [update_facts(update) for update in found]
    document = {
        "name": pipeline.name,
        "as_of": iso(view.as_of),
        "updates": updates,
        "most": most,
        "before": before,
        "earlier": found[-1].sequence if len(found) == most else None,
    }
    return Page("updates.html", f"Updates: {pipeline.name}", document, {"bars": update_bars(updates)})


def update_page(pipeline: ServedPipeline, update_id: str, query: Mapping[str, str] = _NONE) -> Page:
    """The page of an update.

    Args:
        pipeline: the pipeline.
        update_id: the beginning of its id is enough.
        query: which of its events are listed: ``level``, ``flow`` and ``page``.

    Raises:
        PipelineError: TRACE.NO_UPDATE, EVENTS.NOT_READABLE.
    """
    trace = pipeline.trace(update_id) if update_id else None
    if trace is None:
        raise PipelineError("TRACE.NO_UPDATE", update=update_id)
    reader = pipeline.events()
    found = find_update(reader, update_id) or trace.update_id
    outcome, root = reader.outcome(found), trace.root
    state = str(root.attributes["headrace.state"])
    flows = [] if outcome is None else [flow for flow in outcome.flows if not flow.is_unselected]
    with reading_carefully(pipeline.settings.layout) as reading:
        plan = _plan(pipeline, reader, outcome, found, reading, is_running=state == UpdateState.RUNNING.value)
    document = {
        "name": pipeline.name,
        "update_id": found,
        "state": state,
        "mark": mark_of(state),
        "cause": root.attributes.get("headrace.cause"),
        "user": root.attributes.get("headrace.user"),
        "version": root.attributes.get("headrace.version"),
        "git_commit": root.attributes.get("vcs.ref.head.revision"),
        "started_at": iso(root.start),
        "ended_at": None if state in ("RUNNING", "LOST") else iso(root.end),
        "duration_s": round(root.duration_s, 3),
        "error": None if outcome is None else error_facts(outcome.error),
        "flows": [{**flow.to_json(), "mark": mark_of(flow.state.value)} for flow in flows],
        "attempts": [_attempt(span) for span in root.children],
        "again": sorted({flow.dataset for flow in flows})
        if outcome is not None and len(outcome.flows) > len(flows)
        else [],
        "not_selected": 0 if outcome is None else len(outcome.flows) - len(flows),
        "warnings": [
            {"code": one.code, "message": one.message, "flow": one.flow, "dataset": one.dataset}
            for one in reader.warnings(found)
        ],
        "unread": unread_facts(reading.unread),
        "plan": plan,
        "events": update_events(reader, found, AskedEvents.of(query)),
    }
    return Page("update.html", f"Update {found}", document, {"gantt": gantt(root)})


def _plan(
    pipeline: ServedPipeline,
    reader: EventReader,
    outcome: Outcome | None,
    update_id: str,
    reading: CarefulReading,
    *,
    is_running: bool,
) -> dict[str, Any]:
    """What an update was to do, from its events, and from the file of the plan that it applied."""
    firsts = first_states(reader, update_id)
    plan_id = next((one.event.plan_id for one in firsts if isinstance(one.event, UpdateCreated)), None)

    def applied() -> PlanFile | None:
        plans = pipeline.remembered.of("saved plans", lambda: saved_plans(pipeline.settings)).plans
        return next((one.plan for one in plans if one.plan.plan_id == plan_id), None)

    stored = None if plan_id is None else reading.read("the plan that was applied", applied, None)
    return update_plan(firsts, outcome, stored, is_running=is_running)


def _attempt(span: Span) -> dict[str, Any]:
    failure = span.failure
    return {
        "flow": span.attributes["flow"],
        "attempt": span.attributes["headrace.attempt"],
        "state": span.attributes["headrace.state"],
        "mark": mark_of(str(span.attributes["headrace.state"])),
        "started_at": iso(span.start),
        "ended_at": iso(span.end),
        "duration_s": round(span.duration_s, 3),
        "batches": len(span.children),
        "batches_left_out": span.attributes.get("headrace.batches_left_out", 0),
        "error": None if failure is None else {"code": failure.code, "message": failure.message},
    }
