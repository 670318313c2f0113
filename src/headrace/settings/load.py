"""Loads a settings file into :class:`Settings`: applies the profile, reads both vocabularies, reports all problems."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from headrace.errors import PipelineError, Problems, raise_all
from headrace.model.location import Location
from headrace.model.names import InvalidName, check_in_catalog, check_part
from headrace.model.pipeline_keys import (
    RETRIES_KEY,
    KeyScope,
    invalid_keys,
    is_pipeline_key,
    normalize_keys,
    pipeline_key,
)
from headrace.model.triggers import INTERVAL_KEY, InvalidInterval, parse_interval_s
from headrace.options.nearest import nearest
from headrace.settings.alerts import alerts_of
from headrace.settings.catalogs import catalogs_of
from headrace.settings.check import Checker, Section
from headrace.settings.clusters import spark_conf_of
from headrace.settings.configuration import (
    WHOLE,
    change_settings_of,
    check_flow_confs,
    dead_letters_of,
    update_retries_of,
)
from headrace.settings.discover import find_settings
from headrace.settings.document import read_document
from headrace.settings.keys import keys_below
from headrace.settings.lineage import lineage_of
from headrace.settings.named import (
    approval_of,
    dependencies_of,
    event_log_of,
    event_log_retention_of,
    libraries_of,
    maintenance_of,
    savepoints_of,
)
from headrace.settings.schedules import schedules_of
from headrace.settings.settings import (
    DEFAULT_PARALLEL_FLOWS,
    DEFAULT_SCHEMA,
    DEFAULT_STOP_TIMEOUT_S,
    DEFAULT_STORAGE,
    DEFAULT_UPDATE_RETRIES,
    Settings,
)
from headrace.settings.storage import resolve_storage
from headrace.settings.stores import connect_stores, stores_of

PROFILE_VARIABLE = "HEADRACE_PROFILE"
_SCHEMA_KEYS = ("schema", "target", "database")
# Two pipelines with the same name get the same id: the storage, not the id, distinguishes pipelines.
_IDS = uuid.UUID("5b0b4a1e-6f0c-5d0e-9a57-3f6f8c1f2d10")
_NONE: Mapping[str, str] = MappingProxyType({})


def nearest_settings(
    directory: Path, *, profile: str | None, overrides: Mapping[str, str], environ: Mapping[str, str]
) -> Settings:
    """The settings of the nearest settings file at or above a folder.

    Raises:
        PipelineError, Problems: the settings are missing or wrong.
    """
    return load_settings(find_settings(directory.absolute()), profile=profile, overrides=overrides, environ=environ)


def load_settings(
    file: Path, *, profile: str | None = None, overrides: Mapping[str, str] = _NONE, environ: Mapping[str, str]
) -> Settings:
    """The settings in *file*; from now on, this process reaches buckets as they say.

    Args:
        file: the file from ``find_settings``.
        profile: name of a profile; overrides ``HEADRACE_PROFILE``, which overrides the setting ``profile``.
        overrides: entries of ``configuration`` from the command line; they override the profile's.
        environ: the environment variables.

    Raises:
        Problems: all problems, each with file and line; only the first if the file cannot be parsed.
    """
    # The folder without links and "..", so that containment can be checked.
    file = file.parent.resolve() / file.name
    checker = Checker(file.name)
    try:
        section = checker.document(read_document(file))
    except PipelineError as error:
        raise Problems([error]) from error
    loader = _Loader(file, checker.problems)
    chosen = loader.profile(section, profile, environ)
    section = loader.with_schema(section)
    prefix = ""
    if chosen:
        overlay = loader.with_schema(section.named_sections("profiles")[chosen])
        prefix = overlay.text("schema_prefix") or ""
        section = section.merged_with(overlay)
    settings = loader.settings(section, chosen, prefix, overrides, checker.notices)
    raise_all(loader.problems)
    connect_stores(settings.layout, settings.stores, lambda: settings.open_secrets(environ), environ)
    return settings


@dataclass
class _Loader:
    """Reads one section into settings; collects problems, and replaces invalid values by neutral ones."""

    file: Path
    problems: list[PipelineError] = field(default_factory=list)

    def profile(self, section: Section, argument: str | None, environ: Mapping[str, str]) -> str | None:
        """The name of the profile to apply; None if none is requested or the requested one is unknown."""
        variable = environ.get(PROFILE_VARIABLE)
        setting = section.text("profile")
        name = argument or variable or setting
        known = section.named_sections("profiles")
        if not name or name in known:
            return name or None
        origin = "--profile" if argument else f"the variable {PROFILE_VARIABLE}" if variable else "the setting profile"
        close = nearest(name, known)
        if close:
            suggestion = f'Did you mean "{close}"?'
        else:
            suggestion = f"The profiles are {', '.join(known)}." if known else "Add it below profiles."
        line = section.line_of("profile" if not (argument or variable) else "profiles")
        self._problem("SETTINGS.UNKNOWN_PROFILE", line, profile=name, origin=origin, suggestion=suggestion)
        return None

    def with_schema(self, section: Section) -> Section:
        """The section with ``schema`` set from whichever of its three keys is used."""
        given = [key for key in _SCHEMA_KEYS if section.text(key) is not None]
        for key in given[1:]:
            if section.text(key) != section.text(given[0]):
                self._problem("SETTINGS.CONFLICT", section.line_of(key), key=key, other=given[0])
        if not given:
            return section
        values = {**section.values, "schema": section.text(given[0]) or ""}
        return Section(section.line, values, {**section.lines, "schema": section.line_of(given[0])})

    def settings(
        self, section: Section, profile: str | None, prefix: str, overrides: Mapping[str, str], notices: dict[str, str]
    ) -> Settings:
        """The settings of a section with its profile applied."""
        name = self._name(section)
        secrets = section.section("secrets").text("directory")
        configuration = _configuration(section, overrides, partial(self._invalid, section))
        development = section.flag("development") or False
        clusters = spark_conf_of(section.sections("clusters"), self._problem)
        retention, on_tie = change_settings_of(configuration, partial(self._invalid, section))
        check_flow_confs(configuration, partial(self._invalid, section))
        update_retries = update_retries_of(
            configuration, 0 if development else DEFAULT_UPDATE_RETRIES, partial(self._invalid, section)
        )
        return Settings(
            file=self.file,
            root=self.file.parent,
            name=name,
            id=section.text("id") or str(uuid.uuid5(_IDS, name)),
            storage=self._storage(section),
            root_path=self._root_path(section),
            catalog=self._name_part(section, "catalog", ""),
            schema=self._name_part(section, "schema", prefix) or prefix + DEFAULT_SCHEMA,
            continuous=section.flag("continuous") or False,
            trigger_interval_s=self._interval(section, configuration),
            retention=retention,
            on_tie=on_tie,
            on_failing_rows=dead_letters_of(configuration, partial(self._invalid, section)),
            stop_timeout_s=self._number(section, "stop_grace_seconds", DEFAULT_STOP_TIMEOUT_S),
            development=development,
            configuration=MappingProxyType(configuration),
            spark_conf=MappingProxyType({**clusters.conf, **section.mapping("spark_conf")}),
            parameters=MappingProxyType(section.mapping("parameters")),
            libraries=tuple(libraries_of(section, self.file.name, self._problem)),
            dependencies=dependencies_of(section, self.file.name),
            event_log=event_log_of(section, self._problem),
            event_log_retention=event_log_retention_of(section, self._problem),
            maintenance=maintenance_of(section, self._problem),
            savepoints=savepoints_of(section, self._problem),
            approval=approval_of(section, self._problem),
            profile=profile,
            master=section.text("master"),
            max_parallel_flows=self._number(section, "max_parallel_flows", DEFAULT_PARALLEL_FLOWS),
            max_flow_retries=self._retries(section, 0 if development else None, configuration),
            connectors=section.texts("connectors"),
            renamed_datasets=MappingProxyType(section.section("renames").mapping("datasets")),
            renamed_flows=MappingProxyType(section.section("renames").mapping("flows")),
            paths=_absolute(section.mapping("paths"), self.file.parent),
            secrets_directory=self.file.parent / secrets if secrets else None,
            alerts=alerts_of(section, self.file.name, self._problem),
            lineage=lineage_of(section, self.file.parent, self.file.name, self._problem),
            schedules=schedules_of(section, self.file.parent, update_retries, self._problem),
            update_retries=update_retries,
            stores=stores_of(section, self.file.name, self._problem),
            catalogs=catalogs_of(section, self.file.name, self._problem),
            notices=(*notices.items(), *clusters.notices, *_vendor_confs(configuration)),
            locations=self._locations(section, clusters.lines, overrides),
        )

    def _name(self, section: Section) -> str:
        name = section.text("name")
        if name is None and "name" not in self._reported_keys():
            self._problem("SETTINGS.MISSING_KEY", section.line, key="name")
        elif name is not None and not name.strip():
            self._invalid(section, "name", "it is empty", "Name the pipeline.")
        return name or ""

    def _reported_keys(self) -> set[str]:
        """Keys that already have a problem, so that an invalid value is not reported as missing."""
        return {error.params.get("key", "") for error in self.problems if error.code != "SETTINGS.UNKNOWN_KEY"}

    def _name_part(self, section: Section, key: str, prefix: str) -> str | None:
        value = section.text(key)
        try:
            if value is not None or prefix:
                part = prefix + (DEFAULT_SCHEMA if value is None else value)
                check_part(part)
                if key != "catalog":
                    check_in_catalog(part)
        except InvalidName as invalid:
            self._invalid(section, key, str(invalid), "Use letters, digits and underscores.")
            return None
        return None if value is None else prefix + value

    def _storage(self, section: Section) -> str:
        location = self._location(section.line_of("storage"))
        value = section.text("storage")
        try:
            return resolve_storage(
                DEFAULT_STORAGE if value is None else value,
                self.file.parent,
                allow_untried=bool(section.flag("allow_untried_storage")),
                location=location,
            )
        except PipelineError as error:
            self.problems.append(error)
            return ""

    def _root_path(self, section: Section) -> Path:
        value = section.text("root_path")
        folder = self.file.parent / (value or ".")
        if not folder.is_dir():
            self._invalid(
                section, "root_path", "the folder does not exist", "Name a folder relative to the settings file."
            )
        return folder.absolute()

    def _number(self, section: Section, key: str, default: int) -> int:
        value, least = section.number(key), keys_below("")[key].least
        if value is not None and least is not None and value < least:
            self._invalid(section, key, f"it is less than {least}", f"Write {least} or more.")
        return default if value is None else value

    def _retries(self, section: Section, default: int | None, configuration: Mapping[str, str]) -> int | None:
        if section.number("max_flow_retries") is not None:
            return self._number(section, "max_flow_retries", 0)
        written = configuration.get(RETRIES_KEY)
        if written is None:
            return default
        if not WHOLE.fullmatch(written):
            key = f"configuration.{RETRIES_KEY}"
            self._invalid(section, key, "it is not a whole number", "Write 0 or more.")
            return default
        return int(written)

    def _interval(self, section: Section, configuration: Mapping[str, str]) -> float | None:
        written = configuration.get(INTERVAL_KEY)
        try:
            return None if written is None else parse_interval_s(written)
        except InvalidInterval as invalid:
            self._invalid(section, f"configuration.{INTERVAL_KEY}", str(invalid), 'Write it as "10 seconds".')
            return None

    def _locations(
        self, section: Section, clusters: Mapping[str, int], overrides: Mapping[str, str]
    ) -> Mapping[str, Location]:
        lines = {f"spark_conf.{key}": line for key, line in clusters.items()}
        lines.update({key: line for key, line in section.lines.items() if "." in key})
        given = {f"configuration.{key}" for key in overrides}
        return MappingProxyType({key: self._location(line) for key, line in lines.items() if key not in given})

    def _invalid(self, section: Section, key: str, reason: str, fix: str) -> None:
        self._problem("SETTINGS.WRONG_VALUE", section.line_of(key), key=key, reason=reason, instead=fix)

    def _problem(self, code: str, line: int, **params: Any) -> None:
        self.problems.append(PipelineError(code, location=self._location(line), **params))

    def _location(self, line: int) -> Location:
        return Location(self.file.name, line)


def _configuration(
    section: Section, overrides: Mapping[str, str], wrong: Callable[[str, str, str], None]
) -> dict[str, str]:
    """The entries of ``configuration``, overridden by those of the command line."""
    found: dict[str, str] = {}
    for given in (section.mapping("configuration"), overrides):
        for key, reason, fix in invalid_keys(given, KeyScope.PIPELINE):
            wrong(f"configuration.{key}", reason, fix)
        found |= normalize_keys(given)
    for key in filter(is_pipeline_key, section.mapping("spark_conf")):
        wrong(f"spark_conf.{key}", "Spark has no such setting", "Put it into configuration.")
    return found


def _vendor_confs(configuration: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for key in configuration:
        known = pipeline_key(key)
        if known is not None and known.without_effect is not None:
            yield f"configuration.{key}", known.without_effect


def _absolute(paths: Mapping[str, str], folder: Path) -> Mapping[str, str]:
    """Path prefixes and their targets; a target without a scheme is relative to *folder*."""
    return MappingProxyType(
        {prefix: target if "://" in target else str(folder / target) for prefix, target in paths.items()}
    )
