"""Reads ``catalogs`` of a settings file."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from urllib.parse import SplitResult, urlsplit

from headrace.model.location import Location
from headrace.model.names import InvalidName, check_in_catalog
from headrace.settings.catalog_keys import HIVE
from headrace.settings.check import Section
from headrace.settings.secrets import Secrets, has_reference, resolve

_UNTRIED = {
    "glue": "publishing to AWS Glue is not supported yet",
    "unity": "publishing to Unity Catalog is not supported yet",
}
_SECRET = re.compile(r"credential|key|passw|secret|token", re.IGNORECASE)
# Spark's own catalog, which is no metastore to name.
_SESSION_CATALOG = "spark_catalog"
_URIS = "hive.metastore.uris"
Report = Callable[..., None]


@dataclass(frozen=True)
class CatalogSettings:
    """A metastore.

    Attributes:
        name: of the catalog.
        uri: its address, or several, separated by commas.
        publish: the datasets that are published there, as written; None for all of the catalog.
        conf: settings of its client, with references in place of secrets.
        location: where it is written.
    """

    name: str
    uri: str
    publish: tuple[str, ...] | None
    conf: Mapping[str, str] = field(repr=False)
    location: Location

    def resolved_conf(self, secrets: Secrets, environ: Mapping[str, str]) -> dict[str, str]:
        """The settings of the client with their references replaced; never print them.

        Raises:
            PipelineError: SECRET.*: a reference cannot be resolved.
        """
        return {key: resolve(text, secrets, environ, location=self.location) for key, text in self.conf.items()}


def catalogs_of(section: Section, file: str, report: Report) -> Mapping[str, CatalogSettings]:
    """The metastores by the names of their catalogs in lower case; problems go to *report* (code, line, parameters)."""
    found: dict[str, CatalogSettings] = {}
    for catalog in _catalogs(section, file, report):
        if catalog.name.casefold() in found:
            key = f"catalogs.{catalog.name}"
            _wrong(report, catalog.location.line or 0, key, "another has this name", "Names ignore case; rename one.")
        found[catalog.name.casefold()] = catalog
    return MappingProxyType(found)


def _catalogs(section: Section, file: str, report: Report) -> Iterator[CatalogSettings]:
    for name, given in section.named_sections("catalogs").items():
        key = f"catalogs.{name}"
        try:
            check_in_catalog(name)
        except InvalidName as invalid:
            _wrong(report, given.line, key, str(invalid), "Use letters, digits and underscores.")
            continue
        if name.casefold() == _SESSION_CATALOG:
            _wrong(report, given.line, key, "this is the name of Spark's own catalog", "Give it another name.")
            continue
        kind = (given.text("type") or HIVE).casefold()
        if kind != HIVE:
            reason = _UNTRIED.get(kind, f'"{kind}" is unknown')
            _wrong(report, given.line_of("type"), f"{key}.type", reason, f"Write {HIVE}, or leave it out.")
            continue
        conf = given.mapping("conf")
        _check_conf(given, conf, key, report)
        uri = given.text("uri") or ""
        if not all(map(_is_thrift, uri.split(","))):
            reason = "it is not the address of a metastore" if uri else "it is missing"
            line = given.line_of("uri") if uri else given.line
            _wrong(report, line, f"{key}.uri", reason, "Write thrift://HOST:9083.")
            continue
        publish = given.texts("publish") if "publish" in given.values else None
        yield CatalogSettings(name, uri, publish, MappingProxyType(dict(conf)), Location(file, given.line))


def _check_conf(given: Section, conf: Mapping[str, str], key: str, report: Report) -> None:
    for setting, value in conf.items():
        line = given.line_of(f"conf.{setting}")
        if setting == _URIS:
            _wrong(report, line, f"{key}.conf.{setting}", "uri sets it", "Remove it.")
        elif _SECRET.search(setting) and not has_reference(value):
            fix = f"Store it as a secret, and write ${{secret:{key.rpartition('.')[2]}/password}}."
            _wrong(report, line, f"{key}.conf.{setting}", "it is a secret in clear text", fix)


def _is_thrift(uri: str) -> bool:
    parts = _split(uri.strip())
    try:
        port = parts.port
    except ValueError:
        return False
    return parts.scheme == "thrift" and bool(parts.hostname) and port is not None and "@" not in parts.netloc


def _split(uri: str) -> SplitResult:
    try:
        return urlsplit(uri)
    except ValueError:
        return urlsplit("")


def _wrong(report: Report, line: int, key: str, reason: str, fix: str) -> None:
    report("SETTINGS.WRONG_VALUE", line, key=key, reason=reason, instead=fix)
