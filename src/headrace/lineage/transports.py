"""Ways to send events: a file to which they are appended, and a server to which they are posted."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from headrace.alerts.outbox import Answer, Verdict
from headrace.settings.lineage_settings import LineageFile, LineageTransport
from headrace.sinks.http_client import (
    TRANSIENT_STATUS,
    open_client,
    proxy_variables,
    response_text,
    retry_after_s,
    secrets_of,
    transport_errors,
)

TIMEOUT_S = 5.0
_PATH = "/api/v1/lineage"
_ACCEPTED = Answer(Verdict.ACCEPTED, "accepted")


class Transport(Protocol):
    """Sends events, one at a time, from one thread."""

    def send(self, event: bytes) -> Answer:
        """Send an event as JSON. Every failure of the receiver is an answer."""

    def close(self) -> None:
        """Release resources."""


@dataclass(frozen=True)
class FileTransport:
    """Appends each event as a line of its own to a file."""

    path: Path

    def send(self, event: bytes) -> Answer:
        """Append an event in one write; a line that a full disk cut short is not continued."""
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            # A pipe without a reader must not block.
            file = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK | os.O_CLOEXEC, 0o644)
            try:
                size = os.fstat(file).st_size
                is_torn = size > 0 and os.pread(file, 1, size - 1) != b"\n"
                line = (b"\n" if is_torn else b"") + event + b"\n"
                written = os.write(file, line)
            finally:
                os.close(file)
        except OSError as error:
            return Answer(Verdict.FAILED, f"cannot write {self.path}: {error.strerror or type(error).__name__}")
        return _ACCEPTED if written == len(line) else Answer(Verdict.FAILED, f"cannot write {self.path}: it is full")

    def close(self) -> None:
        """Nothing is open."""


@dataclass
class HttpTransport:
    """Posts each event to a server, over one connection while that is possible."""

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    monotonic: Callable[[], float]
    timeout_s: float = TIMEOUT_S
    _client: Any = None

    def send(self, event: bytes) -> Answer:
        """Post an event."""
        headers = {**self.headers, "Content-Type": "application/json", "Accept-Encoding": "identity"}
        try:
            self._client = self._client or open_client(self.timeout_s)
            with self._client.stream("POST", self.url, content=event, headers=headers) as response:
                text = ""
                # The status decides, whatever else the server has to say.
                with suppress(Exception):
                    text = response_text(response, self.timeout_s, self.monotonic, secrets_of(self.url, headers))
                return _answer(response.status_code, text, retry_after_s(response.headers))
        except ModuleNotFoundError:
            return Answer(Verdict.FAILED, "httpx2 is not installed; run: pip install 'headrace[http]'")
        except (UnicodeError, ValueError):
            return Answer(Verdict.FAILED, "the URL or a header is invalid")
        except Exception as error:
            if not type(error).__module__.startswith("httpx2"):
                raise
            self.close()
            verdict = Verdict.FAILED if isinstance(error, transport_errors()) else Verdict.REFUSED
            proxies = proxy_variables()
            through = f" (with a proxy by {', '.join(proxies)})" if proxies else ""
            return Answer(verdict, f"no answer: {type(error).__name__}{through}")

    def close(self) -> None:
        """Close the connection."""
        client, self._client = self._client, None
        if client is not None:
            with suppress(Exception):
                client.close()


def transport_of(settings: LineageTransport, monotonic: Callable[[], float]) -> Transport:
    """The transport of settings whose references are resolved."""
    target = settings.target
    if isinstance(target, LineageFile):
        return FileTransport(target.path)
    headers = dict(target.headers)
    if target.api_key:
        headers["Authorization"] = f"Bearer {target.api_key}"
    return HttpTransport(_endpoint(target.url.strip()), headers, monotonic)


def _endpoint(url: str) -> str:
    """The address that events are posted to: that of OpenLineage's servers if the URL has no path."""
    try:
        parts = urlsplit(url)
    except ValueError:
        # The client refuses it.
        return url
    return parts._replace(path=_PATH).geturl() if parts.path in ("", "/") else url


def _answer(status: int, text: str, wait_s: float) -> Answer:
    response = f', response: "{text}"' if text else ""
    if 200 <= status < 300:
        return _ACCEPTED
    if status in TRANSIENT_STATUS or status >= 500:
        return Answer(Verdict.FAILED, f"status {status}{response}", wait_s)
    if 300 <= status < 400:
        return Answer(Verdict.REFUSED, f"status {status}, and redirects are not followed")
    return Answer(Verdict.REFUSED, f"status {status}{response}")
