"""Pages on which somebody chooses, or sees what will happen, before a form is sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from starlette.requests import Request

from headrace.errors import PipelineError
from headrace.metrics import catalogue
from headrace.model.outcome import UpdateState
from headrace.project.inspection.diagnosis.careful_reading import reading_carefully
from headrace.project.inspection.pipeline_view import PipelineView
from headrace.serve.pages.careful import unread_facts
from headrace.serve.pages.facts import datasets_of, healths, kind_of, value_of
from headrace.serve.pages.quarantine_page import quarantine_page
from headrace.serve.pages.savepoints_page import one_facts, savepoint_facts
from headrace.serve.pages.waiting_facts import shown_rows
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import Page
from headrace.serve.roles import Role, principal_of
from headrace.storage.savepoints.stored import Savepoints

FormPage: TypeAlias = Callable[[ServedPipeline, Mapping[str, str], Role], Page]
_SINK, _DATASETS = "sink", 500
# So many columns get a new value in one form.
_CHANGES = 3


def form_page(pipeline: ServedPipeline, request: Request, operation: str) -> Page:
    """The page of a form.

    Raises:
        PipelineError: SERVE.NO_PAGE: the operation has none, or what it names is unknown.
    """
    make = _PAGES.get(operation)
    if make is None:
        raise PipelineError("SERVE.NO_PAGE", what=f'form "{operation}"', suggestion="")
    return make(pipeline, request.query_params, principal_of(request.scope).role)


def _run(pipeline: ServedPipeline, _values: Mapping[str, str], _role: Role) -> Page:
    return Page("form_run.html", f"Run: {pipeline.name}", {**_choices(pipeline), "is_plan": False})


def _plan(pipeline: ServedPipeline, _values: Mapping[str, str], _role: Role) -> Page:
    return Page("form_run.html", f"Plan: {pipeline.name}", {**_choices(pipeline), "is_plan": True})


def _choices(pipeline: ServedPipeline) -> dict[str, Any]:
    """The datasets that an update can refresh or clear, with their rows."""
    view = pipeline.view()
    done = (one for one in view.updates if one.state is UpdateState.COMPLETED and one.created.is_whole)
    whole = next(done, None)
    known = healths(view.samples)
    datasets = [
        {
            "dataset": name,
            "kind": kind_of(view, name),
            "health": known[name]["health"] if name in known else "unknown",
            "rows": value_of(view.samples, catalogue.TABLE_ROWS, name),
            "can_be_cleared": kind_of(view, name) != _SINK,
        }
        for name in datasets_of(view)
    ]
    return {
        "name": pipeline.name,
        "is_running": view.is_held,
        "whole_update_s": None if whole is None else whole.duration_s,
        "datasets": datasets[:_DATASETS],
        "dataset_count": len(datasets),
    }


def _roll_back(pipeline: ServedPipeline, values: Mapping[str, str], _role: Role) -> Page:
    """What is known of the savepoint that was made before a plan was applied."""
    view, plan_id = pipeline.view(), values.get("plan", "")
    found = [one for one in Savepoints(pipeline.settings.layout).all() if plan_id and one.plan_id == plan_id]
    facts: dict[str, Any] = {"savepoint": None, "tables": [], "flows": []}
    if found:
        facts = {"savepoint": savepoint_facts(found[-1], view.samples), **one_facts(found[-1], view.samples)}
    document = {"name": pipeline.name, "plan": plan_id, "is_running": view.is_held, **facts}
    return Page("form_rollback.html", f"Roll back: {pipeline.name}", document)


def _replay(pipeline: ServedPipeline, values: Mapping[str, str], role: Role) -> Page:
    """The rules of a dataset with open rows, to choose from, its columns, to change, and its newest rows."""
    name = values.get("dataset", "")
    document = quarantine_page(pipeline, 1, name).document if name else {}
    if not name or not document["datasets"]:
        raise PipelineError("SERVE.NO_PAGE", what="a replay without a dataset", suggestion="")
    view, rule = pipeline.view(), values.get("rule", "")
    with reading_carefully(pipeline.settings.layout) as reading:
        waiting = shown_rows(pipeline, reading, name, rule, role)
    facts = {
        "name": pipeline.name,
        "is_running": view.is_held,
        "columns": columns_of(view, name),
        "changes": _CHANGES,
        "rule": rule or None,
        "unread": [*document["unread"], *unread_facts(reading.unread)],
        "waiting": waiting,
        **document["datasets"][0],
    }
    return Page("form_replay.html", f"Replay: {name}", facts)


def columns_of(view: PipelineView, dataset: str) -> list[str]:
    """The columns of a dataset, as its definition has them."""
    defined = view.logged.datasets.get(dataset)
    schema = None if defined is None else defined.schema
    fields = schema.get("fields", []) if isinstance(schema, Mapping) else []
    return [str(one["name"]) for one in fields if isinstance(one, Mapping) and "name" in one]


_PAGES: Mapping[str, FormPage] = {
    "start_update": _run,
    "make_plan": _plan,
    "roll_back": _roll_back,
    "replay": _replay,
}
