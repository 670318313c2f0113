"""Connection strings of Event Hubs: taken apart, never shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from headrace.errors import PipelineError

_KAFKA_PORT = 9093
_USER = "$ConnectionString"
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
# Words of a connection string that say something of another protocol, or nothing.
_PASSED_OVER = frozenset({"transporttype", "operationtimeout", "retrypolicy", "runtimeport"})
_CREDENTIALS = ("sharedaccesskeyname", "sharedaccesskey", "sharedaccesssignature")


@dataclass(frozen=True)
class Connection:
    """The host of a namespace, the hub, how to log in, and the port; an emulator's string names one."""

    host: str
    hub: str
    text: str = field(repr=False)
    port: int = _KAFKA_PORT

    @property
    def servers(self) -> str:
        """Where the namespace speaks Kafka."""
        return f"{self.host}:{self.port}"

    @property
    def login(self) -> str:
        """The login for Kafka's client: the whole connection string is the password. A secret."""
        quoted = self.text.replace("\\", "\\\\").replace('"', '\\"')
        return f'{_LOGIN} required username="{_USER}" password="{quoted}";'


def parse_connection(text: str) -> Connection:
    """The connection behind a connection string.

    Raises:
        PipelineError: EVENT_HUBS.CONNECTION, which says what is missing and nothing of what is there.

    Source: the service's page "Get an Event Hubs connection string", and its Kafka guide for the login.
    """
    parts = {}
    for part in filter(None, (piece.strip() for piece in text.split(";"))):
        name, separator, value = part.partition("=")
        if not separator:
            raise _wrong("it is no list of NAME=VALUE, separated by semicolons; one that was encrypted is not read")
        parts[name.strip().casefold()] = value.strip()
    try:
        endpoint = urlsplit(parts.pop("endpoint", ""))
        port = endpoint.port or _KAFKA_PORT
    except ValueError:
        # Its text may repeat a part of it.
        raise _wrong("its Endpoint is no address") from None
    if endpoint.scheme != "sb" or not endpoint.hostname:
        raise _wrong("it has no Endpoint=sb://<namespace>.servicebus.windows.net/; one that was encrypted is not read")
    hub = parts.pop("entitypath", "")
    if not hub:
        raise _wrong("it has no EntityPath=<event hub>")
    known = {*_CREDENTIALS, *_PASSED_OVER}
    if set(parts) - known:
        raise _wrong("it has a part that is not known; parts are Endpoint, EntityPath and the SharedAccess... ones")
    key = parts.get("sharedaccesskeyname") and parts.get("sharedaccesskey")
    if not key and not parts.get("sharedaccesssignature"):
        raise _wrong("it has neither SharedAccessKeyName and SharedAccessKey nor SharedAccessSignature")
    return Connection(endpoint.hostname, hub, text.strip(), port)


def _wrong(reason: str) -> PipelineError:
    return PipelineError("EVENT_HUBS.CONNECTION", reason=reason)
