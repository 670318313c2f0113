"""Users whom a proxy has signed in: their names in a header, which is believed from the proxy alone."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import HTTPConnection

from headrace.errors import PipelineError
from headrace.serve.addresses import Addresses
from headrace.serve.roles import Principal, Role

EVERYBODY = "*"
_HEADER = re.compile(r"[A-Za-z0-9-]{1,64}")
_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+-]{0,99}")
# Browsers and programs send these themselves.
_TAKEN = frozenset({"authorization", "cookie", "host", "origin", "content-type", "content-length", "connection"})
_LOCAL = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


@dataclass(frozen=True)
class ProxyUsers:
    """Who may use the server through a proxy.

    Attributes:
        header: has the name of the user.
        networks: of the proxies.
        roles: by the name of a user; ``*`` for everybody else.
    """

    header: str
    networks: tuple[Network, ...]
    roles: Mapping[str, Role]

    def principal(self, request: HTTPConnection) -> Principal | None:
        """The user of a request; None if it does not come from a proxy, names nobody, or somebody without a role."""
        names = request.headers.getlist(self.header)
        if len(names) != 1 or not self._is_proxy(request.client.host if request.client else ""):
            return None
        role = self.roles.get(names[0], self.roles.get(EVERYBODY))
        if role is None or not _USER.fullmatch(names[0]):
            return None
        # The proxy sends the name for whatever page the browser shows, as it sends a cookie.
        return Principal(names[0], role, is_browser=True)

    def _is_proxy(self, host: str) -> bool:
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return False
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        return any((mapped or address) in network for network in self.networks)


def proxy_users(
    header: str | None, networks: Sequence[str], users: Sequence[str], reached: Addresses
) -> ProxyUsers | None:
    """The users of a proxy, by the options of the command line; None without these options.

    Args:
        header: has the name of the user.
        networks: of the proxies, such as ``10.0.0.5/32``.
        users: each NAME=ROLE; ``*`` for everybody else.
        reached: how the server is reached.

    Raises:
        PipelineError: SERVE.PROXY.
    """
    if header is None and not networks and not users:
        return None
    if header is None or not networks or not users or not reached.is_https:
        reason = "--root-url, --proxy-user-header, --trusted-proxy and --user belong together"
        raise PipelineError("SERVE.PROXY", reason=reason)
    if not _HEADER.fullmatch(header) or header.lower() in _TAKEN:
        raise PipelineError("SERVE.PROXY", reason=f'"{header}" cannot be the header with the name of the user')
    return ProxyUsers(header.lower(), tuple(map(_network, networks)), dict(map(_user, users)))


def _network(text: str) -> Network:
    try:
        found = ipaddress.ip_network(text)
    except ValueError:
        raise PipelineError("SERVE.PROXY", reason=f'"{text}" is not a network, such as 10.0.0.5/32') from None
    # Every process of this machine, or anybody, could say that it is anybody.
    if found.prefixlen == 0 or any(found.version == one.version and found.overlaps(one) for one in _LOCAL):
        raise PipelineError("SERVE.PROXY", reason=f'"{text}" contains more than proxies')
    return found


def _user(text: str) -> tuple[str, Role]:
    name, _, role = text.rpartition("=")
    if (name != EVERYBODY and not _USER.fullmatch(name)) or role not in [one.value for one in Role]:
        raise PipelineError("SERVE.PROXY", reason=f'"{text}" is not a user and a role, such as ann=operator')
    return name, Role(role)
