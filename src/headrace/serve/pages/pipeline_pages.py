"""The list of pipelines, the overview of one, and what the doctor finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from headrace.errors import PipelineError, Problems
from headrace.metrics.dataset_health import Health
from headrace.project.inspection.pipeline_view import PipelineView
from headrace.serve.charts import update_bars
from headrace.serve.formats import iso
from headrace.serve.pages.attention import attention
from headrace.serve.pages.facts import (
    datasets_of,
    flow_facts,
    flow_values,
    healths,
    kind_of,
    lease_facts,
    mark_of,
    update_facts,
)
from headrace.serve.pages.open_counts import open_counts
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import Page

_BARS = 20
_LISTED_UPDATES = 10
_NO_UPDATE = "NO UPDATE"


def pipelines_page(pipelines: Iterable[ServedPipeline]) -> Page:
    """All pipelines, with their health and their last updates."""
    rows = [_row(pipeline) for pipeline in pipelines]
    bars = {row["slug"]: update_bars(row["updates"]) for row in rows}
    return Page("pipelines.html", "Pipelines", {"pipelines": rows}, {"bars": bars})


def _row(pipeline: ServedPipeline) -> dict[str, Any]:
    view = pipeline.view()
    items = attention(view)
    state = _NO_UPDATE if view.outcome is None else view.outcome.state.value
    return {
        "slug": pipeline.slug,
        "name": pipeline.name,
        "folder": str(pipeline.settings.root),
        "state": state,
        "mark": Health.UNKNOWN.value if view.outcome is None else mark_of(state),
        "is_running": view.is_held,
        "datasets": len(datasets_of(view)),
        "healths": _healths(view, datasets_of(view)),
        "open": open_counts(view),
        "attention": Counter(item["severity"] for item in items),
        "worst": items[0]["sentence"] if items and items[0]["severity"] != "info" else None,
        "next_run": pipeline.remembered.of("next run", lambda: next_run(pipeline)),
        "updates": [update_facts(update) for update in view.updates[:_BARS]],
        "as_of": iso(view.as_of),
    }


def next_run(pipeline: ServedPipeline) -> dict[str, str] | None:
    """The schedule that is due next, and when; None without one, or if the schedules cannot be read."""
    try:
        schedules = pipeline.schedules().to_json()["schedules"]
    except (PipelineError, Problems, OSError):
        return None
    due = [one for one in schedules if one["next_at"] is not None]
    found = min(due, key=lambda one: str(one["next_at"]), default=None)
    return None if found is None else {"schedule": found["name"], "at": found["next_at"]}


def overview_page(pipeline: ServedPipeline) -> Page:
    """What needs attention, who runs the pipeline, its datasets and flows, and its last updates."""
    view = pipeline.view()
    known, values = healths(view.samples), flow_values(view)
    names = datasets_of(view)
    unknown: dict[str, Any] = {"health": Health.UNKNOWN.value, "signals": []}
    datasets = [{"dataset": name, "kind": kind_of(view, name), **known.get(name, unknown)} for name in names]
    flows = [flow_facts(view, name, values) for name in view.logged.flows]
    updates = [update_facts(update) for update in view.updates]
    document = {
        "name": pipeline.name,
        "as_of": iso(view.as_of),
        "state": None if view.outcome is None else view.outcome.state.value,
        "mark": Health.UNKNOWN.value if view.outcome is None else mark_of(view.outcome.state.value),
        "lease": lease_facts(view),
        "attention": attention(view),
        "healths": _healths(view, names),
        "datasets": sorted(datasets, key=lambda one: -Health(one["health"]).rank),
        "flows": flows,
        "updates": updates[:_LISTED_UPDATES],
    }
    return Page("overview.html", pipeline.name, document, {"bars": update_bars(updates[:_BARS])})


def doctor_page(pipeline: ServedPipeline) -> Page:
    """What the doctor finds, with evidence and remedies."""
    found = pipeline.diagnosis().to_json()
    return Page("doctor.html", f"Doctor: {pipeline.name}", {"name": pipeline.name, **found})


def _healths(view: PipelineView, names: Iterable[str]) -> dict[str, int]:
    """How many datasets have each health, the worst first."""
    known = healths(view.samples)
    found = Counter(known[name]["health"] if name in known else Health.UNKNOWN.value for name in names)
    return {one.value: found[one.value] for one in reversed(Health) if found[one.value]}
