"""Every option of Auto Loader by name: used, accepted without effect, or refused with the reason.

Names and defaults are from the vendor's option pages (``cloudFiles``, and the options of each format).
``docs/reference/auto-loader.md`` is generated from this table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from headrace.autoloader.globs import name_pattern
from headrace.autoloader.reading.avro.avro_schema import check_avro_schema
from headrace.autoloader.reading.conversion.converters import PATTERNS
from headrace.autoloader.reading.conversion.datetime_patterns import date_pattern
from headrace.model.ddl import parse_named_types
from headrace.model.time_zones import UnknownTimeZone, zone_of
from headrace.options.option import Kind, Option, OptionErrors, OptionTable, Treatment, accepted, refused

PREFIX = "cloudFiles."


def _checked(check: Callable[[str], object]) -> Callable[[str], str]:
    """A parser that returns the text, if *check* raises no error."""

    def parse(text: str) -> str:
        check(text)
        return text

    return parse


def _check_zone(text: str) -> None:
    try:
        zone_of(text)
    except UnknownTimeZone:
        raise ValueError("use a zone such as Europe/Berlin, or an offset such as +02:00") from None


def _check_encoding(text: str) -> None:
    try:
        "".encode(text)
    except LookupError as error:
        raise ValueError("unknown encoding") from error


_PARSERS: Mapping[str, Callable[[str], Any]] = {
    PREFIX + "schemaHints": parse_named_types,
    "pathGlobFilter": _checked(name_pattern),
    "fileNamePattern": _checked(name_pattern),
    "ignoredPathSegmentRegex": _checked(re.compile),
    "avroSchema": _checked(check_avro_schema),
    **{name: _checked(date_pattern) for name in PATTERNS.values()},
    "timeZone": _checked(_check_zone),
    "encoding": _checked(_check_encoding),
    "charset": _checked(_check_encoding),
    # Parsed once the time zone is known.
    "modifiedAfter": str,
    "modifiedBefore": str,
}


def _used(name: str, kind: Kind, about: str, default: str = "", *values: str) -> Option:
    return _generic(PREFIX + name, kind, about, default, *values)


def _ignored(name: str, about: str) -> Option:
    return accepted(PREFIX + name, about)


def _refused(name: str, why: str, fix: str) -> Option:
    return refused(PREFIX + name, why, fix)


def _generic(name: str, kind: Kind, about: str, default: str = "", *values: str) -> Option:
    return Option(name, kind, about, default, values=values, parse=_PARSERS.get(name))


def _unsupported(name: str, why: str, fix: str, *formats: str) -> Option:
    return Option(name, Kind.TEXT, why, treatment=Treatment.REFUSED, fix=fix, formats=formats)


def _of_format(name: str, kind: Kind, about: str, default: str, *formats: str) -> Option:
    return Option(name, kind, about, default, formats=formats, parse=_PARSERS.get(name))


# Options whose value is a path, to which the path mapping applies.
PATH_OPTIONS = (
    PREFIX + "schemaLocation",
    PREFIX + "cleanSource.moveDestination",
    "badRecordsPath",
    "headrace.ledgerLocation",
)
FORMATS = ("avro", "binaryFile", "csv", "json", "orc", "parquet", "text", "xml")
EVOLUTION_MODES = ("addNewColumns", "addNewColumnsWithTypeWidening", "rescue", "failOnNewColumns", "none")

_QUEUES = "Only Amazon SQS queues are supported"
_NO_QUEUE = "Remove the option"
_KEYS = "Credentials cannot be options of a stream"
_FROM_ENVIRONMENT = "Remove it; credentials come from the environment, a profile or a role"
_CLOUD_SETUP = "Headrace does not set up notifications in your cloud account"

_OPTIONS = (
    _used("format", Kind.TEXT, "Format of the files", "", *FORMATS),
    _used("schemaLocation", Kind.TEXT, "Folder for the schema versions and the ledger"),
    _used("schemaEvolutionMode", Kind.TEXT, "What happens to a column that is not in the schema", "", *EVOLUTION_MODES),
    _used("schemaHints", Kind.TEXT, "Types for inferred columns and nested fields"),
    _used(
        "inferColumnTypes", Kind.BOOLEAN, "Infer types for JSON, CSV and XML. Otherwise all columns are text", "false"
    ),
    _used("rescuedDataColumn", Kind.TEXT, "Alias of `rescuedDataColumn`", "_rescued_data"),
    _used("includeExistingFiles", Kind.BOOLEAN, "Read files that exist at the first start", "true"),
    _used("allowOverwrites", Kind.BOOLEAN, "Read a file again, as a whole, if its time or size has changed", "false"),
    _used("maxFilesPerTrigger", Kind.POSITIVE_INTEGER, "Maximum number of files per batch", "1000"),
    _used("maxBytesPerTrigger", Kind.BYTES, "Soft limit of bytes per batch. The file that reaches it is included"),
    _used(
        "maxFileAge",
        Kind.INTERVAL,
        "Do not read files older than this, and remove them from the ledger; at least 14 days",
    ),
    _used("partitionColumns", Kind.TEXT, "Columns from `key=value` folders; empty for none", "all `key=value` folders"),
    _used(
        "backfillInterval", Kind.INTERVAL, "How often to list all folders, also those with an unchanged time", "1 day"
    ),
    _used("validateOptions", Kind.BOOLEAN, "Refuse unknown options", "true"),
    _used("cleanSource", Kind.TEXT, "What happens to files after they are committed", "OFF", "OFF", "DELETE", "MOVE"),
    _used("cleanSource.retentionDuration", Kind.INTERVAL, "Time from the commit to the deletion or move", "30 days"),
    _used("cleanSource.moveDestination", Kind.TEXT, "Folder for MOVE; outside of the source"),
    _ignored("useStrictGlobber", "Patterns always work as in Spark"),
    _ignored("useIncrementalListing", "Listing cost is always proportional to the number of changed folders"),
    _used(
        "useNotifications",
        Kind.BOOLEAN,
        "Use notifications instead of listing: from the kernel for a local disk, from an SQS queue for S3",
        "false",
    ),
    _used("queueUrl", Kind.TEXT, "SQS queue that gets the bucket's notifications"),
    _used("region", Kind.TEXT, "Region of the queue", "from `queueUrl` or `AWS_REGION`"),
    _ignored("listOnStart", "There is no event cache"),
    _ignored("fetchParallelism", "The queue is not read in parallel"),
    _refused("useManagedFileEvents", "It is a Databricks service", _NO_QUEUE),
    *(_refused(name, _QUEUES, _NO_QUEUE) for name in ("queueName", "subscription")),
    _refused("pathRewrites", "Files are read from the paths in the notifications", "Map paths with the setting paths"),
    *(
        _refused(name, _CLOUD_SETUP, _NO_QUEUE)
        for name in ("restrictNotificationSetupToSameAWSAccountId", "resourceTag.*")
    ),
    *(_refused(name, _CLOUD_SETUP, _NO_QUEUE) for name in ("resourceGroup", "subscriptionId", "tenantId", "projectId")),
    *(
        _refused(name, _KEYS, _FROM_ENVIRONMENT)
        for name in (
            *("awsAccessKey", "awsSecretKey", "roleArn", "roleExternalId", "roleSessionName", "stsEndpoint"),
            *("clientId", "clientSecret", "connectionString", "client", "clientEmail", "privateKey", "privateKeyId"),
        )
    ),
    _generic("rescuedDataColumn", Kind.TEXT, "Column for data that does not fit the schema", "_rescued_data"),
    _generic("columnNameOfCorruptRecord", Kind.TEXT, "Column for records that cannot be read, if the schema has it"),
    _generic("pathGlobFilter", Kind.TEXT, "Read only files whose names match this pattern"),
    _generic("fileNamePattern", Kind.TEXT, "Alias of `pathGlobFilter`"),
    _generic(
        "recursiveFileLookup",
        Kind.BOOLEAN,
        "Read all subfolders, and take no columns from `key=value` folders",
        "false",
    ),
    _generic(
        "modifiedAfter",
        Kind.TIME,
        "Read only files modified after this time. Without a zone, the time is in `timeZone`",
    ),
    _generic(
        "modifiedBefore",
        Kind.TIME,
        "Read only files modified before this time. Without a zone, the time is in `timeZone`",
    ),
    _generic(
        "ignoredPathSegmentRegex",
        Kind.TEXT,
        "Ignore files and folders whose names begin with a match of this pattern",
        "[._]",
    ),
    _generic("ignoreMissingFiles", Kind.BOOLEAN, "Skip files that were deleted before they are read", "false"),
    _generic("ignoreCorruptFiles", Kind.BOOLEAN, "Skip files that cannot be read at all", "false"),
    _generic("readerCaseSensitive", Kind.BOOLEAN, "Treat names that differ only in case as different fields", "true"),
    Option(
        "mode",
        Kind.TEXT,
        "What happens to records that cannot be read. Without a rescued data column, records with a value that does not"
        " fit count as such",
        "PERMISSIVE; for Avro FAILFAST, the only mode",
        formats=("avro", "csv", "json", "xml"),
        values=("PERMISSIVE", "DROPMALFORMED", "FAILFAST"),
    ),
    _generic("timeZone", Kind.TEXT, "Time zone of times without a zone", "the session's"),
    _generic(
        "headrace.metadata", Kind.BOOLEAN, "Add the column `_metadata`. If not set, it is added if the query names it"
    ),
    _of_format(
        "headrace.maxRecordBytes",
        Kind.BYTES,
        "Maximum size of a record: a line, an XML element, a file that is one record, a decompressed Avro block. A"
        " longer record is not read; its position, size and first bytes are rescued. For Avro, the file is corrupt",
        "64m",
        *("avro", "csv", "json", "text", "xml"),
    ),
    _of_format(
        "headrace.maxExpansion",
        Kind.POSITIVE_INTEGER,
        "Maximum ratio of decompressed to compressed size. A larger file is corrupt, once it exceeds maxRecordBytes",
        "1000",
        *("avro", "csv", "json", "text", "xml"),
    ),
    _generic(
        "headrace.ledgerLocation", Kind.TEXT, "Folder of the ledger", "`schemaLocation`; without it, the session's"
    ),
    _of_format(
        "badRecordsPath",
        Kind.TEXT,
        "Folder for records and files that cannot be read. They do not become rows",
        "",
        "csv",
        "json",
        "xml",
    ),
    _of_format("singleVariantColumn", Kind.TEXT, "Read each whole record into this one VARIANT column", "", "json"),
    _of_format(
        "multiLine",
        Kind.BOOLEAN,
        "Records can span lines. CSV: in quoted values. JSON: a file can hold several records, one after the other",
        "false",
        *("json", "csv"),
    ),
    _of_format("encoding", Kind.TEXT, "Encoding of the files", "UTF-8", "json", "csv", "text", "xml"),
    _of_format("charset", Kind.TEXT, "Alias of `encoding`", "UTF-8", "json", "csv", "text", "xml"),
    _of_format("dateFormat", Kind.TEXT, "Pattern of dates", "as in CAST", "json", "csv", "xml"),
    _of_format("timestampFormat", Kind.TEXT, "Pattern of times", "as in CAST", "json", "csv", "xml"),
    _of_format("timestampNTZFormat", Kind.TEXT, "Pattern of times without a zone", "as in CAST", "json", "csv", "xml"),
    _of_format("inferTimestamp", Kind.BOOLEAN, "Infer timestamps from strings", "false", "json"),
    _of_format(
        "prefersDecimal",
        Kind.BOOLEAN,
        "Infer decimals, not doubles, from numbers with a decimal point",
        "false",
        "json",
        "xml",
    ),
    _of_format("preferDate", Kind.BOOLEAN, "Infer dates, not timestamps, from days", "true", "csv", "xml"),
    _of_format("primitivesAsString", Kind.BOOLEAN, "The same as `cloudFiles.inferColumnTypes` `false`", "", "json"),
    _of_format("allowSingleQuotes", Kind.BOOLEAN, "Allow strings in single quotes", "true", "json"),
    _of_format("allowUnquotedFieldNames", Kind.BOOLEAN, "Allow field names without quotes", "false", "json"),
    _of_format("allowComments", Kind.BOOLEAN, "Allow comments", "false", "json"),
    _of_format("allowNumericLeadingZeros", Kind.BOOLEAN, "Allow leading zeros in numbers", "false", "json"),
    _of_format("allowNonNumericNumbers", Kind.BOOLEAN, "Allow NaN and Infinity as numbers", "true", "json"),
    _of_format(
        "allowBackslashEscapingAnyCharacter", Kind.BOOLEAN, "Allow a backslash before any character", "false", "json"
    ),
    _of_format("allowUnquotedControlChars", Kind.BOOLEAN, "Allow control characters in strings", "false", "json"),
    _of_format("header", Kind.BOOLEAN, "The first line has the column names", "true if the schema is inferred", "csv"),
    _of_format("sep", Kind.TEXT, "Separator between values", ",", "csv"),
    _of_format("delimiter", Kind.TEXT, "Alias of `sep`", ",", "csv"),
    _of_format("quote", Kind.TEXT, "Quote character", '"', "csv"),
    _of_format("escape", Kind.TEXT, "Escape character for quotes inside quoted values", "\\", "csv"),
    _of_format("nullValue", Kind.TEXT, "String that means NULL", "the empty value", "csv", "xml"),
    _of_format("comment", Kind.TEXT, "Character that begins a comment line", "", "csv"),
    _of_format("skipRows", Kind.NATURAL, "Number of lines to skip at the start of a file", "0", "csv"),
    _of_format("ignoreLeadingWhiteSpace", Kind.BOOLEAN, "Trim leading spaces of values", "false", "csv"),
    _of_format("ignoreTrailingWhiteSpace", Kind.BOOLEAN, "Trim trailing spaces of values", "false", "csv"),
    _of_format("wholeText", Kind.BOOLEAN, "Read each file as one row", "false", "text"),
    _of_format("lineSep", Kind.TEXT, "Line separator", "\\r, \\r\\n and \\n", "text"),
    _of_format("rowTag", Kind.TEXT, "Name of the elements that are rows; required", "", "xml"),
    _of_format("attributePrefix", Kind.TEXT, "Prefix for the names of attributes", "_", "xml"),
    _of_format("valueTag", Kind.TEXT, "Column name for text next to attributes or elements", "_VALUE", "xml"),
    _of_format("excludeAttribute", Kind.BOOLEAN, "Ignore attributes", "false", "xml"),
    _of_format("ignoreSurroundingSpaces", Kind.BOOLEAN, "Trim spaces around values", "true", "xml"),
    _of_format(
        "ignoreNamespace", Kind.BOOLEAN, "Remove the namespace prefix (before the colon) from names", "false", "xml"
    ),
    Option(
        "locale",
        Kind.TEXT,
        "Language of month names; only English is supported",
        "en-US",
        formats=("csv", "json", "xml"),
        values=("en-US",),
    ),
    Option(
        "inferSchema",
        Kind.TEXT,
        "Use cloudFiles.inferColumnTypes; it alone controls type inference",
        treatment=Treatment.ACCEPTED,
        formats=("csv", "json", "xml"),
    ),
    _unsupported(
        "samplingRatio", "The newest files are sampled, up to a number and size", "Remove it", "csv", "json", "xml"
    ),
    _unsupported("dropFieldIfAllNull", "A column with only NULLs is text", "Drop the column in the query", "json"),
    _unsupported("enforceSchema", "Columns are matched by the names in the first line", "Remove it", "csv"),
    _unsupported(
        "emptyValue",
        "An empty quoted value is NULL, or the empty string if nullValue is set",
        "Use coalesce in the query",
        "csv",
    ),
    *(
        _unsupported(name, "Numbers are read only in Spark's notation", "Read the column as STRING", "csv")
        for name in ("nanValue", "positiveInf", "negativeInf")
    ),
    *(_unsupported(name, "There is no limit", "Remove it", "csv") for name in ("maxColumns", "maxCharsPerColumn")),
    _unsupported("unescapedQuoteHandling", "Only the default STOP_AT_DELIMITER is supported", "Remove it", "csv"),
    _unsupported("charToEscapeQuoteEscaping", "The escape character escapes itself", "Remove it", "csv"),
    _unsupported("parserCaseSensitive", "Its name here is readerCaseSensitive", "Use readerCaseSensitive", "csv"),
    _unsupported(
        "rowValidationXSDPath", "Rows are not validated against an XSD", "Check the columns with expectations", "xml"
    ),
    _unsupported(
        "wildcardColName", "Elements that are not in the schema are rescued", "Read the rescued data column", "xml"
    ),
    _of_format("avroSchema", Kind.TEXT, "Columns, as an Avro schema in JSON", "from the files", "avro"),
    Option(
        "ignoreExtension",
        Kind.TEXT,
        "Files are read whatever their extension; only `true` is supported",
        "true",
        formats=("avro",),
        values=("true",),
    ),
    Option(
        "datetimeRebaseMode",
        Kind.TEXT,
        "Dates and times are read unchanged, also before 1582",
        "CORRECTED",
        formats=("avro", "parquet"),
        values=("CORRECTED",),
    ),
    _unsupported(
        "recursiveFieldMaxDepth", "Recursive schemas are not supported", "Use a schema without recursion", "avro"
    ),
    _unsupported("avroSchemaUrl", "Schemas are not downloaded", "Put the schema itself into avroSchema", "avro"),
    _unsupported(
        "enableStableIdentifiersForUnionType",
        "Branches of unions are named member0, member1",
        "Rename them in the query",
        "avro",
    ),
    _of_format(
        "mergeSchema",
        Kind.BOOLEAN,
        "Schemas of files are always merged if the schema is inferred",
        "true",
        "avro",
        "csv",
        "parquet",
    ),
)

OPTIONS = OptionTable(
    "cloudFiles",
    _OPTIONS,
    "docs/reference/auto-loader.md",
    errors=OptionErrors(
        "AUTO_LOADER.OPTION_UNKNOWN",
        "AUTO_LOADER.OPTION_REFUSED",
        "AUTO_LOADER.OPTION_VALUE",
        other_format="AUTO_LOADER.OPTION_OF_FORMAT",
    ),
)
