"""Answers with pages, as HTML or as JSON, and with the page of an error if one cannot be made."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from headrace.errors import PipelineError, Problems, problems_of
from headrace.serve.api.endpoints import Endpoint
from headrace.serve.api.failures import failure, is_for_programs, refusal
from headrace.serve.api.routes import ROUTES
from headrace.serve.forms.form_endpoint import SHOWN_REQUEST
from headrace.serve.forms.form_tokens import FormTokens
from headrace.serve.offers import Offers
from headrace.serve.pages.help_page import help_index, help_page
from headrace.serve.pages.open_counts import open_counts
from headrace.serve.pages.paging import page_number
from headrace.serve.pages.pipeline_pages import pipelines_page
from headrace.serve.pages.request_pages import notice_of
from headrace.serve.pages.routes import PageOf
from headrace.serve.pipelines import ServedPipeline, redact_all
from headrace.serve.render import Frame, Page, Renderer
from headrace.serve.roles import principal_of

# The role that each operation needs for which a page may have a form.
OPERATIONS = {route.name: route.role for route in ROUTES if route.writes}
_JSON = ".json"
_MISSING = frozenset({"SERVE.NO_PAGE", "SERVE.NO_REQUEST", "TRACE.NO_UPDATE"})


def _new_key() -> str:
    return f"form-{uuid.uuid4().hex}"


@dataclass(frozen=True)
class FormSource:
    """What the forms of pages need.

    Attributes:
        tokens: binds forms to sessions.
        is_read_only: pages have no forms.
        new_key: makes the id of the request of a form.
    """

    tokens: FormTokens
    is_read_only: bool
    new_key: Callable[[], str] = field(default=_new_key)


class Pages:
    """Answers with pages. They are made in threads, because they read storages.

    Args:
        pipelines: by their names in URLs.
        renderer: makes answers.
        forms: what their forms need.
    """

    def __init__(self, pipelines: Mapping[str, ServedPipeline], renderer: Renderer, forms: FormSource) -> None:
        self._pipelines = pipelines
        self._renderer = renderer
        self._forms = forms

    async def home(self, request: Request) -> Response:
        """The list of the pipelines."""
        pipelines = self._pipelines.values()
        page = await run_in_threadpool(pipelines_page, pipelines)
        # Each pipeline knows its own secrets.
        frame = self._frame_of_none(redact_all(pipelines))
        found = {one.slug: self._offers(one, request, f"/p/{one.slug}") for one in pipelines}
        offers = {slug: one for slug, one in found.items() if one is not None}
        return self._answer(request, page, replace(frame, offers_of=offers))

    async def codes(self, request: Request) -> Response:
        """The list of the codes of errors."""
        query = request.query_params
        page = help_index(query.get("q", ""), page_number(query.get("page", "")))
        return self._answer(request, page, self._frame_of_none())

    async def help(self, request: Request) -> Response:
        """What a code means."""
        name = request.path_params["name"]
        return self._answer(request, help_page(name.removesuffix(_JSON)), self._frame_of_none())

    def of_pipeline(self, make: PageOf, section: str) -> Endpoint:
        """The endpoint of a page of a pipeline."""

        async def endpoint(request: Request) -> Response:
            slug = request.path_params["slug"].removesuffix(_JSON)
            pipeline = self._pipelines.get(slug)
            if pipeline is None:
                raise PipelineError("SERVE.NO_PAGE", what=f'pipeline "{slug}"', suggestion="")
            name = request.path_params.get("name", "")
            try:
                page = await run_in_threadpool(make, pipeline, request, name)
                wants_json = _wants_json(request) and not name
            except PipelineError as error:
                # A flow may have a name that ends like this.
                if error.code not in _MISSING or not name.endswith(_JSON):
                    raise
                page = await run_in_threadpool(make, pipeline, request, name.removesuffix(_JSON))
                wants_json = True
            if wants_json:
                return self._renderer.json(page, Frame(slug, "", redact=pipeline.redact))
            frame = await run_in_threadpool(self._frame, pipeline, request, section)
            return self._renderer.html(page, frame, _json_path(request))

        return endpoint

    async def failed(self, request: Request, error: Exception) -> Response:
        """The page of an error of ours."""
        if not isinstance(error, PipelineError | Problems):
            raise error
        redact = redact_all(self._pipelines.values())
        if is_for_programs(request.url.path):
            return failure(error, redact)
        error = problems_of(error)[0]
        page = Page("error.html", error.message, error.to_json(), status=404 if error.code in _MISSING else 503)
        return self._answer(request, page, self._frame_of_none(redact))

    async def refused(self, request: Request, error: Exception) -> Response:
        """The page of an unknown path, or of a method that it does not have."""
        if not isinstance(error, HTTPException):
            raise error
        if is_for_programs(request.url.path):
            answer = failure(refusal(error, request.method, request.url.path))
            answer.headers.update(error.headers or {})
            return answer
        if error.status_code != 404:
            return PlainTextResponse(f"{error.detail}\n", error.status_code, error.headers)
        return await self.failed(request, PipelineError("SERVE.NO_PAGE", what=request.url.path, suggestion=""))

    def _frame(self, pipeline: ServedPipeline, request: Request, section: str) -> Frame:
        """What is around a page of a pipeline, for whoever looks at it."""
        shown = request.query_params.get(SHOWN_REQUEST, "")
        return Frame(
            pipeline.slug,
            pipeline.redact(pipeline.name),
            section,
            pipeline.redact,
            open_counts(pipeline.view()),
            self._offers(pipeline, request, _own_url(request)),
            notice_of(pipeline, shown) if shown else None,
            is_read_only=self._forms.is_read_only,
        )

    def _offers(self, pipeline: ServedPipeline, request: Request, here: str) -> Offers | None:
        """The forms for whoever looks, which lead back to a path; None for programs, and if nobody may send any."""
        principal = principal_of(request.scope)
        if self._forms.is_read_only or not principal.is_browser:
            return None
        return Offers(pipeline.slug, principal, self._forms.tokens.of(principal), self._forms.new_key, here, OPERATIONS)

    def _frame_of_none(self, redact: Callable[[str], str] = str) -> Frame:
        return Frame("", "", redact=redact, is_read_only=self._forms.is_read_only)

    def _answer(self, request: Request, page: Page, frame: Frame) -> Response:
        if _wants_json(request):
            return self._renderer.json(page, frame)
        return self._renderer.html(page, frame, _json_path(request))


def _wants_json(request: Request) -> bool:
    return request.url.path.endswith(_JSON)


def _json_path(request: Request) -> str:
    """The path of the same page as JSON."""
    query = f"?{request.url.query}" if request.url.query else ""
    return f"{request.url.path}{_JSON}{query}"


def _own_url(request: Request) -> str:
    """The path and the query of a page."""
    return f"{request.url.path}?{request.url.query}" if request.url.query else request.url.path
