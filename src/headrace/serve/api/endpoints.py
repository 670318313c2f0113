"""Mounts the API: each route of the table with the function that answers it, behind the check of its role."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from functools import cache
from typing import Any
from urllib.parse import unquote

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.errors import PipelineError
from headrace.serve.api.all_pipelines import all_alerts, metrics_text
from headrace.serve.api.bodies import JSON_TYPE, checked_key, parsed_body
from headrace.serve.api.openapi import openapi
from headrace.serve.api.reading import READERS
from headrace.serve.api.routes import KEY_HEADER, METRICS_TYPE, PREFIX, ROUTES, ApiRoute
from headrace.serve.api.submitting import Submission, check_role, no_storage
from headrace.serve.api.writing import Asked
from headrace.serve.pages.pipeline_pages import pipelines_page
from headrace.serve.pipelines import ServedPipeline, redact_all
from headrace.serve.render import Frame, Page, Renderer, json_answer
from headrace.serve.roles import principal_of

_SITE, _OWN_SITE = "sec-fetch-site", "same-origin"
_SHOWN = 100

Endpoint = Callable[[Request], Awaitable[Response]]


class Api:
    """The API of some pipelines.

    Args:
        pipelines: by their names in URLs.
        renderer: makes answers.
        events: answers with events.
        query: answers with the rows of a query.
        submission: stores requests.
        is_read_only: nothing but reading is mounted.
    """

    def __init__(
        self,
        pipelines: Mapping[str, ServedPipeline],
        renderer: Renderer,
        events: Endpoint,
        *,
        query: Endpoint,
        submission: Submission,
        is_read_only: bool,
    ) -> None:
        self._pipelines = pipelines
        self._submission = submission
        self._is_read_only = is_read_only
        self._renderer = renderer
        self._own: Mapping[str, Endpoint] = {
            "openapi": _openapi,
            "me": self._me,
            "pipelines": self._list,
            "all_alerts": self._all_alerts,
            "metrics": self._metrics,
            "events": events,
            "sql": query,
        }

    def routes(self) -> list[Route]:
        """The routes of the table."""
        mounted = [one for one in ROUTES if one.method == "GET" or not self._is_read_only]
        # A name may have slashes: what has a word after a name comes before what ends with it.
        longest = sorted(mounted, key=lambda one: -one.path.count("/"))
        return [Route(one.pattern, self._checked(one), methods=[one.method]) for one in longest]

    def _checked(self, route: ApiRoute) -> Endpoint:
        answer = self._own.get(route.name) or (self._write(route) if route.writes else self._read(route))

        async def endpoint(request: Request) -> Response:
            principal = principal_of(request.scope)
            check_role(principal, route)
            # Browsers send the cookie for pages of all ports of this machine.
            if route.writes and principal.is_browser and request.headers.getlist(_SITE) != [_OWN_SITE]:
                raise PipelineError("API.CROSS_SITE")
            return await answer(request)

        return endpoint

    def _read(self, route: ApiRoute) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            pipeline = self._pipeline(request)
            name, path = _meant(route, request)
            values = {**request.query_params, **path}
            try:
                return self._answer(pipeline, await run_in_threadpool(READERS[name], pipeline, values))
            except OSError as error:
                raise no_storage(error) from error

        return endpoint

    def _write(self, route: ApiRoute) -> Endpoint:
        async def endpoint(request: Request) -> Response:
            found = ", ".join(request.headers.getlist("content-type"))
            if found.partition(";")[0].strip().lower() != JSON_TYPE:
                raise PipelineError("API.CONTENT_TYPE", found=found[:_SHOWN])
            pipeline = self._pipeline(request)
            key = checked_key(request.headers.getlist(KEY_HEADER))
            path = {name: text for name, text in request.path_params.items() if name != "pipeline"}
            body = parsed_body(route, await request.body(), path)
            principal, address = principal_of(request.scope), request.client.host if request.client else ""
            asked = Asked(pipeline, body, principal, key or f"api-{uuid.uuid4().hex}")
            made = await run_in_threadpool(self._submission.submit, route, asked, address)
            url = f"{PREFIX}/pipelines/{pipeline.slug}/requests/{made.id}"
            answer = self._answer(pipeline, {**made.as_asked(), "url": url}, 202)
            answer.headers["Location"] = url
            return answer

        return endpoint

    def _pipeline(self, request: Request) -> ServedPipeline:
        slug = request.path_params["pipeline"]
        if slug not in self._pipelines:
            raise PipelineError("SERVE.NO_PAGE", what=f'pipeline "{slug}"', suggestion="")
        return self._pipelines[slug]

    def _answer(self, pipeline: ServedPipeline, document: Any, status: int = 200) -> Response:
        return self._renderer.json(
            Page("", "", document, status=status), Frame(pipeline.slug, "", redact=pipeline.redact)
        )

    async def _me(self, request: Request) -> Response:
        principal = principal_of(request.scope)
        return json_answer({"name": principal.name, "role": principal.role.value, "is_read_only": self._is_read_only})

    async def _list(self, _request: Request) -> Response:
        pipelines = self._pipelines.values()
        page = await run_in_threadpool(pipelines_page, pipelines)
        # Each pipeline knows its own secrets.
        return self._renderer.json(page, Frame("", "", redact=redact_all(pipelines)))

    async def _all_alerts(self, _request: Request) -> Response:
        pipelines = self._pipelines.values()
        try:
            found = await run_in_threadpool(all_alerts, pipelines)
        except OSError as error:
            raise no_storage(error) from error
        return self._renderer.json(Page("", "", found), Frame("", "", redact=redact_all(pipelines)))

    async def _metrics(self, _request: Request) -> Response:
        pipelines = self._pipelines.values()
        text = await run_in_threadpool(metrics_text, pipelines)
        # As a parameter, Starlette would add to the type.
        return Response(redact_all(pipelines)(text), headers={"Content-Type": METRICS_TYPE})


def _meant(route: ApiRoute, request: Request) -> tuple[str, Mapping[str, str]]:
    """The name of the route that is meant, and the names in its path.

    The flow ``a/state`` is ``a%2Fstate`` in a path, which is no ``state`` of the flow ``a``.
    """
    path: Mapping[str, str] = request.path_params
    whole, _, word = route.path.rpartition("/")
    last = request.scope.get("raw_path", b"").rpartition(b"/")[2].decode("ascii", "replace")
    parent = next((one for one in ROUTES if (one.method, one.path) == (route.method, whole)), None)
    if parent is None or not parent.ends_with_any_name or not last or unquote(last) == word:
        return route.name, path
    name = parent.path_parameters[-1]
    return parent.name, {**path, name: f"{path[name]}/{word}"}


async def _openapi(_request: Request) -> Response:
    return Response(_document(), media_type=JSON_TYPE)


@cache
def _document() -> bytes:
    return bytes(json_answer(openapi()).body)
