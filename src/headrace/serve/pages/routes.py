"""The pages of a pipeline by their paths."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from starlette.requests import Request

from headrace.serve.pages.alerts_page import alerts_page
from headrace.serve.pages.changes_page import changes_page
from headrace.serve.pages.dev_page import dev_page
from headrace.serve.pages.flow_page import flow_page
from headrace.serve.pages.form_pages import form_page
from headrace.serve.pages.graph_page import Shown, graph_page
from headrace.serve.pages.maintenance_page import maintenance_page
from headrace.serve.pages.paging import page_number
from headrace.serve.pages.pipeline_pages import doctor_page, overview_page
from headrace.serve.pages.quarantine_page import quarantine_page
from headrace.serve.pages.request_pages import request_page, requests_page
from headrace.serve.pages.savepoints_page import savepoints_page
from headrace.serve.pages.schedules_page import schedules_page
from headrace.serve.pages.settings_page import settings_page
from headrace.serve.pages.shown_dataset import shown_dataset
from headrace.serve.pages.update_pages import update_page, updates_page
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.render import Page
from headrace.serve.roles import principal_of
from headrace.serve.whole_numbers import whole_number

PageOf: TypeAlias = Callable[[ServedPipeline, Request, str], Page]


def overview(pipeline: ServedPipeline, _request: Request, _name: str) -> Page:
    """The first page of a pipeline."""
    return overview_page(pipeline)


def _graph(pipeline: ServedPipeline, request: Request, _name: str) -> Page:
    return graph_page(pipeline, Shown.of(request.query_params))


def _changes(pipeline: ServedPipeline, request: Request, _name: str) -> Page:
    return changes_page(pipeline, _part(request), request.query_params.get("plan", ""))


def _quarantine(pipeline: ServedPipeline, request: Request, _name: str) -> Page:
    return quarantine_page(
        pipeline, _part(request), request.query_params.get("dataset", ""), principal_of(request.scope).role
    )


def _savepoints(pipeline: ServedPipeline, request: Request, _name: str) -> Page:
    return savepoints_page(pipeline, _part(request), request.query_params.get("savepoint", ""))


def _updates(pipeline: ServedPipeline, request: Request, _name: str) -> Page:
    return updates_page(pipeline, before=whole_number(request.query_params.get("before", "")))


def _update(pipeline: ServedPipeline, request: Request, name: str) -> Page:
    return update_page(pipeline, name, request.query_params)


def _part(request: Request) -> int:
    return page_number(request.query_params.get("page", ""))


# By the section that is marked in the navigation; each has JSON at the same path with .json at the end.
_SECTIONS: dict[str, PageOf] = {
    "graph": _graph,
    "updates": _updates,
    "alerts": lambda pipeline, request, _name: alerts_page(pipeline, _part(request)),
    "quarantine": _quarantine,
    "changes": _changes,
    "schedules": lambda pipeline, request, _name: schedules_page(pipeline, _part(request)),
    "savepoints": _savepoints,
    "maintenance": lambda pipeline, request, _name: maintenance_page(pipeline, _part(request)),
    "settings": lambda pipeline, _request, _name: settings_page(pipeline),
    "requests": lambda pipeline, request, _name: requests_page(pipeline, _part(request)),
    "doctor": lambda pipeline, _request, _name: doctor_page(pipeline),
}
# Paths, what makes the page, and the section that is marked.
PAGES: tuple[tuple[str, PageOf, str], ...] = (
    *((f"/p/{{slug}}/{name}{ending}", make, name) for name, make in _SECTIONS.items() for ending in ("", ".json")),
    ("/p/{slug}/d/{name:path}", shown_dataset, "graph"),
    ("/p/{slug}/f/{name:path}", lambda pipeline, _request, name: flow_page(pipeline, name), "graph"),
    ("/p/{slug}/u/{name:path}", _update, "updates"),
    ("/p/{slug}/forms/{name:path}", form_page, "forms"),
    ("/p/{slug}/requests/{name:path}", lambda pipeline, _request, name: request_page(pipeline, name), "requests"),
    *((path, dev_page, "dev") for path in ("/p/{slug}/dev", "/p/{slug}/dev.json")),
    ("/p/{slug}", overview, "overview"),
)
