"""What the API has of a pipeline: the documents of the pages, and lists that have no page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from headrace.errors import PipelineError
from headrace.project.inspection.stored_project import StoredProject
from headrace.project.requests.plan_files import saved_plans
from headrace.project.requests.request_file import stored_requests
from headrace.project.requests.request_results import result_of
from headrace.serve.api import dataset_reading, flow_reading, row_reading
from headrace.serve.api.all_pipelines import alert_facts, known_alerts
from headrace.serve.api.query_values import Values, before_of, limit_of
from headrace.serve.api.routes import UPDATES
from headrace.serve.formats import iso
from headrace.serve.pages.dataset_page import dataset_page
from headrace.serve.pages.flow_page import flow_page
from headrace.serve.pages.graph_page import Shown, graph_page
from headrace.serve.pages.pipeline_pages import doctor_page, overview_page
from headrace.serve.pages.schedules_page import schedule_facts
from headrace.serve.pages.update_pages import update_page, updates_page
from headrace.serve.pipelines import ServedPipeline
from headrace.storage.savepoints.stored import Savepoints


def _alerts(pipeline: ServedPipeline, _values: Values) -> Mapping[str, Any]:
    return {"alerts": [alert_facts(alert) for alert in known_alerts(pipeline)]}


def _updates(pipeline: ServedPipeline, values: Values) -> Mapping[str, Any]:
    document: Mapping[str, Any] = updates_page(pipeline, limit_of(values, UPDATES), before_of(values)).document
    return document


def _quarantine(pipeline: ServedPipeline, _values: Values) -> Mapping[str, Any]:
    found = _stored(pipeline).quarantine_list()
    return {"quarantines": [{"dataset": name, "rows": rows, "rules": dict(rules)} for name, rows, rules in found]}


def _savepoints(pipeline: ServedPipeline, _values: Values) -> Mapping[str, Any]:
    stored = Savepoints(pipeline.settings.layout)
    found = [
        {
            "id": one.id,
            "name": one.name,
            "kind": one.kind.value,
            "made_at": iso(one.made_at),
            "made_by": one.made_by,
            "plan_id": one.plan_id or None,
            "tables": len(one.tables),
            "flows": len(one.flows),
            "size_bytes": one.size_bytes,
        }
        for one in stored.all()
    ]
    return {"savepoints": found, "problems": [problem.to_json() for problem in stored.problems()]}


def _plans(pipeline: ServedPipeline, _values: Values) -> Mapping[str, Any]:
    return {"plans": [one.to_json() for one in saved_plans(pipeline.settings.layout)]}


def _requests(pipeline: ServedPipeline, _values: Values) -> Mapping[str, Any]:
    found = list(stored_requests(pipeline.settings).values())
    # The newest first.
    return {"requests": [one.to_json() for one in reversed(found)]}


def _request(pipeline: ServedPipeline, values: Values) -> Mapping[str, Any]:
    known = stored_requests(pipeline.settings)
    found = known.get(values["request"])
    if found is None:
        raise PipelineError("SERVE.NO_REQUEST", id=values["request"])
    return {**found.to_json(), "result": result_of(pipeline.settings, found, known)}


def _stored(pipeline: ServedPipeline) -> StoredProject:
    return StoredProject(pipeline.settings, pipeline.environ)


# By the name of the route. They read storages, so they are called in threads.
READERS: Mapping[str, Callable[[ServedPipeline, Values], Any]] = {
    "pipeline": lambda pipeline, _values: overview_page(pipeline).document,
    "graph": lambda pipeline, values: graph_page(pipeline, Shown.of(values)).document,
    "dataset": lambda pipeline, values: dataset_page(pipeline, values["dataset"]).document,
    "rows": row_reading.rows,
    "diff": row_reading.diff,
    "history": dataset_reading.history,
    "schema": dataset_reading.schema,
    "expectations": dataset_reading.expectations,
    "batches": flow_reading.batches,
    "checkpoint": flow_reading.checkpoint,
    "state": flow_reading.state,
    "flow": lambda pipeline, values: flow_page(pipeline, values["flow"]).document,
    "updates": _updates,
    "update": lambda pipeline, values: update_page(pipeline, values["update"], values).document,
    "doctor": lambda pipeline, _values: doctor_page(pipeline).document,
    "schedule": lambda pipeline, values: schedule_facts(pipeline.schedules(), values["schedule"]),
    "schedules": lambda pipeline, _values: pipeline.schedules().to_json(),
    "alerts": _alerts,
    "quarantine": _quarantine,
    "quarantined_rows": row_reading.quarantined_rows,
    "savepoints": _savepoints,
    "plans": _plans,
    "requests": _requests,
    "request": _request,
}
