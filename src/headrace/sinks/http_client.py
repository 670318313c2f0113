"""A client for requests whose URL or headers may be secret: no redirects, bounded responses, masked texts."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlsplit
from urllib.request import getproxies

from headrace.errors import PipelineError

if TYPE_CHECKING:
    import httpx2

# The server, or a proxy before it, is busy or down.
TRANSIENT_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
MAX_RESPONSE_LENGTH = 200
_LEAST_TOKEN_LENGTH = 8
_PROXIED = ("http", "https", "all")
_MAX_RESPONSE_BYTES = 64 * 1024


def open_client(timeout_s: float, *, connections: int = 1) -> Any:
    """A client of httpx2, which follows no redirects and logs no URLs.

    Raises:
        ModuleNotFoundError: httpx2, an extra, is not installed.
        PipelineError: HTTP.PROXY: the environment names a proxy that cannot be used.
    """
    import httpx2  # noqa: PLC0415 - an extra

    # It would log each URL, which may contain a secret.
    logging.getLogger("httpx2").setLevel(logging.WARNING)
    limits = httpx2.Limits(max_connections=connections)
    try:
        return httpx2.Client(timeout=timeout_s, limits=limits, follow_redirects=False)
    except (ValueError, ImportError, httpx2.InvalidURL) as error:
        # Nothing else that it is made from comes from outside. The text would show the URL, which may have a password.
        raise PipelineError("HTTP.PROXY", variables=", ".join(proxy_variables())) from error


def proxy_variables() -> list[str]:
    """The environment variables that name proxies."""
    return [f"{scheme}_PROXY".upper() for scheme in getproxies() if scheme in _PROXIED]


def transport_errors() -> tuple[type[Exception], ...]:
    """Transient errors of the server or the network; not errors of the URL."""
    import httpx2  # noqa: PLC0415 - an extra

    return (httpx2.NetworkError, httpx2.TimeoutException, httpx2.RemoteProtocolError, httpx2.ProxyError)


def response_text(
    response: httpx2.Response, timeout_s: float, monotonic: Callable[[], float], secrets: Iterable[str]
) -> str:
    """The beginning of a response, without secrets; reads no more than a limited size and time."""
    deadline = monotonic() + timeout_s
    read = bytearray()
    for piece in response.iter_raw():
        read += piece
        if len(read) > _MAX_RESPONSE_BYTES or monotonic() > deadline:
            break
    if response.headers.get("content-encoding", "identity").strip().casefold() not in ("", "identity"):
        return ""
    text = _decoded(bytes(read[:_MAX_RESPONSE_BYTES]), response.charset_encoding or "utf-8")
    return _masked(text.strip(), secrets)[:MAX_RESPONSE_LENGTH]


def secrets_of(url: str, headers: Mapping[str, str]) -> set[str]:
    """The secrets of a request that a server may repeat in its response."""
    split = urlsplit(url)
    parts = {url, f"{split.path}?{split.query}", split.path, split.query, split.password or "", split.username or ""}
    parts |= {value for values in parse_qs(split.query).values() for value in values}
    # The token of a webhook is often a part of the path.
    parts |= {part for part in split.path.split("/") if len(part) >= _LEAST_TOKEN_LENGTH}
    for value in headers.values():
        # With and without the scheme.
        parts |= {value, value.partition(" ")[2]}
    # Any text may contain a single slash, or a value such as "1".
    return {part for known in parts for part in (known, unquote(known)) if len(part) > 3}


def retry_after_s(headers: Mapping[str, str]) -> float:
    """The delay in ``Retry-After``, from seconds or a date; 0 if it is neither."""
    text = headers.get("Retry-After", "").strip()
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        retry_at, sent_at = parsedate_to_datetime(text), parsedate_to_datetime(headers.get("Date", ""))
        return max((retry_at - sent_at).total_seconds(), 0.0)
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _masked(text: str, secrets: Iterable[str]) -> str:
    for secret in sorted(secrets, key=len, reverse=True):
        text = text.replace(secret, "***")
    return text


def _decoded(data: bytes, charset: str) -> str:
    try:
        return data.decode(charset, "replace")
    except (LookupError, ValueError):
        # The server names an unknown charset.
        return data.decode("utf-8", "replace")
