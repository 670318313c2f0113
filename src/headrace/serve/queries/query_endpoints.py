"""Answers with the rows of queries and previews. A query ends when its client goes away."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Mapping
from typing import Any

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from headrace.errors import PipelineError, Problems, problems_of
from headrace.project.requests.request import Asker
from headrace.serve.api.bodies import JSON_TYPE, parsed_body
from headrace.serve.api.endpoints import Endpoint
from headrace.serve.api.failures import status_of
from headrace.serve.api.routes import DEFAULT_ROWS, DEFAULT_SECONDS, LONGEST_QUERY, MOST_ROWS, MOST_SECONDS, ROUTES
from headrace.serve.forms.form_fields import TOKEN, SentForm, sent_form
from headrace.serve.forms.form_tokens import FormTokens
from headrace.serve.pages.routes import PageOf
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.queries.csv_text import csv_text
from headrace.serve.queries.query_pages import preview_page, sql_page
from headrace.serve.queries.query_runner import QueryResult, QueryRunner
from headrace.serve.render import Page, json_answer
from headrace.serve.roles import Principal, Role, principal_of

_SQL = next(route for route in ROUTES if route.name == "sql")
_SITE, _OWN_SITE = "sec-fetch-site", "same-origin"
_CLIENT_S = 0.5
_CSV = "csv"

# Makes a page of a pipeline an answer, in the frame of its pipeline.
Framed = Callable[[PageOf, str], Endpoint]


class Queries:
    """The endpoints of queries and previews.

    Args:
        pipelines: by their names in URLs.
        runners: run queries, by the pipeline's name in URLs; none if the server is read-only.
        tokens: of forms.
    """

    def __init__(
        self, pipelines: Mapping[str, ServedPipeline], runners: Mapping[str, QueryRunner], tokens: FormTokens
    ) -> None:
        self._pipelines = pipelines
        self._runners = runners
        self._tokens = tokens

    async def for_programs(self, request: Request) -> Response:
        """The answer of the API."""
        found = ", ".join(request.headers.getlist("content-type"))
        if found.partition(";")[0].strip().lower() != JSON_TYPE:
            raise PipelineError("API.CONTENT_TYPE", found=found[:100])
        pipeline = self._pipeline(request.path_params["pipeline"])
        runner = self._runner(pipeline)
        body = parsed_body(_SQL, await request.body(), {})
        rows, seconds = body.whole("rows", DEFAULT_ROWS), body.whole("seconds", DEFAULT_SECONDS)
        query = body.text("query")
        if not query.strip():
            raise PipelineError("API.FIELD", what='field "query"', reason="it is missing")

        def run(is_canceled: Callable[[], bool]) -> QueryResult:
            return runner.sql(_asker(request), query, rows, seconds, is_canceled)

        result = await _while_connected(request, run)
        return json_answer(_redacted(result.to_json(), pipeline.redact))

    def sql(self, pipeline: ServedPipeline, request: Request, _name: str) -> Page:
        """The page with the form for a query."""
        return sql_page(pipeline, **self._access(pipeline, request), query=request.query_params.get("query", ""))

    def preview(self, pipeline: ServedPipeline, request: Request, _name: str) -> Page:
        """The page with the button for a preview."""
        dataset = request.query_params.get("dataset", "")
        return preview_page(pipeline, dataset, **self._access(pipeline, request))

    def send_sql(self, framed: Framed) -> Endpoint:
        """The endpoint of the form for a query; *framed* makes a page an answer."""

        async def endpoint(request: Request) -> Response:
            pipeline = self._pipeline(request.path_params["slug"])
            try:
                form = await self._form(request, _SQL.summary)
            except (PipelineError, Problems) as error:
                refusal = _refusal(pipeline, "sql", _SQL.summary, error)
                return await framed(lambda *_: refusal, "sql")(request)
            query = form.one("query")[:LONGEST_QUERY]
            rows = _number(form.one("rows"), DEFAULT_ROWS, MOST_ROWS)
            seconds = _number(form.one("seconds"), DEFAULT_SECONDS, MOST_SECONDS)

            def run(is_canceled: Callable[[], bool]) -> QueryResult:
                return self._runners[pipeline.slug].sql(_asker(request), query, rows, seconds, is_canceled)

            result, problems = await _outcome(request, run)
            if form.one("as") == _CSV and result is not None:
                return _csv(result, pipeline)
            page = sql_page(
                pipeline, may_query=True, query=query, rows=rows, seconds=seconds, result=result, problems=problems
            )
            return await framed(lambda *_: page, "sql")(request)

        return endpoint

    def send_preview(self, framed: Framed) -> Endpoint:
        """The endpoint of the form for a preview; *framed* makes a page an answer."""
        what = "Preview a dataset"

        async def endpoint(request: Request) -> Response:
            pipeline = self._pipeline(request.path_params["slug"])
            try:
                form = await self._form(request, what)
            except (PipelineError, Problems) as error:
                refusal = _refusal(pipeline, "graph", what, error)
                return await framed(lambda *_: refusal, "graph")(request)
            dataset = form.one("dataset")

            def run(is_canceled: Callable[[], bool]) -> QueryResult:
                return self._runners[pipeline.slug].preview(_asker(request), dataset, is_canceled)

            result, problems = await _outcome(request, run)
            page = preview_page(pipeline, dataset, may_query=True, result=result, problems=problems)
            return await framed(lambda *_: page, "graph")(request)

        return endpoint

    async def _form(self, request: Request, what: str) -> SentForm:
        """The fields of a form that a page of ours has sent, in the session in which it was opened.

        Raises:
            PipelineError: API.CROSS_SITE, API.FORBIDDEN, SERVE.FORM, SERVE.FORM_TOKEN, SERVE.NO_QUEUE.
        """
        principal, sites = principal_of(request.scope), request.headers.getlist(_SITE)
        # Without this header, the guard has seen our own origin.
        if not principal.is_browser or (sites and sites != [_OWN_SITE]):
            raise PipelineError("API.CROSS_SITE")
        form = sent_form(", ".join(request.headers.getlist("content-type")), await request.body())
        if not self._tokens.is_of(form.one(TOKEN), principal):
            raise PipelineError("SERVE.FORM_TOKEN")
        _check_role(principal, what)
        self._runner(self._pipeline(request.path_params["slug"]))
        return form

    def _access(self, pipeline: ServedPipeline, request: Request) -> dict[str, Any]:
        """Whether rows may be asked for, and why not."""
        if not principal_of(request.scope).role.includes(Role.OPERATOR):
            return {"may_query": False, "reason": "Rows may be personal data: they need the role operator."}
        if pipeline.slug not in self._runners:
            return {"may_query": False, "reason": "This server is read-only: it runs no queries."}
        self._runners[pipeline.slug].warm()
        return {"may_query": True}

    def _pipeline(self, slug: str) -> ServedPipeline:
        if slug not in self._pipelines:
            raise PipelineError("SERVE.NO_PAGE", what=f'pipeline "{slug}"', suggestion="")
        return self._pipelines[slug]

    def _runner(self, pipeline: ServedPipeline) -> QueryRunner:
        if pipeline.slug not in self._runners:
            raise PipelineError("SERVE.NO_QUEUE", reason="It runs no queries")
        return self._runners[pipeline.slug]


def query_routes(queries: Queries, framed: Framed, *, is_read_only: bool) -> list[Route]:
    """The pages of queries and previews, and where their forms are sent to.

    Args:
        queries: the endpoints.
        framed: makes a page an answer.
        is_read_only: nothing but reading is mounted.
    """
    sent = [
        Route("/p/{slug}/sql", queries.send_sql(framed), methods=["POST"]),
        Route("/p/{slug}/preview", queries.send_preview(framed), methods=["POST"]),
    ]
    return [
        *(Route(path, framed(queries.sql, "sql")) for path in ("/p/{slug}/sql", "/p/{slug}/sql.json")),
        *(Route(path, framed(queries.preview, "graph")) for path in ("/p/{slug}/preview", "/p/{slug}/preview.json")),
        *([] if is_read_only else sent),
    ]


async def _outcome(
    request: Request, run: Callable[[Callable[[], bool]], QueryResult]
) -> tuple[QueryResult | None, list[dict[str, Any]]]:
    """The result, or the problems, which a page shows."""
    try:
        return await _while_connected(request, run), []
    except (PipelineError, Problems) as error:
        return None, [one.to_json() for one in problems_of(error)]


async def _while_connected(request: Request, run: Callable[[Callable[[], bool]], QueryResult]) -> QueryResult:
    """Run a query in a thread, and cancel it if the client goes away."""
    is_gone = threading.Event()
    running = asyncio.ensure_future(run_in_threadpool(run, is_gone.is_set))
    try:
        while not (await asyncio.wait({running}, timeout=_CLIENT_S))[0]:
            if await request.is_disconnected():
                is_gone.set()
        return await running
    finally:
        is_gone.set()


def _refusal(pipeline: ServedPipeline, section: str, what: str, error: PipelineError | Problems) -> Page:
    problems = problems_of(error)
    document = {
        "what": what,
        "problems": [one.to_json() for one in problems],
        "back": f"/p/{pipeline.slug}/{section}",
    }
    return Page("not_done.html", "Not done", document, status=status_of(problems[0]))


def _asker(request: Request) -> Asker:
    return Asker(principal_of(request.scope).name, request.client.host if request.client else "")


def _check_role(principal: Principal, what: str) -> None:
    if not principal.role.includes(Role.OPERATOR):
        raise PipelineError("API.FORBIDDEN", role=principal.role.value, needed=Role.OPERATOR.value, what=what)


def _number(text: str, default: int, most: int) -> int:
    """A number that a form asks for; the default for anything else."""
    is_number = text.isascii() and text.isdigit() and len(text) < 6
    return min(max(int(text), 1), most) if is_number else default


def _csv(result: QueryResult, pipeline: ServedPipeline) -> Response:
    name = f'attachment; filename="{pipeline.slug}.csv"'
    headers = {"Content-Disposition": name, "X-Headrace-Truncated": str(result.is_truncated).lower()}
    return Response(pipeline.redact(csv_text(result)), media_type="text/csv; charset=utf-8", headers=headers)


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, dict):
        return {name: _redacted(item, redact) for name, item in value.items()}
    return [_redacted(item, redact) for item in value] if isinstance(value, list) else value
