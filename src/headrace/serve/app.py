"""The application: which page is where, and what is answered if it cannot be made."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.resources import files

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from headrace.errors import PipelineError, Problems
from headrace.project.requests.request_queue import RequestQueue
from headrace.serve.access import Door, new_access
from headrace.serve.addresses import Addresses
from headrace.serve.api.endpoints import Api
from headrace.serve.api.submitting import Submission
from headrace.serve.assistants import Assistants
from headrace.serve.event_endpoint import EventEndpoint
from headrace.serve.forms.form_endpoint import FORM_PATH, FormEndpoint
from headrace.serve.forms.form_tokens import FormTokens
from headrace.serve.guard import BODY_S, Guard
from headrace.serve.page_endpoints import FormSource, Pages
from headrace.serve.pages.routes import PAGES
from headrace.serve.pipelines import ServedPipeline, redact_all
from headrace.serve.proxies import ProxyUsers
from headrace.serve.queries.query_endpoints import Queries, query_routes
from headrace.serve.queries.query_runner import QueryRunner
from headrace.serve.readiness import Readiness
from headrace.serve.render import Renderer
from headrace.serve.tokens import Tokens

_STATIC = {
    "site.css": "text/css",
    "live.js": "text/javascript",
    "keys.js": "text/javascript",
    "mark.svg": "image/svg+xml",
}


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
    access = new_access(server.addresses, server.tokens, renderer, server.now, server.clock, server.proxy)
    submission, is_read_only = Submission(server.queues), server.is_read_only
    # A new one at each start, as sessions end then.
    form_tokens = FormTokens(secrets.token_bytes(32))
    pages = Pages(server.pipelines, renderer, FormSource(form_tokens, is_read_only))
    forms = FormEndpoint(server.pipelines, renderer, submission, form_tokens, is_read_only=is_read_only)
    events = EventEndpoint(server.pipelines, server.is_stopping)
    queries = Queries(server.pipelines, {} if is_read_only else server.runners, form_tokens)
    api = Api(
        server.pipelines,
        renderer,
        events.answer,
        query=queries.for_programs,
        submission=submission,
        is_read_only=is_read_only,
    )
    routes = [
        Route("/", pages.home),
        Route("/.json", pages.home),
        Route("/login", access.login, methods=["GET", "POST"]),
        Route("/logout", access.logout, methods=["POST"]),
        Route("/static/{file}", _static),
        *(Route(path, pages.codes) for path in ("/help", "/help.json", "/help/")),
        Route("/help/{name:path}", pages.help),
        Route(FORM_PATH, forms.send, methods=["POST"]),
        *(Route(path, pages.of_pipeline(make, section)) for path, make, section in PAGES),
        *query_routes(queries, pages.of_pipeline, is_read_only=is_read_only),
        *api.routes(),
        *([] if is_read_only else Assistants(server.pipelines, server.addresses, server.profile).routes()),
    ]
    app = Starlette(
        routes=routes,
        exception_handlers={HTTPException: pages.refused, PipelineError: pages.failed, Problems: pages.failed},
    )
    checks = {slug: one.check_readable for slug, one in server.pipelines.items()}
    readiness = Readiness(checks, server.is_stopping, server.clock, redact_all(server.pipelines.values()))
    probes = {"/healthz": _healthy, "/readyz": readiness.answer}
    return Guard(Door(app, access), server.addresses, server.body_s, probes)


async def _healthy() -> Response:
    return PlainTextResponse("ok\n")


async def _static(request: Request) -> Response:
    name = request.path_params["file"]
    if name not in _STATIC:
        raise HTTPException(404)
    content = files("headrace.serve").joinpath("static", name).read_bytes()
    return Response(content, media_type=_STATIC[name])
