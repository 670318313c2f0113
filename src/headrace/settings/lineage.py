"""Reads ``lineage`` of a settings file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType
from urllib.parse import SplitResult, urlsplit

from headrace.model.location import Location
from headrace.model.triggers import InvalidInterval, parse_interval_s
from headrace.settings.check import Section
from headrace.settings.lineage_settings import (
    DEFAULT_EVERY_S,
    LineageFile,
    LineageServer,
    LineageSettings,
    LineageTransport,
)
from headrace.settings.secrets import has_reference

_KINDS = ("file", "http")
_OF_HTTP = ("headers", "api_key")
_SHORT_MINUTES = re.compile(r"([\d.]+)\s*m\Z")
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
# Headers whose values let someone in.
_SECRET_HEADER = re.compile(r"auth|cookie|key|password|secret|signature|token", re.IGNORECASE)
_SET_BY_US = frozenset({"accept-encoding", "content-length", "content-type", "host", "transfer-encoding"})
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_LEAST_S = 1.0
Report = Callable[..., None]


def lineage_of(section: Section, folder: Path, file: str, report: Report) -> LineageSettings:
    """The settings of lineage; problems go to *report* (code, line, parameters).

    Args:
        section: the settings.
        folder: of the settings file; paths are relative to it.
        file: the name of the settings file.
        report: takes problems.
    """
    reader = _Lineage(folder, file, report)
    given = section.section("lineage")
    return LineageSettings(
        reader.namespace(given), reader.every_s(given), tuple(reader.transports(given.named_sections("transports")))
    )


class _Lineage:
    """Reads values, and reports those that are invalid."""

    def __init__(self, folder: Path, file: str, report: Report) -> None:
        self._folder = folder
        self._file = file
        self._report = report

    def namespace(self, given: Section) -> str | None:
        written = given.text("namespace")
        if written is not None and (not written.strip() or not written.isprintable() or has_reference(written)):
            reason = "it is empty, has invisible characters or a reference to a secret"
            self._wrong(given, "namespace", "lineage.namespace", reason, "Write a name, such as analytics.")
            return None
        return written

    def every_s(self, given: Section) -> float:
        written = given.text("every")
        try:
            seconds = DEFAULT_EVERY_S if written is None else parse_interval_s(_SHORT_MINUTES.sub(r"\1 min", written))
        except InvalidInterval:
            seconds = 0.0
        if seconds < _LEAST_S:
            reason = "it is not a duration of at least a second"
            self._wrong(given, "every", "lineage.every", reason, "Write it as 30s, 10m or 1h.")
            return DEFAULT_EVERY_S
        return seconds

    def transports(self, given: dict[str, Section]) -> Iterator[LineageTransport]:
        for name, section in given.items():
            key = f"lineage.transports.{name}"
            kinds = [kind for kind in _KINDS if kind in section.values]
            if len(kinds) != 1:
                if not section.has_errors:
                    reason = "it needs exactly one of file and http"
                    self._wrong(section, "", key, reason, "Write one transport for each.")
                continue
            if kinds == ["file"]:
                for other in filter(section.values.__contains__, _OF_HTTP):
                    self._wrong(section, other, f"{key}.{other}", "it belongs to http", "Remove it.")
            target = self._to_file(section, key) if kinds == ["file"] else self._to_server(section, key)
            if target is not None:
                yield LineageTransport(name, target, Location(self._file, section.line))

    def _to_file(self, section: Section, key: str) -> LineageFile | None:
        written = section.text("file") or ""
        if not written.strip() or written.endswith("/") or _SCHEME.match(written) or has_reference(written):
            reason = "it is not the path of a local file"
            self._wrong(section, "file", f"{key}.file", reason, "Write a path, such as lineage/events.jsonl.")
            return None
        return LineageFile(self._folder / written)

    def _to_server(self, section: Section, key: str) -> LineageServer | None:
        url, label = (section.text("http") or "").strip(), f"{key}.http"
        if not has_reference(url):
            parts = _split(url)
            if parts.scheme not in ("http", "https") or not parts.hostname:
                fix = "Write https://host, or a reference to a secret."
                self._wrong(section, "http", label, "it is not a URL", fix)
                return None
            if "@" in parts.netloc or parts.query:
                self._refuse_literal(section, "http", label)
        api_key = section.text("api_key") or ""
        if "api_key" in section.values and not has_reference(api_key):
            self._refuse_literal(section, "api_key", f"{key}.api_key")
        headers = section.mapping("headers")
        for name, value in headers.items():
            self._check_header(section, name, value, f"{key}.headers.{name}")
        if api_key and any(name.casefold() == "authorization" for name in headers):
            self._wrong(section, "headers", f"{key}.headers", "api_key sets Authorization too", "Remove one of them.")
        return LineageServer(url, MappingProxyType(dict(headers)), api_key)

    def _check_header(self, section: Section, name: str, value: str, label: str) -> None:
        place = f"headers.{name}"
        if not _HEADER.fullmatch(name) or not value.isprintable() or not value.isascii():
            self._wrong(section, place, label, "HTTP has no such header", "Use ASCII, without spaces in the name.")
        elif name.casefold() in _SET_BY_US:
            self._wrong(section, place, label, "Headrace sets it", "Remove it.")
        elif _SECRET_HEADER.search(name) and not has_reference(value):
            self._refuse_literal(section, place, label)

    def _refuse_literal(self, section: Section, name: str, key: str) -> None:
        reason = "it is a secret, which does not belong in the file"
        fix = f"Store it as a secret, and write ${{secret:lineage/{key.rpartition('.')[2].casefold()}}}."
        self._wrong(section, name, key, reason, fix)

    def _wrong(self, section: Section, name: str, key: str, reason: str, fix: str) -> None:
        self._report("SETTINGS.WRONG_VALUE", section.line_of(name), key=key, reason=reason, instead=fix)


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        return urlsplit("")
