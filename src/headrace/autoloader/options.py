"""Parse the options of a ``cloudFiles`` reader into one value, and report all problems at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.autoloader.ddl import InvalidDdl, NamedType, parse_named_types
from headrace.autoloader.globs import InvalidGlob, name_pattern
from headrace.autoloader.option_table import FORMATS, OPTIONS, PREFIX, Kind, Option
from headrace.autoloader.reading.avro.avro_schema import check_avro_schema
from headrace.autoloader.reading.conversion.converters import PATTERNS
from headrace.autoloader.reading.conversion.datetime_patterns import date_pattern
from headrace.autoloader.reading.conversion.values import TypeMismatch, parse_timestamp, zone_of
from headrace.autoloader.reading.csv.lines import Dialect, InvalidDialect
from headrace.autoloader.reading.limits import EXPANSION_OPTION, RECORD_OPTION
from headrace.autoloader.reading.plan import CORRUPT
from headrace.errors import PipelineError, Problems
from headrace.model.triggers import InvalidInterval, parse_interval_s
from headrace.settings.check import nearest
from headrace.settings.keys import Treatment

RESCUED = "_rescued_data"
_BYTES = re.compile(r"(\d+)\s*([kmgtp]?)i?b?", re.IGNORECASE)
_POWERS = {unit: 1024**power for power, unit in enumerate(("", "k", "m", "g", "t", "p"))}
_SWITCHES = {"true": True, "false": False}
_LEAST_AGE_S = 14 * 86400.0
_LEAST_RETENTION_S = 7 * 86400.0


@dataclass(frozen=True)
class LoaderOptions:
    """The checked options of a reader.

    Attributes:
        file_format: one of ``FORMATS``.
        schema_location: as given, or None.
        evolution_mode: as given, or None for the default, which depends on whether the reader has a schema.
        hints: types for columns.
        partition_columns: names, () for none, or None for all keys of the folders.
        rescued_column: as given, or None for the default, which depends on whether the reader has a schema.
        format_options: the options of the format by name, as given.
        ignored_options: names of options that were given and have no effect.
    """

    file_format: str
    schema_location: str | None = None
    ledger_location: str | None = None
    evolution_mode: str | None = None
    hints: tuple[NamedType, ...] = ()
    infer_types: bool = False
    include_existing: bool = True
    allow_overwrites: bool = False
    max_files: int = 1000
    max_bytes: int | None = None
    max_age_s: float | None = None
    partition_columns: tuple[str, ...] | None = None
    full_listing_interval_s: float = 86400.0
    clean_source: str = "OFF"
    clean_after_s: float = 30 * 86400.0
    move_to: str | None = None
    notifications: bool = False
    queue_url: str | None = None
    region: str | None = None
    rescued_column: str | None = None
    corrupt_column: str = CORRUPT
    name_glob: str | None = None
    recursive: bool = False
    after_ns: int | None = None
    before_ns: int | None = None
    ignored: str = "[._]"
    missing_files: bool = False
    corrupt_files: bool = False
    case_sensitive: bool = True
    mode: str = "PERMISSIVE"
    time_zone: str | None = None
    metadata: bool | None = None
    format_options: Mapping[str, str] = field(default_factory=dict)
    ignored_options: tuple[str, ...] = ()


def loader_options(given: Mapping[str, Any], *, time_zone: str = "UTC") -> LoaderOptions:
    """Parse a reader's options; names in any case, values as Spark takes them.

    Raises:
        Problems: every option that is unknown or refused, or has an invalid value.
    """
    return _OptionParser(given, time_zone).result()


class _OptionParser:
    """One pass over the options of a reader."""

    def __init__(self, given: Mapping[str, Any], time_zone: str) -> None:
        self._problems: list[PipelineError] = []
        self._values: dict[str, Any] = {}
        self._ignored_options: list[str] = []
        texts = {name.casefold(): (name, _to_text(value)) for name, value in given.items() if value is not None}
        self._format = self._format_of(texts.get("cloudfiles.format", ("", ""))[1])
        self._time_zone = texts.get("timezone", ("", time_zone))[1]
        strict = texts.get("cloudfiles.validateoptions", ("", "true"))[1].casefold() != "false"
        for folded, (name, text) in texts.items():
            # The reader itself handles path.
            if folded != "path":
                self._add_option(folded, name, text, strict=strict)

    def result(self) -> LoaderOptions:
        values = self._values
        self._check_combinations()
        if self._problems:
            raise Problems(self._problems)
        names = values.get(PREFIX + "partitionColumns")
        known = {_FIELDS[name]: value for name, value in values.items() if name in _FIELDS}
        if names is not None:
            known["partition_columns"] = tuple(part.strip() for part in names.split(",") if part.strip())
        return LoaderOptions(
            file_format=self._format,
            **known,
            format_options={name: value for name, value in values.items() if OPTIONS[name.casefold()].formats},
            ignored_options=tuple(self._ignored_options),
        )

    def _format_of(self, text: str) -> str:
        found = {known.casefold(): known for known in FORMATS}.get(text.casefold())
        if found is None:
            self._add_problem(
                "AUTO_LOADER.FORMAT", given=f'"{text}"' if text else "not set", formats=", ".join(FORMATS)
            )
        return found or text.casefold()

    def _add_option(self, folded: str, name: str, text: str, *, strict: bool) -> None:
        option = OPTIONS.get(folded)
        if option is None and folded.startswith("cloudfiles.resourcetag."):
            option = OPTIONS["cloudfiles.resourcetag"]
        if option is None:
            if strict or folded.startswith("cloudfiles."):
                close = nearest(name, [known.name for known in OPTIONS.values()])
                self._add_problem("AUTO_LOADER.OPTION_UNKNOWN", option=name, near=close or "none")
        elif option.treatment is Treatment.REFUSED:
            self._add_problem("AUTO_LOADER.OPTION_REFUSED", option=name, reason=option.about, instead=option.fix)
        elif option.formats and self._format not in option.formats:
            formats = " and ".join(option.formats)
            self._add_problem("AUTO_LOADER.OPTION_OF_FORMAT", option=name, formats=formats, format=self._format)
        elif option.treatment is Treatment.ACCEPTED:
            self._ignored_options.append(option.name)
        else:
            self._parse_option(option, text)

    def _parse_option(self, option: Option, text: str) -> None:
        try:
            self._values[option.name] = self._value(option, text)
        except (InvalidDdl, InvalidGlob, InvalidInterval, ValueError, re.error) as error:
            self._add_problem("AUTO_LOADER.OPTION_VALUE", option=option.name, value=text, reason=str(error))

    def _value(self, option: Option, text: str) -> Any:
        if option.values and option.name != PREFIX + "format":
            chosen = {value.casefold(): value for value in option.values}.get(text.casefold())
            if chosen is None:
                raise ValueError(f"use one of {', '.join(option.values)}")
            return chosen
        if option.name == PREFIX + "schemaHints":
            return parse_named_types(text)
        if option.name in ("pathGlobFilter", "fileNamePattern"):
            name_pattern(text)
        if option.name == "ignoredPathSegmentRegex":
            re.compile(text)
        if option.name == "avroSchema":
            check_avro_schema(text)
        if option.name in PATTERNS.values():
            date_pattern(text)
        if option.name == "timeZone":
            _check_zone(text)
        if option.name in ("encoding", "charset"):
            _check_encoding(text)
        return text if option.formats and option.kind is Kind.TEXT else self._parse_value(option, text)

    def _parse_value(self, option: Option, text: str) -> Any:
        if option.kind is Kind.SWITCH:
            if text.casefold() not in _SWITCHES:
                raise ValueError("use true or false")
            return text.casefold() if option.formats else _SWITCHES[text.casefold()]
        if option.kind is Kind.NUMBER:
            if not text.strip().isdecimal() or (not option.formats and int(text) == 0):
                raise ValueError("use a whole number above 0")
            return text.strip() if option.formats else int(text)
        if option.kind is Kind.BYTES:
            match = _BYTES.fullmatch(text.strip())
            if match is None:
                raise ValueError('use a number of bytes, such as "10g"')
            count = int(match.group(1)) * _POWERS[match.group(2).casefold()]
            return str(count) if option.formats else count
        if option.kind is Kind.INTERVAL:
            return parse_interval_s(text)
        return self._time(text) if option.kind is Kind.TIME else text

    def _time(self, text: str) -> int:
        """Nanoseconds since 1970; as in Spark, a text without a zone is in timeZone or the session's time zone."""
        # An invalid zone is reported separately.
        zone = zone_of(self._time_zone) if _is_zone(self._time_zone) else UTC
        try:
            since = parse_timestamp(text, zone) - datetime(1970, 1, 1, tzinfo=UTC)
        except TypeMismatch as error:
            raise ValueError('use a time, such as "2026-01-31T12:00:00+02:00"') from error
        return since // timedelta(microseconds=1) * 1000

    def _check_combinations(self) -> None:
        values = self._values
        if 0 < values.get(PREFIX + "maxFileAge", _LEAST_AGE_S) < _LEAST_AGE_S:
            self._add_invalid(PREFIX + "maxFileAge", "use at least 14 days, or files would be forgotten and read again")
        action = values.get(PREFIX + "cleanSource", "OFF")
        retention_s = values.get(PREFIX + "cleanSource.retentionDuration")
        if action == "DELETE" and retention_s is not None and retention_s < _LEAST_RETENTION_S:
            self._add_invalid(PREFIX + "cleanSource.retentionDuration", "with DELETE, use at least 7 days")
        self._check_format()
        if action == "MOVE" and not values.get(PREFIX + "cleanSource.moveDestination"):
            self._add_invalid(PREFIX + "cleanSource", "MOVE needs cloudFiles.cleanSource.moveDestination")
        if PREFIX + "queueUrl" in values and not values.get(PREFIX + "useNotifications"):
            self._add_invalid(PREFIX + "queueUrl", "it needs cloudFiles.useNotifications")

    def _check_format(self) -> None:
        values = self._values
        mode = values.get(PREFIX + "schemaEvolutionMode")
        if self._format == "orc" and mode in ("addNewColumns", "addNewColumnsWithTypeWidening"):
            self._add_invalid(PREFIX + "schemaEvolutionMode", "ORC schemas are not inferred and cannot evolve")
        if self._format == "avro" and values.get("mode", "FAILFAST") != "FAILFAST":
            self._add_invalid("mode", "a corrupt Avro record hides where the next one starts")
        if self._format == "xml":
            self._check_xml()
        if self._format == "csv":
            try:
                Dialect.of(values)
            except InvalidDialect as error:
                named = next((name for name in _DIALECT if name in values), "sep")
                self._add_invalid(named, str(error))
        if values.get("lineSep") == "":
            self._add_invalid("lineSep", "it must not be empty")
        for name in (RECORD_OPTION, EXPANSION_OPTION):
            if values.get(name) == "0":
                self._add_invalid(name, "use a whole number above 0")

    def _check_xml(self) -> None:
        values = self._values
        tag, prefix, text = (
            values.get("rowTag", ""),
            values.get("attributePrefix", "_"),
            values.get("valueTag", "_VALUE"),
        )
        if not re.fullmatch(r"[^\s<>/&'\"]+", tag):
            self._add_invalid("rowTag", "use the name of the row element, without brackets")
        if not text or text == prefix:
            self._add_invalid("valueTag", "use a name that differs from attributePrefix")

    def _add_invalid(self, option: str, reason: str) -> None:
        self._add_problem(
            "AUTO_LOADER.OPTION_VALUE", option=option, value=_to_text(self._values.get(option, "")), reason=reason
        )

    def _add_problem(self, code: str, **params: Any) -> None:
        self._problems.append(PipelineError(code, **params))


