"""The application: which page is where, and what is answered if it cannot be made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from headrace.errors import PipelineError, Problems, problems_of
from headrace.project.requests.request_queue import RequestQueue
from headrace.serve.access import Access, Door
from headrace.serve.addresses import Addresses
from headrace.serve.api.endpoints import Api, Endpoint
from headrace.serve.api.failures import failure, is_for_programs, refusal
from headrace.serve.assistants import Assistants
from headrace.serve.guard import BODY_S, Guard
from headrace.serve.live_events import LiveEvents, event_rows
from headrace.serve.pages.dev_page import dev_page
from headrace.serve.pages.help_page import help_index, help_page
from headrace.serve.pages.open_counts import open_counts
from headrace.serve.pages.paging import page_number
from headrace.serve.pages.pipeline_pages import pipelines_page
from headrace.serve.pages.routes import PAGES, PageOf
from headrace.serve.pipelines import ServedPipeline, redact_all
from headrace.serve.proxies import ProxyUsers
from headrace.serve.queries.query_endpoints import Queries, query_routes
from headrace.serve.queries.query_runner import QueryRunner
from headrace.serve.render import Frame, Page, Renderer, json_answer
from headrace.serve.sessions import Sessions, Tries
from headrace.serve.tokens import Tokens

_STATIC = {
    "site.css": "text/css",
    "live.js": "text/javascript",
    "keys.js": "text/javascript",
    "mark.svg": "image/svg+xml",
}
_JSON = ".json"
_MISSING = frozenset({"SERVE.NO_PAGE", "TRACE.NO_UPDATE"})
_MOST_EVENTS = 1000


@dataclass(frozen=True)
class Server:
    """What the pages are made from.

    Attributes:
        addresses: how it is reached.
        pipelines: by their names in URLs.
        tokens: what tokens are checked against.
        now: the time in seconds since 1970.
        clock: seconds that never go back.
        is_stopping: true once it stops.
        is_read_only: nothing but reading is mounted.
        queues: take requests, by the pipeline's name in URLs.
        profile: of the settings; None for the default.
        proxy: the users of a proxy; None for no proxy that signs in.
        body_s: in which time the body of a request must have arrived.
        runners: run queries, by the pipeline's name in URLs.
    """

    addresses: Addresses
    pipelines: Mapping[str, ServedPipeline]
    tokens: Callable[[], Tokens]
    now: Callable[[], float]
    clock: Callable[[], float]
    is_stopping: Callable[[], bool] = bool
    is_read_only: bool = False
    queues: Mapping[str, RequestQueue] = field(default_factory=dict)
    profile: str | None = None
    proxy: ProxyUsers | None = None
    body_s: float = BODY_S
    runners: Mapping[str, QueryRunner] = field(default_factory=dict)


def create_app(server: Server) -> ASGIApp:
    """The application; every request goes through the guard, and all but a few through the door."""
    renderer = Renderer(server.now, {slug: one.board for slug, one in server.pipelines.items() if one.board})
    sessions, tries = Sessions(server.clock), Tries(server.clock)
    access = Access(server.addresses, server.tokens, sessions, tries, renderer, server.now, server.proxy)
    pages = _Pages(server, renderer)
    events = _Events(server)
    queries = Queries(server.pipelines, {} if server.is_read_only else server.runners)
    api = Api(
        server.pipelines,
        renderer,
        events.answer,
        query=queries.for_programs,
        queues=server.queues,
        is_read_only=server.is_read_only,
    )
    routes = [
        Route("/", pages.home),
        Route("/.json", pages.home),
        Route("/login", access.login, methods=["GET", "POST"]),
        Route("/logout", access.logout, methods=["POST"]),
        Route("/healthz", _healthy),
        Route("/static/{file}", _static),
        *(Route(path, pages.codes) for path in ("/help", "/help.json", "/help/")),
        Route("/help/{name:path}", pages.help),
        *(Route(path, pages.of_pipeline(make, section)) for path, make, section in PAGES),
        *query_routes(queries, pages.of_pipeline, is_read_only=server.is_read_only),
        *(Route(path, pages.of_pipeline(dev_page, "dev")) for path in ("/p/{slug}/dev", "/p/{slug}/dev.json")),
        *api.routes(),
        *([] if server.is_read_only else Assistants(server.pipelines, server.addresses, server.profile).routes()),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: pages.refused, PipelineError: pages.failed, Problems: pages.failed},
    )
    return Guard(Door(app, access), server.addresses, server.body_s)


class _Pages:
    """Answers with pages as HTML or JSON. Pages are made in threads, because they read storages."""

    def __init__(self, server: Server, renderer: Renderer) -> None:
        self._server = server
        self._renderer = renderer

    async def home(self, request: Request) -> Response:
        pipelines = self._server.pipelines.values()
        page = await run_in_threadpool(pipelines_page, pipelines)
        # Each pipeline knows its own secrets.
        return self._answer(request, page, Frame("", "", redact=redact_all(pipelines)))

    async def codes(self, request: Request) -> Response:
        query = request.query_params
        return self._answer(request, help_index(query.get("q", ""), page_number(query.get("page", ""))), Frame("", ""))

    async def help(self, request: Request) -> Response:
        name = request.path_params["name"]
        return self._answer(request, help_page(name.removesuffix(_JSON)), Frame("", ""))

    def of_pipeline(self, make: PageOf, section: str) -> Endpoint:
        """The endpoint of a page of a pipeline."""

        async def endpoint(request: Request) -> Response:
            slug = request.path_params["slug"].removesuffix(_JSON)
            pipeline = self._server.pipelines.get(slug)
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
            counts = {} if wants_json else open_counts(await run_in_threadpool(pipeline.view))
            frame = Frame(slug, pipeline.redact(pipeline.name), section, pipeline.redact, counts)
            return self._answer(request, page, frame, wants_json=wants_json)

        return endpoint

    async def failed(self, request: Request, error: Exception) -> Response:
        """The page of an error of ours."""
        if not isinstance(error, PipelineError | Problems):
            raise error
        redact = redact_all(self._server.pipelines.values())
        if is_for_programs(request.url.path):
            return failure(error, redact)
        error = problems_of(error)[0]
        page = Page("error.html", error.message, error.to_json(), status=404 if error.code in _MISSING else 503)
        return self._answer(request, page, Frame("", "", redact=redact))

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

    def _answer(self, request: Request, page: Page, frame: Frame, *, wants_json: bool | None = None) -> Response:
        if _wants_json(request) if wants_json is None else wants_json:
            return self._renderer.json(page, frame)
        return self._renderer.html(page, frame, _json_path(request))


class _Events:
    """Answers with events: as a list, or as they come."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._live = {slug: LiveEvents(pipeline, server.is_stopping) for slug, pipeline in server.pipelines.items()}

    async def answer(self, request: Request) -> Response:
        slug = request.path_params["pipeline"]
        pipeline = self._server.pipelines.get(slug)
        if pipeline is None:
            raise PipelineError("SERVE.NO_PAGE", what=f'pipeline "{slug}"', suggestion="")
        after = _sequence(request.headers.get("last-event-id") or request.query_params.get("after", ""))
        if "text/event-stream" not in request.headers.get("accept", ""):
            first = -1 if after is None else after
            rows = await run_in_threadpool(event_rows, pipeline.events(), first, _MOST_EVENTS, pipeline.redact)
            return json_answer(rows)
        live = self._live[slug]
        if live.is_full:
            return PlainTextResponse("Too many browsers listen.\n", 503)
        return StreamingResponse(
            live.listen(after), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
        )


def _wants_json(request: Request) -> bool:
    return request.url.path.endswith(_JSON)


def _json_path(request: Request) -> str:
    """The path of the same page as JSON."""
    query = f"?{request.url.query}" if request.url.query else ""
    return f"{request.url.path}{_JSON}{query}"


def _sequence(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 19 else None


async def _healthy(_request: Request) -> Response:
    return PlainTextResponse("ok\n")


async def _static(request: Request) -> Response:
    name = request.path_params["file"]
    if name not in _STATIC:
        raise HTTPException(404)
    content = files("headrace.serve").joinpath("static", name).read_bytes()
    return Response(content, media_type=_STATIC[name])
