"""Requests of OpenTelemetry's exporters over HTTP: addresses, redirects, and what they log."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from headrace.errors import PipelineError

TIMEOUT_S = 10.0
_LOGGER = "opentelemetry"


def export(endpoint: str, exporter: Callable[[Any], Any], success: object, data: Any) -> None:
    """Push data once.

    Args:
        endpoint: of :func:`endpoint_of`.
        exporter: makes an exporter that uses a session of requests.
        success: what the exporter returns if the collector took the data.
        data: what it exports.

    Raises:
        PipelineError: METRICS.NOT_PUSHED.
    """
    with _messages() as messages:
        made = exporter(_session())
        try:
            result = made.export(data)
        except OSError as error:
            # Older exporters pass on what requests raises, such as an invalid proxy.
            raise PipelineError("METRICS.NOT_PUSHED", url=endpoint, reason=type(error).__name__) from error
        made.shutdown()
    if result is not success:
        reason = messages[-1] if messages else f"it did not accept them within {TIMEOUT_S:.0f} s"
        raise PipelineError("METRICS.NOT_PUSHED", url=endpoint, reason=reason)


def endpoint_of(url: str, path: str) -> str:
    """The address of a collector; *path* is added if it has none.

    Raises:
        PipelineError: METRICS.INVALID_URL.
    """
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise PipelineError("METRICS.INVALID_URL", reason=f"{error}") from error
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise PipelineError("METRICS.INVALID_URL", reason="it must begin with http:// or https:// and name a host")
    if parts.username or parts.password or parts.query:
        # The command line of a process is no place for secrets.
        raise PipelineError("METRICS.INVALID_URL", reason="it must not contain a user, a password or a query")
    return parts._replace(path=path).geturl() if parts.path in ("", "/") else url


def _session() -> Any:
    """A session of requests that follows no redirects: another host must not get the values, and a token."""
    import requests  # noqa: PLC0415 - the exporter needs it

    class Session(requests.Session):
        def request(self, *args: Any, **options: Any) -> Any:
            response = super().request(*args, **{**options, "allow_redirects": False})
            if response.is_redirect:
                raise requests.TooManyRedirects(f"status {response.status_code}, and redirects are not followed")
            return response

    return Session()


@contextmanager
def _messages() -> Iterator[list[str]]:
    """Collect what the exporter logs, instead of printing it."""
    messages: list[str] = []

    class _Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            messages.append(record.getMessage())

    logger, handler = logging.getLogger(_LOGGER), _Collect(logging.WARNING)
    propagate, logger.propagate = logger.propagate, False
    logger.addHandler(handler)
    try:
        yield messages
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate
