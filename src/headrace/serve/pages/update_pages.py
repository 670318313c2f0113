"""The updates of a pipeline, and one of them: when its flows ran, how they ended, and their errors."""

from __future__ import annotations

from typing import Any

from headrace.errors import PipelineError
from headrace.events.recorded import find_update
from headrace.metrics.trace import Span
from headrace.serve.charts import gantt, update_bars
from headrace.serve.formats import iso
from headrace.serve.pages.facts import error_facts, mark_of, update_facts
from headrace.serve.pipelines import NEWEST_UPDATES, ServedPipeline
from headrace.serve.render import Page


def updates_page(pipeline: ServedPipeline) -> Page:
    """The newest updates."""
    view = pipeline.view()
    updates = [update_facts(update) for update in view.updates]
    document = {
        "name": pipeline.name,
        "as_of": iso(view.as_of),
        "updates": updates,
        "most": NEWEST_UPDATES,
    }
    return Page("updates.html", f"Updates: {pipeline.name}", document, {"bars": update_bars(updates)})


def update_page(pipeline: ServedPipeline, update_id: str) -> Page:
    """The page of an update; of its id, the beginning is enough.

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
    }
    return Page("update.html", f"Update {found}", document, {"gantt": gantt(root)})


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
