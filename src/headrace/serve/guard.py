"""What every request must fulfil before any page sees it, and what every answer carries."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from headrace.serve.addresses import Addresses

MAX_BODY_BYTES = 1 << 20
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
_SAFE_METHODS = frozenset({"GET", "HEAD"})
_METHODS = _SAFE_METHODS | {"POST"}
_OWN_SITES = frozenset({"same-origin", "none"})


class Guard:
    """Refuses requests under other host names, from pages of others, and with large bodies; closes web sockets.

    A page that rebinds its name to this machine fails by its host name. A page of another site, or of another port of
    this machine, fails by what the browser says about it.
    """

    def __init__(self, app: ASGIApp, addresses: Addresses) -> None:
        self._app = app
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

        status, reason = self._refusal(str(scope["method"]), Headers(scope=scope))
        answer: ASGIApp = PlainTextResponse(f"{reason}\n", status) if status else self._app
        await answer(scope, receive, send_with_headers)

    def _refusal(self, method: str, headers: Headers) -> tuple[int, str]:
        """The status and the reason of a refusal; 0 for none."""
        hosts = headers.getlist("host")
        if len(hosts) != 1 or hosts[0].lower() not in self._hosts:
            return 421, "This server does not answer under this host name."
        if method not in _METHODS:
            return 405, "This method is not allowed."
        size = headers.get("content-length", "0")
        if not size.isascii() or not size.isdigit() or int(size) > MAX_BODY_BYTES:
            return 413, "The request is too large."
        site = headers.get("sec-fetch-site")
        if method not in _SAFE_METHODS and not self._is_own(site, headers.getlist("origin")):
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