_DIALECT = ("quote", "escape", "comment", "sep", "delimiter")
_FIELDS: Mapping[str, str] = {
    PREFIX + "schemaLocation": "schema_location",
    PREFIX + "schemaEvolutionMode": "evolution_mode",
    PREFIX + "schemaHints": "hints",
    PREFIX + "inferColumnTypes": "infer_types",
    PREFIX + "rescuedDataColumn": "rescued_column",
    PREFIX + "includeExistingFiles": "include_existing",
    PREFIX + "allowOverwrites": "allow_overwrites",
    PREFIX + "maxFilesPerTrigger": "max_files",
    PREFIX + "maxBytesPerTrigger": "max_bytes",
    PREFIX + "maxFileAge": "max_age_s",
    PREFIX + "backfillInterval": "full_listing_interval_s",
    PREFIX + "cleanSource": "clean_source",
    PREFIX + "cleanSource.retentionDuration": "clean_after_s",
    PREFIX + "cleanSource.moveDestination": "move_to",
    PREFIX + "useNotifications": "notifications",
    PREFIX + "queueUrl": "queue_url",
    PREFIX + "region": "region",
    "rescuedDataColumn": "rescued_column",
    "columnNameOfCorruptRecord": "corrupt_column",
    "pathGlobFilter": "name_glob",
    "fileNamePattern": "name_glob",
    "recursiveFileLookup": "recursive",
    "modifiedAfter": "after_ns",
    "modifiedBefore": "before_ns",
    "ignoredPathSegmentRegex": "ignored",
    "ignoreMissingFiles": "missing_files",
    "ignoreCorruptFiles": "corrupt_files",
    "readerCaseSensitive": "case_sensitive",
    "mode": "mode",
    "timeZone": "time_zone",
    "headrace.metadata": "metadata",
    "headrace.ledgerLocation": "ledger_location",
}


def _check_zone(text: str) -> None:
    if not _is_zone(text):
        raise ValueError("use a zone such as Europe/Berlin, or an offset such as +02:00")


def _is_zone(text: str) -> bool:
    try:
        zone_of(text)
    except TypeMismatch:
        return False
    return True


def _check_encoding(text: str) -> None:
    try:
        "".encode(text)
    except LookupError as error:
        raise ValueError("unknown encoding") from error


def _to_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def options_without_effect(options: LoaderOptions) -> Iterator[tuple[str, str]]:
    """Options that were given and have no effect, each with the reason."""
    return ((name, OPTIONS[name.casefold()].about) for name in options.ignored_options)


def function_options(given: Mapping[str, str]) -> dict[str, str]:
    """Convert arguments of ``read_files`` to reader options: names get the prefix, and types are inferred."""
    options = {PREFIX + "inferColumnTypes": "true"}
    for name, value in given.items():
        prefixed = OPTIONS.get(f"{PREFIX}{name}".casefold())
        options[name if prefixed is None else prefixed.name] = value
    return options
