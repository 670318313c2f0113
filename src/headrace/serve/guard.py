"""What every request must fulfil before any page sees it, and what every answer carries."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from types import MappingProxyType

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.serve.addresses import Addresses
from headrace.serve.api.failures import failure, is_for_programs, refusal

MAX_BODY_BYTES = 1 << 20
# In which time a body must have arrived, from when somebody wants to read it.
BODY_S = 15.0
# Pages that other sites embed or read would be a way in: nothing is allowed that our own pages do not need.
ANSWER_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "Content-Security-Policy": (
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
            "base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        ),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    }
)
_MOST_DIGITS = 20
# The rest of the body is not read.
_CLOSE = {"Connection": "close"}
_SAFE_METHODS = frozenset({"GET", "HEAD"})
_METHODS = _SAFE_METHODS | {"POST"}
_OWN_SITES = frozenset({"same-origin", "none"})
# Answers to everybody; by their paths.
Probes = Mapping[str, Callable[[], Awaitable[Response]]]
_NO_PROBES: Probes = MappingProxyType({})


class Guard:
    """Refuses requests under other host names, from pages of others, and with large or slow bodies; closes web sockets.

    A page that rebinds its name to this machine fails by its host name. A page of another site, or of another port of
    this machine, fails by what the browser says about it.

    Probes are answered under any host name, because Kubernetes asks for the address of a pod, and without a token. So
    their answers depend on nothing in the request.
    """

    def __init__(self, app: ASGIApp, addresses: Addresses, body_s: float = BODY_S, probes: Probes = _NO_PROBES) -> None:
        self._app = app
        self._probes = probes
        self._body_s = body_s
        self._hosts = addresses.hosts
        self._origins = addresses.origins

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in ANSWER_HEADERS.items():
                    headers[name] = value
            await send(message)

        probe = self._probes.get(scope["path"])
        status, reason = self._refusal(str(scope["method"]), Headers(scope=scope), is_probe=probe is not None)
        answer: ASGIApp = self._app
        if status and is_for_programs(scope["path"]):
            answer = failure(refusal(HTTPException(status), str(scope["method"]), scope["path"]))
        elif status:
            answer = PlainTextResponse(f"{reason}\n", status)
        elif probe is not None:
            answer = await probe()
        await answer(scope, _limited(receive, self._body_s), send_with_headers)

    def _refusal(self, method: str, headers: Headers, *, is_probe: bool) -> tuple[int, str]:
        """The status and the reason of a refusal; 0 for none."""
        hosts = headers.getlist("host")
        if not is_probe and (len(hosts) != 1 or hosts[0].lower() not in self._hosts):
            return 421, "This server does not answer under this host name."
        if method not in (_SAFE_METHODS if is_probe else _METHODS):
            return 405, "This method is not allowed."
        size = headers.get("content-length", "0")
        if not size.isascii() or not size.isdigit() or len(size) > _MOST_DIGITS or int(size) > MAX_BODY_BYTES:
            return 413, "The request is too large."
        site = headers.get("sec-fetch-site")
        is_program = site is None and "origin" not in headers and _has_bearer(headers)
        if method not in _SAFE_METHODS and not is_program and not self._is_own(site, headers.getlist("origin")):
            return 403, "The request does not come from a page of this server."
        if method in _SAFE_METHODS and site not in (None, *_OWN_SITES):
            # A link on another page may lead here; the cookie does not come with it.
            is_link = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-dest") == "document"
            return (0, "") if is_link else (403, "Pages of others cannot use this server.")
        return 0, ""

    def _is_own(self, site: str | None, origins: list[str]) -> bool:
        """Whether a request comes from our own page, by what the browser says: pages cannot set either header."""
        if len(origins) > 1:
            return False
        origin = origins[0].lower() if origins else None
        if site is None:
            return origin in self._origins
        # As our pages have no referrer, the origin of their forms is null.
        return site == "same-origin" and (origin in (None, "null") or origin in self._origins)


def _has_bearer(headers: Headers) -> bool:
    """Whether a request has a bearer token, which the door checks: pages of others cannot send it without asking."""
    return headers.get("authorization", "").lower().startswith("bearer ")


def _limited(receive: Receive, body_s: float) -> Receive:
    """Receives a body that is neither too large nor too slow; what is not announced in a header is counted."""
    size, is_whole, ends_at = 0, False, 0.0

    async def limited() -> Message:
        nonlocal size, is_whole, ends_at
        if is_whole:
            # The end of the connection, for which there is no limit.
            return await receive()
        now = asyncio.get_running_loop().time()
        ends_at = ends_at or now + body_s
        try:
            message = await asyncio.wait_for(receive(), ends_at - now)
        except TimeoutError:
            raise HTTPException(408, "The request did not arrive in time.", _CLOSE) from None
        size += len(message.get("body", b""))
        if size > MAX_BODY_BYTES:
            raise HTTPException(413, "The request is too large.", _CLOSE)
        is_whole = not message.get("more_body", False)
        return message

    return limited
