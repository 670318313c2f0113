"""Mounts the API: each route of the table with the function that answers it, behind the check of its role."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.errors import PipelineError
from headrace.serve.api.openapi import openapi
from headrace.serve.api.reading import READERS
from headrace.serve.api.routes import ROUTES, ApiRoute
from headrace.serve.pages.pipeline_pages import pipelines_page
from headrace.serve.pipelines import ServedPipeline, redact_all
from headrace.serve.render import Frame, Page, Renderer, json_answer
from headrace.serve.roles import principal_of

Endpoint = Callable[[Request], Awaitable[Response]]


class Api:
    """The API of some pipelines.

    Args:
        pipelines: by their names in URLs.
        renderer: makes answers.
        events: answers with events.
        is_read_only: nothing but reading is mounted.
    """

    def __init__(
        self,
        pipelines: Mapping[str, ServedPipeline],
        renderer: Renderer,
        events: Endpoint,
        *,
        is_read_only: bool,
    ) -> None:
        self._pipelines = pipelines
        self._is_read_only = is_read_only
        self._renderer = renderer
        self._own: Mapping[str, Endpoint] = {
            "openapi": _openapi,
            "me": self._me,
            "pipelines": self._list,
            "events": events,
        }

    def routes(self) -> list[Route]:
        """The routes of the table."""
        return [
            Route(one.pattern, self._checked(one), methods=[one.method])
            for one in ROUTES
            if one.method == "GET" or not self._is_read_only
        ]

    def _checked(self, route: ApiRoute) -> Endpoint:
        answer = self._own.get(route.name) or self._read(route.name)

        async def endpoint(request: Request) -> Response:
            role = principal_of(request.scope).role
            if not role.includes(route.role):
                raise PipelineError("API.FORBIDDEN", role=role.value, needed=route.role.value, what=route.summary)
            return await answer(request)

        return endpoint

    def _read(self, name: str) -> Endpoint:
        read = READERS[name]

        async def endpoint(request: Request) -> Response:
            pipeline = self._pipeline(request)
            values = {**request.query_params, **request.path_params}
            return self._answer(pipeline, await run_in_threadpool(read, pipeline, values))

        return endpoint

    def _pipeline(self, request: Request) -> ServedPipeline:
        slug = request.path_params["pipeline"]
        if slug not in self._pipelines:
            raise PipelineError("SERVE.NO_PAGE", what=f'pipeline "{slug}"', suggestion="")
        return self._pipelines[slug]

    def _answer(self, pipeline: ServedPipeline, document: Any) -> Response:
        return self._renderer.json(Page("", "", document), Frame(pipeline.slug, "", redact=pipeline.redact))

    async def _me(self, request: Request) -> Response:
        principal = principal_of(request.scope)
        return json_answer({"name": principal.name, "role": principal.role.value, "is_read_only": self._is_read_only})

    async def _list(self, _request: Request) -> Response:
        pipelines = self._pipelines.values()
        page = await run_in_threadpool(pipelines_page, pipelines)
        # Each pipeline knows its own secrets.
        return self._renderer.json(page, Frame("", "", redact=redact_all(pipelines)))


async def _openapi(_request: Request) -> Response:
    return json_answer(openapi())
