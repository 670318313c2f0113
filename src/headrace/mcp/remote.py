"""The server for clients of other processes: over HTTP, each request by itself, with what a role may use."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, MutableMapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import anyio.to_thread
from mcp.server.auth.middleware.auth_context import AuthContextMiddleware
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecuritySettings

from headrace.errors import PipelineError
from headrace.mcp.availability import Reach
from headrace.mcp.processes import ProjectChoice, VerbProcesses
from headrace.mcp.requirements_file import check_inside
from headrace.mcp.server import ServerOptions, create_server
from headrace.mcp.verbs import QUICK_S, RunVerb, VerbFailedError, VerbOutput

MAX_BODY_BYTES = 1 << 20
_WRITES = (("run",), ("backfill",), ("quarantine", "replay"), ("checkpoints", "repair"))
# Expressions can call any method of Java, and lost rows need a decision on the spot.
_LOCAL_OPTIONS = ("--set", "--accept-data-loss")
_ENDS = "--"


@dataclass(frozen=True)
class Caller:
    """Who calls a tool: the name of a token, and the address of the request."""

    user: str
    address: str


Record = Callable[[Caller, Sequence[str]], None]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
_caller: ContextVar[Caller] = ContextVar("headrace-caller")


@dataclass(frozen=True)
class RemoteVerbs:
    """The port ``RunVerb`` for clients that are elsewhere: records what writes, and refuses what is for a terminal.

    Attributes:
        verbs: runs the verbs.
        record: notes who runs a verb that writes; raises PipelineError or OSError if it cannot.
    """

    verbs: RunVerb
    record: Record

    async def __call__(self, words: Sequence[str], *, timeout_s: float = QUICK_S, as_json: bool = True) -> VerbOutput:
        """See :class:`headrace.mcp.verbs.RunVerb`."""
        try:
            check_remote(words)
            if any(tuple(words[: len(verb)]) == verb for verb in _WRITES):
                # Nothing is done that was not recorded.
                await anyio.to_thread.run_sync(self.record, _caller.get(), words)
        except PipelineError as error:
            raise VerbFailedError.of(error) from error
        return await self.verbs(words, timeout_s=timeout_s, as_json=as_json)


def check_remote(words: Sequence[str]) -> None:
    """Accept a verb that only reads files of its project, and has no option that is for a terminal.

    Raises:
        PipelineError: MCP.OUTSIDE, MCP.LOCAL_ONLY.
    """
    end = words.index(_ENDS) if _ENDS in words else len(words)
    for word in words[:end]:
        if word.partition("=")[0] in _LOCAL_OPTIONS:
            raise PipelineError("MCP.LOCAL_ONLY", what=word.partition("=")[0])
    if words[0] == "lint":
        for path in words[end + 1 :]:
            check_inside(path)


class RemoteServer:
    """An ASGI application that answers MCP for one project and one reach.

    Args:
        project: what it works on.
        reach: which tools it has.
        environ: the environment variables, also of the verbs.
        record: notes who runs a verb that writes.
        hosts: the values of the header Host that are answered.
        origins: the values of the header Origin that are answered.
        run_verb: runs verbs; a process for each call by default.
    """

    def __init__(
        self,
        project: ProjectChoice,
        reach: Reach,
        environ: Mapping[str, str],
        record: Record,
        *,
        hosts: Iterable[str],
        origins: Iterable[str],
        run_verb: RunVerb | None = None,
    ) -> None:
        verbs = RemoteVerbs(run_verb or VerbProcesses(project, environ), record)
        options = ServerOptions(project, allow_write=reach is Reach.OPERATOR, reach=reach)
        self._server = create_server(options, environ, verbs)
        self._security = TransportSecuritySettings(allowed_hosts=sorted(hosts), allowed_origins=sorted(origins))

    async def answer(self, caller: Caller, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request of HTTP; no session outlives it, so none can be taken over."""
        _caller.set(caller)
        # A question to the user is bound to who was asked.
        user = AuthenticatedUser(AccessToken(token="", client_id=caller.user, scopes=[]))
        # Makes the manager of this request's only session.
        self._server.streamable_http_app(
            stateless_http=True,
            transport_security=self._security,
            max_request_body_size=MAX_BODY_BYTES,
        )
        manager = self._server.session_manager
        async with manager.run():
            await AuthContextMiddleware(manager.handle_request)({**scope, "user": user}, receive, send)
