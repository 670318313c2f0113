"""Reads the named parts of a settings file: the pipeline's files, packages, event log, maintenance and approvals."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from headrace.model.change_classes import ApprovalMode, ApprovalPolicy, ChangeClass
from headrace.model.location import Location
from headrace.model.maintenance import DEFAULT_POLICY, MaintenancePolicy, VacuumScope
from headrace.model.names import InvalidName, Naming, QualifiedName, check_part, quoted
from headrace.model.savepoint_policy import SavepointPolicy
from headrace.model.time_window import InvalidWindow, TimeWindow
from headrace.model.triggers import InvalidInterval, parse_interval_s
from headrace.settings.check import Section
from headrace.settings.settings import DEFAULT_RETAIN_METRICS_S, DEFAULT_RETAIN_S, DEFAULT_SCHEMA, Library

_EACH_UPDATE = "update"
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
    all_s = _retention_s(named, "event_log.retain", DEFAULT_RETAIN_S, report)
    # Who keeps events for some time wants all of them.
    metrics_s = all_s if "retain" in named.values else DEFAULT_RETAIN_METRICS_S
    return all_s, _retention_s(named, "event_log.retain_metrics", metrics_s, report)


def approval_of(section: Section, report: Report) -> ApprovalPolicy:
    """Which changes need an approval; problems go to *report*."""
    found, default = section.section("approval"), ApprovalPolicy()
    required = found.texts("required") if "required" in found.values else [one.value for one in default.required]
    classes = [known.value for known in ChangeClass]
    for name in dict.fromkeys(required):
        if name not in classes:
            report(
                "SETTINGS.WRONG_VALUE",
                found.line_of("required"),
                key="approval.required",
                reason=f'"{name}" is unknown',
                instead=f"Write classes of changes: {', '.join(classes)}.",
            )
    mode = found.text("mode") or default.mode.value
    modes = [known.value for known in ApprovalMode]
    if mode not in modes:
        report(
            "SETTINGS.WRONG_VALUE",
            found.line_of("mode"),
            key="approval.mode",
            reason=f'"{mode}" is unknown',
            instead=f"Write {', '.join(modes)}.",
        )
        mode = default.mode.value
    known = tuple(ChangeClass(name) for name in dict.fromkeys(required) if name in classes)
    return ApprovalPolicy(known, ApprovalMode(mode), found.flag("four_eyes") or False)


def maintenance_of(section: Section, report: Report) -> MaintenancePolicy:
    """The settings of maintenance; problems go to *report*."""
    found = section.section("maintenance")
    scope = found.text("vacuum") or DEFAULT_POLICY.vacuum.value
    if scope not in [known.value for known in VacuumScope]:
        fix = f"Write {', '.join(known.value for known in VacuumScope)}."
        report(
            "SETTINGS.WRONG_VALUE",
            found.line_of("vacuum"),
            key="maintenance.vacuum",
            reason=f'"{scope}" is unknown',
            instead=fix,
        )
        scope = DEFAULT_POLICY.vacuum.value
    most_minutes = found.number("max_minutes")
    if most_minutes is not None and most_minutes < 1:
        report(
            "SETTINGS.WRONG_VALUE",
            found.line_of("max_minutes"),
            key="maintenance.max_minutes",
            reason="it is less than 1",
            instead="Write a number of minutes, or leave it out.",
        )
        most_minutes = None
    rows = found.section("quarantine")
    retain_s = _interval_s(found, "maintenance.retain", report)
    rows_s = _interval_s(rows, "maintenance.quarantine.retain", report)
    logs_s = _interval_s(found.section("logs"), "maintenance.logs.retain", report)
    return MaintenancePolicy(
        VacuumScope(scope),
        DEFAULT_POLICY.retain_s if retain_s is None else retain_s,
        DEFAULT_POLICY.rows_retain_s if rows_s is None else rows_s,
        _retention_s(rows, "maintenance.quarantine.retain_open", None, report),
        DEFAULT_POLICY.logs_retain_s if logs_s is None else logs_s,
        _retention_s(found.section("checkpoints"), "maintenance.checkpoints.retain", None, report),
        _retention_s(found.section("inactive"), "maintenance.inactive.retain", None, report),
        _window(found, report),
        None if most_minutes is None else 60.0 * most_minutes,
    )


def savepoints_of(section: Section, report: Report) -> SavepointPolicy:
    """When updates make savepoints; problems go to *report*."""
    found, default = section.section("savepoints"), SavepointPolicy()
    every = found.text("every")
    every_s = 0.0 if every is not None and every.strip().casefold() == _EACH_UPDATE else None
    if every is not None and every_s is None:
        every_s = _interval_s(found, "savepoints.every", report, f'Write it as "1 hour", or as "{_EACH_UPDATE}".')
    keep_s, most = _interval_s(found, "savepoints.keep", report), found.number("most")
    if most is not None and most < 1:
        fix = "Write how many are kept, or leave it out."
        line = found.line_of("most")
        report("SETTINGS.WRONG_VALUE", line, key="savepoints.most", reason="it is less than 1", instead=fix)
        most = None
    return SavepointPolicy(
        every_s,
        bool(found.flag("before_clearing")),
        default.keep_s if keep_s is None else keep_s,
        default.most if most is None else most,
    )


def _window(section: Section, report: Report) -> TimeWindow | None:
    written = section.text("window")
    try:
        return None if written is None else TimeWindow.of(written)
    except InvalidWindow as invalid:
        fix = "Write it as 01:00-05:00 Europe/Berlin."
        line = section.line_of("window")
        report("SETTINGS.WRONG_VALUE", line, key="maintenance.window", reason=str(invalid), instead=fix)
        return None


def _retention_s(section: Section, path: str, default: float | None, report: Report) -> float | None:
    """The seconds of a retention, whose path ends with its key; None for forever."""
    written = section.text(path.rpartition(".")[2])
    if written is None:
        return default
    is_forever = written.strip().casefold() == _FOREVER
    return None if is_forever else _interval_s(section, path, report, f'Write it as "90 days", or as "{_FOREVER}".')


def _interval_s(
    section: Section, path: str, report: Report, fix: str = 'Write it as "90 days", or leave it out for the default.'
) -> float | None:
    """The seconds of an interval, whose path ends with its key; None if it is not set, or is a problem."""
    key = path.rpartition(".")[2]
    written = section.text(key)
    try:
        return None if written is None else parse_interval_s(written)
    except InvalidInterval as invalid:
        report("SETTINGS.WRONG_VALUE", section.line_of(key), key=path, reason=str(invalid), instead=fix)
        return None
