"""What the settings say about alerts: rules, limits, and the channels that messages are sent over."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from hashlib import sha256
from types import MappingProxyType

from headrace.errors import PipelineError
from headrace.model.alert_rules import Rule, Severity, rules
from headrace.model.location import Location
from headrace.model.time_window import TimeWindow
from headrace.settings.secrets import Secrets, resolve

_PORT = re.compile(r"[0-9]{1,5}")
DEFAULT_REPEAT_S = 4 * 3600.0
DEFAULT_GROUP_S = 30.0
DEFAULT_QUIET = frozenset({Severity.INFO, Severity.WARN})


class BodyFormat(str, Enum):
    """The body that a webhook's receiver expects."""

    JSON = "json"
    SLACK = "slack"
    TEAMS = "teams"
    ALERTMANAGER = "alertmanager"


class UpdateNotice(str, Enum):
    """What the vendor's ``notifications`` report.

    Source: lakeflow.md 2.1. A failure is fatal if a retry of the update would not correct it.
    """

    SUCCESS = "on-update-success"
    FAILURE = "on-update-failure"
    FATAL_FAILURE = "on-update-fatal-failure"
    FLOW_FAILURE = "on-flow-failure"


@dataclass(frozen=True)
class Webhook:
    """A URL that messages are posted to; *signing_secret* is empty without one."""

    url: str = field(repr=False)
    format: BodyFormat = BodyFormat.JSON
    signing_secret: str = field(default="", repr=False)

    def resolved(self, value: Values) -> Webhook:
        """The same with its references replaced."""
        return replace(self, url=value(self.url), signing_secret=value(self.signing_secret))


def server_of(text: str) -> tuple[str, int] | None:
    """The host and the port in a text such as ``smtp.example.com:587``; None if it is something else."""
    host, _, port = text.strip().rpartition(":")
    if not host or not _PORT.fullmatch(port) or not 0 < int(port) < 65536:
        return None
    return host.strip("[]"), int(port)


@dataclass(frozen=True)
class MailServer:
    """A mail server, the sender, and the recipients of alerts; *user* and *password* are empty without a login.

    While *port* is 0, *host* is a reference to both.
    """

    host: str
    port: int
    sender: str
    recipients: tuple[str, ...] = ()
    user: str = ""
    password: str = field(default="", repr=False)

    def resolved(self, value: Values) -> MailServer:
        """The same with its references replaced.

        Raises:
            PipelineError: ALERTS.INVALID_SERVER, SECRET.*.
        """
        found = (self.host, self.port) if self.port else server_of(value(self.host))
        if found is None:
            raise PipelineError("ALERTS.INVALID_SERVER", location=value.location)
        return replace(self, host=found[0], port=found[1], user=value(self.user), password=value(self.password))


@dataclass(frozen=True)
class AppriseUrl:
    """A URL of Apprise, which names a service and usually contains a token."""

    url: str = field(repr=False)

    def resolved(self, value: Values) -> AppriseUrl:
        """The same with its references replaced."""
        return replace(self, url=value(self.url))


class Values:
    """Replaces references to secrets in texts; every value is redacted from then on."""

    def __init__(self, secrets: Secrets, environ: Mapping[str, str], location: Location) -> None:
        self._secrets, self._environ, self.location = secrets, environ, location

    def __call__(self, text: str) -> str:
        """The text with its references replaced.

        Raises:
            PipelineError: SECRET.* if one cannot be resolved.
        """
        return resolve(text, self._secrets, self._environ, location=self.location)


@dataclass(frozen=True)
class Channel:
    """A way to send messages, with references to secrets that are not resolved yet."""

    name: str
    target: Webhook | MailServer | AppriseUrl
    min_severity: Severity = Severity.INFO
    location: Location = field(default=Location("pipeline.yml"), compare=False)

    def resolved(self, secrets: Secrets, environ: Mapping[str, str]) -> Channel:
        """The channel with its references replaced. URLs are redacted from then on, as secrets are.

        Raises:
            PipelineError: SECRET.* if a reference cannot be resolved.
        """
        target = self.target.resolved(Values(secrets, environ, self.location))
        if not isinstance(target, MailServer):
            secrets.register(target.url)
        return replace(self, target=target)

    @property
    def digest(self) -> str:
        """Identifies where the channel sends to, without its secrets: references are not resolved."""
        text = json.dumps([type(self.target).__name__, asdict(self.target)], sort_keys=True)
        return sha256(text.encode()).hexdigest()[:16]

    @property
    def takes_alerts(self) -> bool:
        """False for a mail server without recipients, which only sends ``notifications``."""
        return not isinstance(self.target, MailServer) or bool(self.target.recipients)


@dataclass(frozen=True)
class Notification:
    """An entry of the vendor's ``notifications``."""

    recipients: tuple[str, ...]
    notices: frozenset[UpdateNotice]


@dataclass(frozen=True)
class QuietHours:
    """Hours in which messages about alerts of some severities wait until they end."""

    window: TimeWindow
    severities: frozenset[Severity]


@dataclass(frozen=True)
class AlertSettings:
    """The settings of alerts.

    Attributes:
        rules: the rules that are on, with the settings' values.
        lag_limits_s: the threshold of ``lag_high`` by dataset.
        freshness_s: the target of ``freshness`` by dataset.
        channels: where messages are sent.
        notifications: the vendor's, about updates.
        repeat_s: when a message about an alert that is still open is repeated.
        group_s: alerts that open within this time are one message.
        quiet_hours: when messages wait.
    """

    rules: Mapping[str, Rule] = field(default_factory=rules)
    lag_limits_s: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    freshness_s: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    channels: tuple[Channel, ...] = ()
    notifications: tuple[Notification, ...] = ()
    repeat_s: float = DEFAULT_REPEAT_S
    group_s: float = DEFAULT_GROUP_S
    quiet_hours: tuple[QuietHours, ...] = ()

    def is_quiet(self, severity: Severity, at: float) -> bool:
        """Whether messages about alerts of a severity wait, at a time in seconds since 1970."""
        return any(severity in hours.severities and hours.window.contains(at) for hours in self.quiet_hours)

    @property
    def alert_channels(self) -> tuple[Channel, ...]:
        """The channels that alerts are sent over."""
        return tuple(channel for channel in self.channels if channel.takes_alerts)

    @property
    def mail_channel(self) -> Channel | None:
        """The channel that ``notifications`` are sent over; None without one."""
        return next((one for one in self.channels if isinstance(one.target, MailServer)), None)

    def channel(self, name: str) -> Channel:
        """The channel with a name.

        Raises:
            PipelineError: ALERTS.UNKNOWN_CHANNEL.
        """
        for channel in self.channels:
            if channel.name == name:
                return channel
        known = ", ".join(channel.name for channel in self.channels) or "none"
        raise PipelineError("ALERTS.UNKNOWN_CHANNEL", channel=name, known=known)
