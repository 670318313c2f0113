"""Reads the named parts of a settings file: the pipeline's files, its packages, and its event log."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.model.location import Location
from headrace.model.names import InvalidName, Naming, QualifiedName, check_part, quoted
from headrace.model.triggers import InvalidInterval, parse_interval_s
from headrace.settings.check import Section
from headrace.settings.settings import DEFAULT_RETAIN_METRICS_S, DEFAULT_RETAIN_S, DEFAULT_SCHEMA, Library

_FOREVER = "forever"
_LIBRARIES = {"glob": "include", "file": "path", "notebook": "path"}
Report = Callable[..., None]


def libraries_of(section: Section, file: str, report: Report) -> Iterator[Library]:
    """The items of ``libraries``; problems go to *report* (code, line, parameters)."""
    for item in section.sections("libraries"):
        given = [key for key in _LIBRARIES if key in item.values]
        path = item.section(given[0]).text(_LIBRARIES[given[0]]) if given else None
        if len(given) == 1 and path:
            yield Library(path, given[0] == "glob", Location(file, item.line), given[0] == "notebook")
        elif not item.has_errors:
            report(
                "SETTINGS.WRONG_VALUE",
                item.line,
                key="libraries[]",
                reason="an item needs exactly one of glob.include, file.path and notebook.path",
                instead="Write one item for each file or pattern.",
            )


def dependencies_of(section: Section, file: str) -> tuple[tuple[str, Location], ...]:
    """The lines of ``environment.dependencies``, each with its location."""
    environment = section.section("environment")
    location = Location(file, environment.line_of("dependencies"))
    return tuple((line, location) for line in environment.texts("dependencies"))


def event_log_of(section: Section, report: Report) -> QualifiedName | None:
    """The name that ``event_log`` sets, None if there is none; problems go to *report*."""
    named = section.section("event_log")
    name, schema, catalog = (named.text(key) for key in ("name", "schema", "catalog"))
    line = section.line_of("event_log")
    if name is None:
        says_how_long = named.values and named.values.keys() <= {"retain", "retain_metrics"}
        if not named.has_errors and "event_log" in section.values and not says_how_long:
            fix = "Write event_log.name, or leave event_log out."
            report("SETTINGS.WRONG_VALUE", line, key="event_log", reason="it has no name", instead=fix)
        return None
    try:
        for part in filter(None, (name, schema, catalog)):
            check_part(part)
    except InvalidName as invalid:
        fix = "Use letters, digits and underscores."
        report("SETTINGS.WRONG_VALUE", line, key="event_log", reason=invalid, instead=fix)
        return None
    naming = Naming(section.text("schema") or DEFAULT_SCHEMA, section.text("catalog"))
    return naming.use(schema=schema, catalog=catalog).canonical(quoted(name))


def event_log_retention_of(section: Section, report: Report) -> tuple[float | None, float | None]:
    """How long events and metrics events are kept, in seconds, None for forever; problems go to *report*."""
    named = section.section("event_log")
    all_s = _retention_s(named, "retain", DEFAULT_RETAIN_S, report)
    # Who keeps events for some time wants all of them.
    metrics_s = all_s if "retain" in named.values else DEFAULT_RETAIN_METRICS_S
    return all_s, _retention_s(named, "retain_metrics", metrics_s, report)


def _retention_s(named: Section, key: str, default: float | None, report: Report) -> float | None:
    written = named.text(key)
    if written is None or written.strip().casefold() == _FOREVER:
        return default if written is None else None
    try:
        return parse_interval_s(written)
    except InvalidInterval as invalid:
        fix = f'Write it as "90 days", or as "{_FOREVER}".'
        report("SETTINGS.WRONG_VALUE", named.line_of(key), key=f"event_log.{key}", reason=str(invalid), instead=fix)
        return default
