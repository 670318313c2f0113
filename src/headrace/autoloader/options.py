"""Parse the options of a ``cloudFiles`` reader into one value, and report all problems at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.autoloader.option_table import FORMATS, OPTIONS, PREFIX
from headrace.autoloader.reading.conversion.values import TypeMismatch, parse_timestamp
from headrace.autoloader.reading.csv.lines import Dialect, InvalidDialect
from headrace.autoloader.reading.limits import RECORD_OPTION
from headrace.autoloader.reading.plan import CORRUPT
from headrace.errors import PipelineError
from headrace.model.ddl import NamedType
from headrace.model.time_zones import zone_of
from headrace.options.parse import ParsedOptions, parse_options
from headrace.options.values import text_of

RESCUED = "_rescued_data"
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

    Args:
        given: names and values; the reader itself handles ``path``.
        time_zone: of times without a zone, unless the option ``timeZone`` is set.

    Raises:
        Problems: every option that is unknown or refused, or has an invalid value.
    """
    texts = {name.casefold(): text_of(value) for name, value in given.items() if value is not None}
    strict = texts.get("cloudfiles.validateoptions", "").casefold() != "false"
    named_format = texts.get("cloudfiles.format", "")
    file_format = {known.casefold(): known for known in FORMATS}.get(named_format.casefold())
    parsed = parse_options(
        OPTIONS,
        {name: value for name, value in given.items() if name.casefold() not in ("path", "cloudfiles.format")},
        file_format=file_format or named_format.casefold(),
        ignores=lambda name: not strict and not name.casefold().startswith(PREFIX.casefold()),
    )
    if file_format is None:
        shown = f'"{named_format}"' if named_format else "not set"
        parsed.problems.insert(0, PipelineError("AUTO_LOADER.FORMAT", given=shown, formats=", ".join(FORMATS)))
    _parse_times(parsed, time_zone)
    _check_combinations(parsed, file_format)
    parsed.check()
    return _loader_options(parsed, file_format or "")


def _loader_options(parsed: ParsedOptions, file_format: str) -> LoaderOptions:
    known = {_FIELDS[name]: value for name, value in parsed.values.items() if name in _FIELDS}
    names = parsed.get(PREFIX + "partitionColumns")
    if names is not None:
        known["partition_columns"] = tuple(part.strip() for part in names.split(",") if part.strip())
    of_format = {option.name for option in OPTIONS.options if option.formats}
    return LoaderOptions(
        file_format=file_format,
        **known,
        format_options={name: text_of(value) for name, value in parsed.values.items() if name in of_format},
        ignored_options=tuple(parsed.ignored),
    )


def _parse_times(parsed: ParsedOptions, time_zone: str) -> None:
    """Convert times to nanoseconds since 1970; as in Spark, those without a zone are in timeZone or the session's."""
    # An invalid timeZone is a problem already.
    zone = zone_of(parsed.get("timeZone", time_zone if "timeZone" not in parsed.texts else "UTC"))
    for name in ("modifiedAfter", "modifiedBefore"):
        if name in parsed.values:
            try:
                since = parse_timestamp(parsed.values[name], zone) - datetime(1970, 1, 1, tzinfo=UTC)
            except TypeMismatch:
                parsed.reject(name, 'use a time, such as "2026-01-31T12:00:00+02:00"')
            else:
                parsed.values[name] = since // timedelta(microseconds=1) * 1000


def _check_combinations(parsed: ParsedOptions, file_format: str | None) -> None:
    values = parsed.values
    if 0 < values.get(PREFIX + "maxFileAge", _LEAST_AGE_S) < _LEAST_AGE_S:
        parsed.reject(PREFIX + "maxFileAge", "use at least 14 days; otherwise, files would be forgotten and read again")
    action = values.get(PREFIX + "cleanSource", "OFF")
    retention_s = values.get(PREFIX + "cleanSource.retentionDuration")
    if action == "DELETE" and retention_s is not None and retention_s < _LEAST_RETENTION_S:
        parsed.reject(PREFIX + "cleanSource.retentionDuration", "with DELETE, use at least 7 days")
    _check_format(parsed, file_format)
    if action == "MOVE" and not values.get(PREFIX + "cleanSource.moveDestination"):
        parsed.reject(PREFIX + "cleanSource", "MOVE needs cloudFiles.cleanSource.moveDestination")
    if PREFIX + "queueUrl" in values and not values.get(PREFIX + "useNotifications"):
        parsed.reject(PREFIX + "queueUrl", "it needs cloudFiles.useNotifications")


def _check_format(parsed: ParsedOptions, file_format: str | None) -> None:
    mode = parsed.get(PREFIX + "schemaEvolutionMode")
    if file_format == "orc" and mode in ("addNewColumns", "addNewColumnsWithTypeWidening"):
        parsed.reject(PREFIX + "schemaEvolutionMode", "ORC schemas are not inferred and cannot evolve")
    if file_format == "avro" and parsed.get("mode", "FAILFAST") != "FAILFAST":
        parsed.reject("mode", "the record after a corrupt Avro record cannot be found")
    if file_format == "xml":
        _check_xml(parsed)
    if file_format == "csv":
        try:
            Dialect.of(parsed.texts)
        except InvalidDialect as error:
            parsed.reject(next((name for name in _DIALECT if name in parsed.values), "sep"), str(error))
    if parsed.get("lineSep") == "":
        parsed.reject("lineSep", "it must not be empty")
    if parsed.get(RECORD_OPTION) == 0:
        parsed.reject(RECORD_OPTION, "use a number of bytes above 0")


def _check_xml(parsed: ParsedOptions) -> None:
    prefix, text = parsed.get("attributePrefix", "_"), parsed.get("valueTag", "_VALUE")
    if not re.fullmatch(r"[^\s<>/&'\"]+", parsed.get("rowTag", "")):
        parsed.reject("rowTag", "use the name of the row element, without brackets")
    if not text or text == prefix:
        parsed.reject("valueTag", "use a name that differs from attributePrefix")


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


def options_without_effect(options: LoaderOptions) -> Iterator[tuple[str, str]]:
    """Options that were given and have no effect, each with the reason."""
    return ((name, option.about) for name in options.ignored_options if (option := OPTIONS.option(name)))


def function_options(given: Mapping[str, str]) -> dict[str, str]:
    """Convert arguments of ``read_files`` to reader options: names get the prefix, and types are inferred."""
    options = {PREFIX + "inferColumnTypes": "true"}
    for name, value in given.items():
        prefixed = OPTIONS.option(PREFIX + name)
        options[name if prefixed is None else prefixed.name] = value
    return options
