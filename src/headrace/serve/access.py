"""Signing in and out, and who may see pages: a cookie for browsers, a bearer token for programs."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qs, quote, urlsplit

from starlette.concurrency import run_in_threadpool
from starlette.requests import HTTPConnection, Request
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

from headrace.errors import PipelineError
from headrace.serve.addresses import Addresses
from headrace.serve.api.failures import failure, is_for_programs
from headrace.serve.proxies import ProxyUsers
from headrace.serve.render import Page, Renderer
from headrace.serve.roles import Principal, with_principal
from headrace.serve.sessions import SESSION_S, Sessions, Tries, digest_of
from headrace.serve.tokens import Tokens

_OPEN = "/login"
_OTHER_SITES = ("cross-site", "same-site")
_MAX_FORM_BYTES = 4096


@dataclass(frozen=True)
class Access:
    """Who may see pages.

    Attributes:
        addresses: how the server is reached.
        tokens: what tokens are checked against; read for each check, so that a change holds at once.
        sessions: of browsers.
        tries: failed attempts.
        renderer: makes the page for signing in.
        now: the time in seconds since 1970.
        proxy: the users of a proxy; None for no proxy that signs in.
    """

    addresses: Addresses
    tokens: Callable[[], Tokens]
    sessions: Sessions
    tries: Tries
    renderer: Renderer
    now: Callable[[], float]
    proxy: ProxyUsers | None = None

    def principal(self, request: HTTPConnection) -> Principal | None:
        """Who sends a request, by its bearer token if it has one, else by a proxy or the cookie; None for a stranger.

        Raises:
            PipelineError: SERVE.TOKEN_FILE.
        """
        scheme, _, text = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            found = self.tokens().of_text(text.strip(), self.now())
            return None if found is None else Principal(found.name, found.role)
        user = None if self.proxy is None else self.proxy.principal(request)
        if user is not None:
            return user
        cookie = request.cookies.get(self.addresses.cookie, "")
        digest = self.sessions.token(cookie)
        # A session ends with its token.
        found = None if digest is None else self.tokens().of_digest(digest, self.now())
        return None if found is None else Principal(found.name, found.role, is_browser=True, session=digest_of(cookie))

    async def login(self, request: Request) -> Response:
        """The page for signing in; with the token in the URL or the form, the session begins."""
        if request.method == "POST":
            fields = parse_qs((await _body(request)).decode("utf-8", "replace"))
        else:
            fields = parse_qs(request.url.query)
        token, goes_to = fields.get("token", [""])[0], own_path(fields.get("next", ["/"])[0])
        if not token:
            return self._form(goes_to)
        wait_s = self.tries.wait_s(_address(request))
        if wait_s:
            return self._form(goes_to, f"Too many attempts. Try again in {math.ceil(wait_s)} seconds.", 429, wait_s)
        found = await run_in_threadpool(lambda: self.tokens().of_text(token, self.now()))
        if found is None:
            self.tries.fail(_address(request))
            return self._form(goes_to, "This is not a token of this server.", 401)
        answer: Response = RedirectResponse(goes_to, 303)
        if request.headers.get("sec-fetch-site") in _OTHER_SITES:
            # A link in a file or on another page led here: the cookie is not sent with what it redirects to.
            answer = self.renderer.html(Page("signed_in.html", "Signed in", {"next": goes_to}))
        answer.set_cookie(
            self.addresses.cookie,
            self.sessions.open(found.sha256),
            max_age=SESSION_S,
            path="/",
            secure=self.addresses.is_https,
            httponly=True,
            samesite="strict",
        )
        return answer

    async def logout(self, request: Request) -> Response:
        """End the session."""
        self.sessions.close(request.cookies.get(self.addresses.cookie, ""))
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(
            self.addresses.cookie, path="/", secure=self.addresses.is_https, httponly=True, samesite="strict"
        )
        return answer

    def _form(self, goes_to: str, problem: str = "", status: int = 200, wait_s: float = 0) -> Response:
        page = Page("login.html", "Sign in", {"next": goes_to, "problem": problem}, status=status)
        answer = self.renderer.html(page)
        if wait_s:
            answer.headers["Retry-After"] = str(math.ceil(wait_s))
        return answer


def new_access(
    addresses: Addresses,
    tokens: Callable[[], Tokens],
    renderer: Renderer,
    now: Callable[[], float],
    clock: Callable[[], float],
    proxy: ProxyUsers | None,
) -> Access:
    """The access to a server that has just started: nobody is signed in.

    Args:
        addresses, tokens, renderer, now, proxy: see :class:`Access`.
        clock: seconds that never go back.
    """
    return Access(addresses, tokens, Sessions(clock), Tries(clock), renderer, now, proxy)


class Door:
    """Lets in who is signed in or has the token; others get the page for signing in, programs an error."""

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self._app = app
        self._access = access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http" or scope["path"] == _OPEN or scope["path"].startswith("/static/"):
            await self._app(scope, receive, send)
            return
        request = HTTPConnection(scope)
        try:
            principal = await run_in_threadpool(self._access.principal, request)
        except PipelineError as error:
            await failure(error)(scope, receive, send)
            return
        if principal is not None:
            await self._app(with_principal(scope, principal), receive, send)
            return
        path = scope["path"]
        if is_for_programs(path) or path.endswith(".json") or "authorization" in request.headers:
            answer: Response = failure(PipelineError("API.UNAUTHORIZED"))
            answer.headers["WWW-Authenticate"] = "Bearer"
        else:
            query = f"?{request.url.query}" if request.url.query else ""
            # What was sent is not sent again.
            wanted = own_path(f"{request.url.path}{query}") if scope["method"] in ("GET", "HEAD") else "/"
            answer = RedirectResponse(f"/login?next={quote(wanted, safe='')}", 303)
        await answer(scope, receive, send)


def own_path(text: str) -> str:
    """A path of this server with its query; ``/`` for anything that leads elsewhere."""
    is_own = text.startswith("/") and not text.startswith(("//", "/\\")) and text.isprintable() and "\\" not in text
    if not is_own:
        return "/"
    parts = urlsplit(text)
    return text if not parts.scheme and not parts.netloc and parts.path != "/login" else "/"


async def _body(request: Request) -> bytes:
    """The form; empty if it is larger than any of ours."""
    found = b""
    async for chunk in request.stream():
        found += chunk
        if len(found) > _MAX_FORM_BYTES:
            return b""
    return found


def _address(request: HTTPConnection) -> str:
    return request.client.host if request.client is not None else ""
