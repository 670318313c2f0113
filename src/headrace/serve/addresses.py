"""Where the server listens, and the names under which browsers may reach it."""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from urllib.parse import urlsplit

from headrace.errors import PipelineError

_ADDRESS = re.compile(r"(?:\[(?P<ipv6>[0-9a-fA-F:.]+)\]|(?P<host>[A-Za-z0-9.-]+)):(?P<port>\d{1,5})")
_HTTP, _HTTPS = 80, 443
_TRIED_PORTS = 20


@dataclass(frozen=True)
class Addresses:
    """Where the server listens, and how it is reached.

    Attributes:
        host: an address of this machine, or ``localhost``.
        port: the port.
        root_url: scheme and host that browsers use, without a path; None on this machine alone.
    """

    host: str
    port: int
    root_url: str | None = None

    @property
    def url(self) -> str:
        """The URL of the first page, without a slash at its end."""
        return self.root_url or f"http://{self._authority(self.host)}"

    @property
    def is_https(self) -> bool:
        """Whether browsers reach it over HTTPS, through a proxy."""
        return self.url.startswith("https://")

    @property
    def cookie(self) -> str:
        """The name of the cookie. On plain loopback all ports share their cookies, so it has the port."""
        return "__Host-headrace" if self.is_https else f"headrace-{self.port}"

    @property
    def hosts(self) -> frozenset[str]:
        """The values of the header Host that are answered."""
        found = {urlsplit(self.url).netloc.lower()}
        if is_loopback(self.host):
            found |= {self._authority(host) for host in ("127.0.0.1", "localhost", self.host)}
        return frozenset(found | {host.removesuffix(f":{_HTTP}") for host in found})

    @property
    def origins(self) -> frozenset[str]:
        """The values of the header Origin of our own pages."""
        if self.root_url is not None:
            return frozenset({self.root_url})
        return frozenset(f"http://{host}" for host in self.hosts)

    def at(self, port: int) -> str:
        """The same host with another port, as :func:`addresses` reads it."""
        return f"[{self.host}]:{port}" if ":" in self.host else f"{self.host}:{port}"

    def _authority(self, host: str) -> str:
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


def addresses(listen: str, root_url: str | None = None) -> Addresses:
    """Parse where to listen, such as ``127.0.0.1:8741``, and the URL that browsers use.

    Raises:
        PipelineError: SERVE.LISTEN, SERVE.ROOT_URL; SERVE.NOT_LOOPBACK if other machines could reach the server in
            clear text.
    """
    match = _ADDRESS.fullmatch(listen)
    if match is None or not 0 < int(match["port"]) < 1 << 16 or not _is_host(match["ipv6"] or match["host"]):
        raise PipelineError("SERVE.LISTEN", listen=listen)
    host = match["ipv6"] or match["host"]
    if root_url is not None:
        root_url = _checked_url(root_url)
    elif not is_loopback(host):
        raise PipelineError("SERVE.NOT_LOOPBACK", host=host, listen=listen)
    return Addresses(host, int(match["port"]), root_url)


def free_address(wanted: Addresses) -> str:
    """Where to listen: the port that is wanted, or the next one that nobody listens on."""
    for port in range(wanted.port, min(wanted.port + _TRIED_PORTS, 1 << 16)):
        if _is_free(wanted.host, port):
            return wanted.at(port)
    # The attempt to listen says what is wrong.
    return wanted.at(wanted.port)


def _is_free(host: str, port: int) -> bool:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except OSError:
            return False
    return True


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _is_host(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        # Of names, only the one that no server of names can change.
        return host.lower() == "localhost"
    return True


def _checked_url(text: str) -> str:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise PipelineError("SERVE.ROOT_URL", url=text) from None
    is_plain = parts.path in ("", "/") and not (parts.query or parts.fragment or parts.username or parts.password)
    if parts.scheme != "https" or not parts.hostname or not is_plain:
        raise PipelineError("SERVE.ROOT_URL", url=text)
    # As browsers write an origin.
    shown = parts.hostname if ":" not in parts.hostname else f"[{parts.hostname}]"
    return f"https://{shown}" if port in (None, _HTTPS) else f"https://{shown}:{port}"
