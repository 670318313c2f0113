"""Reads ``alerts`` and ``notifications`` of a settings file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from enum import Enum
from types import MappingProxyType
from typing import TypeVar
from urllib.parse import SplitResult, urlsplit

from headrace.model.alert_rules import Rule, Severity, rules
from headrace.model.location import Location
from headrace.model.time_window import InvalidWindow, TimeWindow
from headrace.model.triggers import InvalidInterval, parse_duration_s
from headrace.options.nearest import nearest
from headrace.settings.alert_settings import (
    DEFAULT_GROUP_S,
    DEFAULT_QUIET,
    DEFAULT_REPEAT_S,
    AlertSettings,
    AppriseUrl,
    BodyFormat,
    Channel,
    MailServer,
    Notification,
    QuietHours,
    UpdateNotice,
    Webhook,
    server_of,
)
from headrace.settings.check import Section
from headrace.settings.secrets import has_reference

_TARGETS = ("webhook", "smtp", "apprise")
# Keys that only one kind of channel has.
_KEYS_OF = {
    "webhook": ("format", "signing_secret"),
    "smtp": ("from", "to", "user", "password"),
    "apprise": (),
}
_ADDRESS = re.compile(r"[^\s@<>,]+@[^\s@<>,]+")
_Word = TypeVar("_Word", bound=Enum)
Report = Callable[..., None]


def alerts_of(section: Section, file: str, report: Report) -> AlertSettings:
    """The settings of alerts; problems go to *report* (code, line, parameters)."""
    given = section.section("alerts")
    reader = _Rules(report)
    channels = tuple(_Channels(report, file).channels(given.named_sections("deliver")))
    group_s = reader.seconds(given, "group", "alerts.group", may_be_zero=True)
    found = AlertSettings(
        rules=MappingProxyType(reader.rules(given.named_sections("rules"))),
        lag_limits_s=MappingProxyType(dict(reader.limits(given.named_sections("datasets"), "lag"))),
        freshness_s=MappingProxyType(dict(reader.limits(given.named_sections("datasets"), "freshness"))),
        channels=channels,
        notifications=tuple(reader.notifications(section.sections("notifications"))),
        repeat_s=reader.seconds(given, "repeat", "alerts.repeat") or DEFAULT_REPEAT_S,
        group_s=DEFAULT_GROUP_S if group_s is None else group_s,
        quiet_hours=tuple(reader.quiet_hours(given.sections("quiet_hours"))),
    )
    if "notifications" in section.values and section.sections("notifications") and found.mail_channel is None:
        reader.wrong(
            section.line_of("notifications"),
            "notifications",
            "they are mail, and no mail server is set",
            "Add a channel with smtp and from below alerts.deliver.",
        )
    return found


class _Values:
    """Reads values, and reports those that are invalid."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def wrong(self, line: int, key: str, reason: str, fix: str) -> None:
        self._report("SETTINGS.WRONG_VALUE", line, key=key, reason=reason, instead=fix)

    def seconds(self, given: Section, name: str, key: str, *, may_be_zero: bool = False) -> float | None:
        """A duration such as ``5m`` or ``90 seconds``; None if it is not set."""
        written = given.text(name)
        try:
            seconds = None if written is None else parse_duration_s(written)
        except InvalidInterval:
            seconds = -1
        if seconds is not None and (seconds < 0 or (seconds == 0 and not may_be_zero)):
            self.wrong(given.line_of(name), key, "it is not a duration", "Write it as 30s, 5m or 4h.")
            return None
        return seconds

    def word(self, given: Section, name: str, key: str, words: type[_Word]) -> _Word | None:
        written = given.text(name)
        return None if written is None else self.member(written, given.line_of(name), key, words)

    def member(self, written: str, line: int, key: str, words: type[_Word]) -> _Word | None:
        known = {word.value: word for word in words}
        if written not in known:
            close = nearest(written, known)
            fix = f'Did you mean "{close}"?' if close else f"Write one of {', '.join(known)}."
            self.wrong(line, key, f'"{written}" is unknown', fix)
        return known.get(written)

    def check_addresses(self, addresses: Iterable[str], line: int, key: str) -> None:
        for address in addresses:
            if not _ADDRESS.fullmatch(address):
                self.wrong(line, key, f'"{address}" is no mail address', "Write name@example.com.")


