"""MCP for assistants: the tools of a pipeline over HTTP, by the role of the token."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from threading import Lock
from types import ModuleType
from typing import TYPE_CHECKING

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import Message, Receive, Scope, Send

from headrace.errors import PipelineError
from headrace.events.upkeep import UserAction
from headrace.mcp.availability import Reach
from headrace.project.requests.user_actions import record_action
from headrace.serve.addresses import Addresses
from headrace.serve.pipelines import ServedPipeline
from headrace.serve.roles import Role, principal_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from headrace.mcp.remote import Caller, RemoteServer

# Loaded by name: what it needs is optional, and slow to import.
_REMOTE = "headrace.mcp.remote"
_PACKAGES = ("mcp", "mcp_types", "pydantic")


class Assistants:
    """Answers assistants.

    Args:
        pipelines: by their names in URLs.
        addresses: how the server is reached.
        profile: of the settings.
    """

    def __init__(self, pipelines: Mapping[str, ServedPipeline], addresses: Addresses, profile: str | None) -> None:
        self._pipelines = pipelines
        self._addresses = addresses
        self._profile = profile
        self._servers: dict[tuple[str, bool], RemoteServer] = {}
        self._making = Lock()

    def routes(self) -> list[Route]:
        """The routes: one for each pipeline, and a short one if there is one pipeline."""
        return [Route(path, self, methods=["POST"]) for path in ("/mcp", "/mcp/{pipeline}")]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        request, principal = Request(scope, receive), principal_of(scope)
        if principal.is_browser:
            # Assistants are programs. A page does not get to them with the cookie.
            raise PipelineError("API.UNAUTHORIZED")
        pipeline = self._pipeline(request.path_params.get("pipeline"))
        body = await request.body()
        runs = principal.role.includes(Role.OPERATOR)
        server = await run_in_threadpool(self._server, pipeline, runs=runs)
        caller = await run_in_threadpool(_caller, principal.name, request.client.host if request.client else "")
        await server.answer(caller, scope, _replayed(body, receive), send)

    def _pipeline(self, slug: str | None) -> ServedPipeline:
        if slug is None and len(self._pipelines) == 1:
            return next(iter(self._pipelines.values()))
        if slug is None:
            raise PipelineError("API.WHICH_PIPELINE", known=", ".join(self._pipelines))
        if slug not in self._pipelines:
            raise PipelineError("SERVE.NO_PAGE", what=f'pipeline "{slug}"', suggestion="")
        return self._pipelines[slug]

    def _server(self, pipeline: ServedPipeline, *, runs: bool) -> RemoteServer:
        remote = _module()
        with self._making:
            if (pipeline.slug, runs) not in self._servers:
                reach = Reach.OPERATOR if runs else Reach.VIEWER
                self._servers[pipeline.slug, runs] = remote.RemoteServer(
                    remote.ProjectChoice(pipeline.settings.root, self._profile),
                    reach,
                    pipeline.environ,
                    _recorder(pipeline),
                    hosts=self._addresses.hosts,
                    origins=self._addresses.origins,
                )
            return self._servers[pipeline.slug, runs]


def _recorder(pipeline: ServedPipeline) -> Callable[[Caller, Sequence[str]], None]:
    def record(caller: Caller, words: Sequence[str]) -> None:
        action = UserAction(caller.user, caller.address, words[0], tuple(words[1:]))
        record_action(pipeline.settings, pipeline.redact, action)

    return record


def _caller(user: str, address: str) -> Caller:
    found: Caller = _module().Caller(user, address)
    return found


def _module() -> ModuleType:
    try:
        return import_module(_REMOTE)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] in _PACKAGES:
            raise PipelineError("MCP.NOT_INSTALLED") from error
        raise


def _replayed(body: bytes, receive: Receive) -> Receive:
    """Receives a body that was read already, then what comes after it."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replayed() -> Message:
        return messages.pop() if messages else await receive()

    return replayed
