"""Parses connection strings of Event Hubs. They are never shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from headrace.errors import PipelineError

_KAFKA_PORT = 9093
_USER = "$ConnectionString"
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
# Ignored parts of a connection string: they concern another protocol, or nothing.
_IGNORED = frozenset({"transporttype", "operationtimeout", "retrypolicy", "runtimeport"})
_CREDENTIALS = ("sharedaccesskeyname", "sharedaccesskey", "sharedaccesssignature")


@dataclass(frozen=True)
class Connection:
    """The host of a namespace, the hub, the credentials, and the port, which an emulator's string may name."""

    host: str
    hub: str
    text: str = field(repr=False)
    port: int = _KAFKA_PORT

    @property
    def servers(self) -> str:
        """The namespace's Kafka endpoint."""
        return f"{self.host}:{self.port}"

    @property
    def login(self) -> str:
        """The JAAS configuration for Kafka's client, with the whole connection string as the password. It is secret."""
        quoted = self.text.replace("\\", "\\\\").replace('"', '\\"')
        return f'{_LOGIN} required username="{_USER}" password="{quoted}";'


def parse_connection(text: str) -> Connection:
    """Parse a connection string.

    Raises:
        PipelineError: EVENT_HUBS.CONNECTION, which says what is missing, and shows nothing of the string.

    Source: the service's page "Get an Event Hubs connection string", and its Kafka guide for the login.
    """
    parts = {}
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        name, separator, value = part.partition("=")
        if not separator:
            reason = "it is not a list of NAME=VALUE pairs separated by semicolons; encrypted strings are not supported"
            raise _wrong(reason)
        parts[name.strip().casefold()] = value.strip()
    try:
        endpoint = urlsplit(parts.pop("endpoint", ""))
        port = endpoint.port or _KAFKA_PORT
    except ValueError:
        # The error's text may contain a part of the string.
        raise _wrong("its Endpoint is not a valid address") from None
    if endpoint.scheme != "sb" or not endpoint.hostname:
        raise _wrong("it has no Endpoint=sb://<namespace>.servicebus.windows.net/; encrypted strings are not supported")
    hub = parts.pop("entitypath", "")
    if not hub:
        raise _wrong("it has no EntityPath=<event hub>")
    known = {*_CREDENTIALS, *_IGNORED}
    if set(parts) - known:
        raise _wrong("it has an unknown part; known parts are Endpoint, EntityPath and the SharedAccess* parts")
    key = parts.get("sharedaccesskeyname") and parts.get("sharedaccesskey")
    if not key and not parts.get("sharedaccesssignature"):
        raise _wrong("it has neither SharedAccessKeyName and SharedAccessKey nor SharedAccessSignature")
    return Connection(endpoint.hostname, hub, text.strip(), port)


def _wrong(reason: str) -> PipelineError:
    return PipelineError("EVENT_HUBS.CONNECTION", reason=reason)