class _Rules(_Values):
    """Reads rules, limits and notifications."""

    def rules(self, given: dict[str, Section]) -> dict[str, Rule]:
        """The rules that are on."""
        found = dict(rules())
        for name, changed in given.items():
            key = f"alerts.rules.{name}"
            if name not in found and name not in rules():
                close = nearest(name, rules())
                fix = f'Did you mean "{close}"?' if close else "docs/reference/alerts.md lists the rules."
                self.wrong(changed.line, key, "there is no such rule", fix)
            elif changed.is_off:
                found.pop(name)
            else:
                found[name] = self._changed(found[name], changed, key)
        return found

    def _changed(self, rule: Rule, given: Section, key: str) -> Rule:
        for_s = self.seconds(given, "for", f"{key}.for", may_be_zero=True)
        threshold = given.decimal("threshold")
        if threshold is not None and not rule.threshold:
            self.wrong(given.line_of("threshold"), f"{key}.threshold", "the rule has no threshold", "Remove it.")
        elif threshold is not None and threshold <= 0:
            self.wrong(given.line_of("threshold"), f"{key}.threshold", "it is not above 0", "Write a positive number.")
            threshold = None
        return replace(
            rule,
            threshold=rule.threshold if threshold is None else threshold,
            for_s=rule.for_s if for_s is None else for_s,
            severity=self.word(given, "severity", f"{key}.severity", Severity) or rule.severity,
        )

    def limits(self, given: dict[str, Section], key: str) -> Iterator[tuple[str, float]]:
        """The limits of a key, in seconds by dataset."""
        for name, limits in given.items():
            limit_s = self.seconds(limits, key, f"alerts.datasets.{name}.{key}")
            if limit_s is not None:
                yield name, limit_s

    def quiet_hours(self, given: Iterable[Section]) -> Iterator[QuietHours]:
        """The hours in which messages wait."""
        for section in given:
            key, written = "alerts.quiet_hours[]", section.text("hours")
            names = section.texts("severities")
            known = [self.member(name, section.line_of("severities"), f"{key}.severities", Severity) for name in names]
            severities = frozenset(severity for severity in known if severity is not None)
            if written is None:
                if not section.has_errors:
                    self.wrong(section.line, key, "it has no hours", "Write hours: 22:00-07:00 Europe/Berlin.")
                continue
            try:
                yield QuietHours(TimeWindow.of(written), severities or DEFAULT_QUIET)
            except InvalidWindow as invalid:
                fix = "Write it as 22:00-07:00 Europe/Berlin."
                self.wrong(section.line_of("hours"), f"{key}.hours", str(invalid), fix)

    def notifications(self, given: Iterable[Section]) -> Iterator[Notification]:
        """The vendor's notifications."""
        for section in given:
            recipients, names = section.texts("email_recipients"), section.texts("alerts")
            line = section.line_of("alerts")
            if not section.has_errors and not (recipients and names):
                reason = "an entry needs email_recipients and alerts"
                self.wrong(section.line, "notifications[]", reason, "Add them, or remove the entry.")
            self.check_addresses(recipients, section.line_of("email_recipients"), "notifications[].email_recipients")
            known = [self.member(name, line, "notifications[].alerts", UpdateNotice) for name in names]
            yield Notification(recipients, frozenset(notice for notice in known if notice is not None))


class _Channels(_Values):
    """Reads channels."""

    def __init__(self, report: Report, file: str) -> None:
        super().__init__(report)
        self._file = file

    def channels(self, given: dict[str, Section]) -> Iterator[Channel]:
        """The channels."""
        for name, section in given.items():
            key = f"alerts.deliver.{name}"
            kinds = [kind for kind in _TARGETS if kind in section.values]
            if len(kinds) != 1:
                if not section.has_errors:
                    reason = "it needs exactly one of webhook, smtp and apprise"
                    self.wrong(section.line, key, reason, "Write one channel for each.")
                continue
            self._report_unused(section, key, kinds[0])
            severity = self.word(section, "min_severity", f"{key}.min_severity", Severity) or Severity.INFO
            target = self._target(kinds[0], section, key)
            if target is not None:
                yield Channel(name, target, severity, Location(self._file, section.line))

    def _report_unused(self, section: Section, key: str, kind: str) -> None:
        for other, keys in _KEYS_OF.items():
            for name in keys if other != kind else ():
                if name in section.values:
                    self.wrong(section.line_of(name), f"{key}.{name}", f"it belongs to {other}", "Remove it.")

    def _target(self, kind: str, section: Section, key: str) -> Webhook | MailServer | AppriseUrl | None:
        match kind:
            case "webhook":
                return self._webhook(section, key)
            case "smtp":
                return self._mail_server(section, key)
            case _:
                self._check_secret(section, "apprise", key)
                return AppriseUrl(section.text("apprise") or "")

    def _webhook(self, section: Section, key: str) -> Webhook:
        url = section.text("webhook") or ""
        body = self.word(section, "format", f"{key}.format", BodyFormat) or BodyFormat.JSON
        self._check_secret(section, "signing_secret", key)
        parts = None if has_reference(url) else _split(url)
        line, label = section.line_of("webhook"), f"{key}.webhook"
        if parts is not None and (parts.scheme not in ("http", "https") or not parts.netloc):
            self.wrong(line, label, "it is not a URL", "Write https://host/path, or a reference to a secret.")
        elif parts is not None and (body in (BodyFormat.SLACK, BodyFormat.TEAMS) or parts.query or "@" in parts.netloc):
            # Whoever knows such a URL can send messages.
            self._refuse_literal(line, label)
        return Webhook(url, body, section.text("signing_secret") or "")

    def _mail_server(self, section: Section, key: str) -> MailServer | None:
        written = section.text("smtp") or ""
        server = (written, 0) if has_reference(written) else server_of(written)
        if server is None:
            self.wrong(section.line_of("smtp"), f"{key}.smtp", "it is not host:port", "Write smtp.example.com:587.")
            return None
        sender = section.text("from")
        if sender is None:
            self.wrong(section.line, f"{key}.from", "it is missing", "Write the address of the sender.")
        recipients = section.texts("to")
        self.check_addresses([sender] if sender else [], section.line_of("from"), f"{key}.from")
        self.check_addresses(recipients, section.line_of("to"), f"{key}.to")
        self._check_secret(section, "password", key)
        user, password = section.text("user") or "", section.text("password") or ""
        if bool(user) != bool(password):
            self.wrong(section.line, key, "user and password need each other", "Write both, or neither.")
        return MailServer(*server, sender or "", recipients, user, password)

    def _check_secret(self, section: Section, name: str, key: str) -> None:
        written = section.text(name)
        if written is not None and not has_reference(written):
            self._refuse_literal(section.line_of(name), f"{key}.{name}")

    def _refuse_literal(self, line: int, key: str) -> None:
        name = key.rpartition(".")[2]
        fix = f"Store it as a secret, and write ${{secret:alerts/{name}}}."
        self.wrong(line, key, "it is a secret, which does not belong in the file", fix)


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")
