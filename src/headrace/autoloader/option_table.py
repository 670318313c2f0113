"""Every option of Auto Loader by name: what is used, what has no effect here, and what is refused and why.

The vendor's pages of options are the source of names and defaults (``cloudFiles``, and the options of each format).
``docs/reference/auto-loader.md`` is printed from this table.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from headrace.settings.keys import Treatment

PREFIX = "cloudFiles."


class Kind(Enum):
    """What the value of an option is."""

    TEXT = "text"
    SWITCH = "true or false"
    NUMBER = "number"
    BYTES = "bytes"
    INTERVAL = "interval"
    TIME = "time"


@dataclass(frozen=True)
class Option:
    """One option; ``default`` as a person would write it, empty for none.

    ``about`` says what it does; of an option without effect, or refused, why, and ``instead`` what to do.
    """

    name: str
    kind: Kind
    about: str
    default: str = ""
    treatment: Treatment = Treatment.USED
    instead: str = ""
    formats: tuple[str, ...] = ()
    values: tuple[str, ...] = ()


def _used(name: str, kind: Kind, about: str, default: str = "", *values: str) -> Option:
    return Option(PREFIX + name, kind, about, default, values=values)


def _inert(name: str, about: str) -> Option:
    return Option(PREFIX + name, Kind.TEXT, about, treatment=Treatment.ACCEPTED)


def _refused(name: str, why: str, instead: str) -> Option:
    return Option(PREFIX + name, Kind.TEXT, why, treatment=Treatment.REFUSED, instead=instead)


def _generic(name: str, kind: Kind, about: str, default: str = "", *values: str) -> Option:
    return Option(name, kind, about, default, values=values)


def _later(name: str, why: str, instead: str, *formats: str) -> Option:
    return Option(name, Kind.TEXT, why, treatment=Treatment.REFUSED, instead=instead, formats=formats)


def _of_format(name: str, kind: Kind, about: str, default: str, *formats: str) -> Option:
    return Option(name, kind, about, default, formats=formats)


# Those that name a place, which may be written as it is called elsewhere.
PATH_OPTIONS = (
    PREFIX + "schemaLocation",
    PREFIX + "cleanSource.moveDestination",
    "badRecordsPath",
    "headrace.ledgerLocation",
)
FORMATS = ("avro", "binaryFile", "csv", "json", "orc", "parquet", "text", "xml")
EVOLUTION_MODES = ("addNewColumns", "addNewColumnsWithTypeWidening", "rescue", "failOnNewColumns", "none")

_QUEUES = "It names a queue of a cloud whose queues are not read; those of Amazon SQS are"
_NO_QUEUE = "Remove the option"
_KEYS = "Credentials do not belong in the options of a stream"
_FROM_ENVIRONMENT = "Remove it; the store's own chain of credentials (environment, profile, role) is used"
_CLOUD_SETUP = "It is for setting up notifications in your cloud account, where nothing is made for you"

_OPTIONS = (
    _used("format", Kind.TEXT, "What the files are", "", *FORMATS),
    _used("schemaLocation", Kind.TEXT, "The folder that keeps the schema's versions, and the ledger"),
    _used("schemaEvolutionMode", Kind.TEXT, "What a column that is not in the schema does", "", *EVOLUTION_MODES),
    _used("schemaHints", Kind.TEXT, "Types for columns, or places inside of them, where they are inferred"),
    _used("inferColumnTypes", Kind.SWITCH, "Whether JSON, CSV and XML get types; else all is text", "false"),
    _used("rescuedDataColumn", Kind.TEXT, "As rescuedDataColumn", "_rescued_data"),
    _used("includeExistingFiles", Kind.SWITCH, "Whether files that were there before the first start are read", "true"),
    _used("allowOverwrites", Kind.SWITCH, "Whether a file with another time or size is read again, whole", "false"),
    _used("maxFilesPerTrigger", Kind.NUMBER, "Files in a batch, at most", "1000"),
    _used("maxBytesPerTrigger", Kind.BYTES, "Bytes in a batch, at most, and then one file"),
    _used("maxFileAge", Kind.INTERVAL, "Older files are neither read nor remembered; 14 days at least"),
    _used(
        "partitionColumns", Kind.TEXT, "Columns from key=value folders; empty for none", "those that the folders have"
    ),
    _used(
        "backfillInterval", Kind.INTERVAL, "How often everything is listed, whatever the folders' times say", "1 day"
    ),
    _used("validateOptions", Kind.SWITCH, "Whether an unknown option is an error", "true"),
    _used("cleanSource", Kind.TEXT, "What becomes of files that are committed", "OFF", "OFF", "DELETE", "MOVE"),
    _used("cleanSource.retentionDuration", Kind.INTERVAL, "How long after the commit", "30 days"),
    _used("cleanSource.moveDestination", Kind.TEXT, "Where MOVE puts them; outside of the source"),
    _inert("useStrictGlobber", "Patterns are read as Spark reads them either way"),
    _inert("useIncrementalListing", "A look costs what changed, whatever the order of names"),
    _used(
        "useNotifications",
        Kind.SWITCH,
        "Whether changes are told instead of looked for: by the kernel on a local disk, by a queue of SQS for S3",
        "false",
    ),
    _used("queueUrl", Kind.TEXT, "The queue of SQS that the bucket's notifications go to"),
    _used("region", Kind.TEXT, "The queue's region", "as its address or AWS_REGION says"),
    _inert("listOnStart", "There is no cache of events to recover from"),
    _inert("fetchParallelism", "There is no queue to fetch from"),
    _refused("useManagedFileEvents", "It is a service of the vendor's cloud", _NO_QUEUE),
    *(_refused(name, _QUEUES, _NO_QUEUE) for name in ("queueName", "subscription")),
    _refused("pathRewrites", "Files are read where the queue says that they are", "Map paths with the setting paths"),
    *(
        _refused(name, _CLOUD_SETUP, _NO_QUEUE)
        for name in ("restrictNotificationSetupToSameAWSAccountId", "resourceTag")
    ),
    *(_refused(name, _CLOUD_SETUP, _NO_QUEUE) for name in ("resourceGroup", "subscriptionId", "tenantId", "projectId")),
    *(
        _refused(name, _KEYS, _FROM_ENVIRONMENT)
        for name in (
            *("awsAccessKey", "awsSecretKey", "roleArn", "roleExternalId", "roleSessionName", "stsEndpoint"),
            *("clientId", "clientSecret", "connectionString", "client", "clientEmail", "privateKey", "privateKeyId"),
        )
    ),
    _generic("rescuedDataColumn", Kind.TEXT, "The column for what the schema has no place for", "_rescued_data"),
    _generic("columnNameOfCorruptRecord", Kind.TEXT, "The column, if the schema has it, for what cannot be read"),
    _generic("pathGlobFilter", Kind.TEXT, "A pattern that the names of files match"),
    _generic("fileNamePattern", Kind.TEXT, "As pathGlobFilter"),
    _generic("recursiveFileLookup", Kind.SWITCH, "Whether folders are only folders, and give no columns", "false"),
    _generic("modifiedAfter", Kind.TIME, "Files that were changed later, alone; a time without a zone is of timeZone"),
    _generic("modifiedBefore", Kind.TIME, "Files that were changed earlier, alone; likewise"),
    _generic(
        "ignoredPathSegmentRegex", Kind.TEXT, "Names of files and folders to leave out, by how they begin", "[._]"
    ),
    _generic("ignoreMissingFiles", Kind.SWITCH, "Whether a file may go before it is read", "false"),
    _generic("ignoreCorruptFiles", Kind.SWITCH, "Whether a file that cannot be read at all is left out", "false"),
    _generic("readerCaseSensitive", Kind.SWITCH, "Whether a field of another case is another field", "true"),
    Option(
        "mode",
        Kind.TEXT,
        "What a record that cannot be read does; without a column for what is rescued, one with a misfit too",
        "PERMISSIVE; of Avro FAILFAST, which is all that it has",
        formats=("avro", "csv", "json", "xml"),
        values=("PERMISSIVE", "DROPMALFORMED", "FAILFAST"),
    ),
    _generic("timeZone", Kind.TEXT, "Where times without a zone are", "the session's"),
    _generic(
        "headrace.metadata", Kind.SWITCH, "Whether there is a column _metadata; without it, when the query names it"
    ),
    _of_format(
        "headrace.maxRecordBytes",
        Kind.BYTES,
        "How long a record may be: a line, an element of XML, a file that is one record, an unpacked block of Avro. A"
        " longer one is rescued as its place, size and beginning; of Avro, the file counts as corrupt",
        "64m",
        *("avro", "csv", "json", "text", "xml"),
    ),
    _of_format(
        "headrace.maxExpansion",
        Kind.NUMBER,
        "Into how many times its bytes a compressed file may unpack, beyond maxRecordBytes; one with more is corrupt",
        "1000",
        *("avro", "csv", "json", "text", "xml"),
    ),
    _generic("headrace.ledgerLocation", Kind.TEXT, "The folder of the ledger", "schemaLocation, else the session's"),
    _of_format(
        "badRecordsPath",
        Kind.TEXT,
        "The folder for records and files that cannot be read, which then are no rows",
        "",
        "csv",
        "json",
        "xml",
    ),
    _of_format("singleVariantColumn", Kind.TEXT, "The one column, of type VARIANT, for whole records", "", "json"),
    _of_format(
        "multiLine",
        Kind.SWITCH,
        "Whether a record may span lines: of CSV in quotes; of JSON a file may hold several, one behind the other",
        "false",
        *("json", "csv"),
    ),
    _of_format("encoding", Kind.TEXT, "The encoding of the files", "UTF-8", "json", "csv", "text", "xml"),
    _of_format("charset", Kind.TEXT, "As encoding", "UTF-8", "json", "csv", "text", "xml"),
    _of_format("dateFormat", Kind.TEXT, "The pattern of dates", "as CAST reads them", "json", "csv", "xml"),
    _of_format("timestampFormat", Kind.TEXT, "The pattern of times", "as CAST reads them", "json", "csv", "xml"),
    _of_format(
        "timestampNTZFormat", Kind.TEXT, "The pattern of times of no zone", "as CAST reads them", "json", "csv", "xml"
    ),
    _of_format("inferTimestamp", Kind.SWITCH, "Whether texts may be inferred as times", "false", "json"),
    _of_format(
        "prefersDecimal", Kind.SWITCH, "Whether numbers with a point are inferred as decimals", "false", "json", "xml"
    ),
    _of_format("preferDate", Kind.SWITCH, "Whether days are inferred as dates, not as times", "true", "csv", "xml"),
    _of_format("primitivesAsString", Kind.SWITCH, "As inferColumnTypes=false", "", "json"),
    _of_format("allowSingleQuotes", Kind.SWITCH, "Whether texts may be in single quotes", "true", "json"),
    _of_format("allowUnquotedFieldNames", Kind.SWITCH, "Whether names may be bare", "false", "json"),
    _of_format("allowComments", Kind.SWITCH, "Whether there may be comments", "false", "json"),
    _of_format("allowNumericLeadingZeros", Kind.SWITCH, "Whether numbers may begin with zeros", "false", "json"),
    _of_format("allowNonNumericNumbers", Kind.SWITCH, "Whether NaN and Infinity are numbers", "true", "json"),
    _of_format("allowBackslashEscapingAnyCharacter", Kind.SWITCH, "Whether \\x is x", "false", "json"),
    _of_format("allowUnquotedControlChars", Kind.SWITCH, "Whether texts may have control characters", "false", "json"),
    _of_format("header", Kind.SWITCH, "Whether the first line names the columns", "true when inferring", "csv"),
    _of_format("sep", Kind.TEXT, "What stands between values", ",", "csv"),
    _of_format("delimiter", Kind.TEXT, "As sep", ",", "csv"),
    _of_format("quote", Kind.TEXT, "What stands around values", '"', "csv"),
    _of_format("escape", Kind.TEXT, "What stands before a quote inside of one", "\\", "csv"),
    _of_format("nullValue", Kind.TEXT, "What stands for NULL", "nothing", "csv", "xml"),
    _of_format("comment", Kind.TEXT, "What begins a line to leave out", "", "csv"),
    _of_format("skipRows", Kind.NUMBER, "Lines to leave out at the beginning", "0", "csv"),
    _of_format("ignoreLeadingWhiteSpace", Kind.SWITCH, "Whether values lose spaces in front", "false", "csv"),
    _of_format("ignoreTrailingWhiteSpace", Kind.SWITCH, "Whether values lose spaces behind", "false", "csv"),
    _of_format("wholeText", Kind.SWITCH, "Whether a file is one row", "false", "text"),
    _of_format("lineSep", Kind.TEXT, "What ends a line", "\\r, \\r\\n and \\n", "text"),
    _of_format("rowTag", Kind.TEXT, "The name of the elements that are rows; it has to be given", "", "xml"),
    _of_format("attributePrefix", Kind.TEXT, "What the names of attributes get in front", "_", "xml"),
    _of_format("valueTag", Kind.TEXT, "The name of the text beside attributes or elements", "_VALUE", "xml"),
    _of_format("excludeAttribute", Kind.SWITCH, "Whether attributes are left out", "false", "xml"),
    _of_format("ignoreSurroundingSpaces", Kind.SWITCH, "Whether values lose spaces around them", "true", "xml"),
    _of_format("ignoreNamespace", Kind.SWITCH, "Whether names lose what is before a colon", "false", "xml"),
    Option(
        "locale", Kind.TEXT, "Names of months are English", "en-US", formats=("csv", "json", "xml"), values=("en-US",)
    ),
    Option(
        "inferSchema",
        Kind.TEXT,
        "Types are inferred where cloudFiles.inferColumnTypes says so, with the vendor too",
        treatment=Treatment.ACCEPTED,
        formats=("csv", "json", "xml"),
    ),
    _later("samplingRatio", "The newest files are read, up to a number and size", "Remove it", "csv", "json", "xml"),
    _later("dropFieldIfAllNull", "A column that has held NULL alone is text", "Leave it out in the query", "json"),
    _later("enforceSchema", "Columns are found by the names in the first line", "Remove it", "csv"),
    _later(
        "emptyValue",
        "Quotes around nothing are NULL, or empty where nullValue is set",
        "Use coalesce in the query",
        "csv",
    ),
    *(
        _later(name, "Numbers are spelled as Spark spells them", "Read the column as STRING", "csv")
        for name in ("nanValue", "positiveInf", "negativeInf")
    ),
    *(_later(name, "There is no such limit", "Remove it", "csv") for name in ("maxColumns", "maxCharsPerColumn")),
    _later("unescapedQuoteHandling", "It is as by default: STOP_AT_DELIMITER", "Remove it", "csv"),
    _later("charToEscapeQuoteEscaping", "It is the escape itself", "Remove it", "csv"),
    _later("parserCaseSensitive", "It is called otherwise", "Write readerCaseSensitive", "csv"),
    _later("rowValidationXSDPath", "Rows are not compared with an XSD", "Check the columns with expectations", "xml"),
    _later("wildcardColName", "Elements that the schema lacks are rescued", "Read the rescued data column", "xml"),
    _of_format("avroSchema", Kind.TEXT, "The columns, as a schema of Avro in JSON", "those of the files", "avro"),
    Option("ignoreExtension", Kind.TEXT, "Files of any name are read", "true", formats=("avro",), values=("true",)),
    Option(
        "datetimeRebaseMode",
        Kind.TEXT,
        "Dates and times are read as they are written, also before 1582",
        "CORRECTED",
        formats=("avro", "parquet"),
        values=("CORRECTED",),
    ),
    _later("recursiveFieldMaxDepth", "A schema that holds itself is not read to any depth", "Give the columns", "avro"),
    _later("avroSchemaUrl", "Schemas are not fetched", "Give the schema itself as avroSchema", "avro"),
    _later(
        "enableStableIdentifiersForUnionType", "Branches of unions are member0, member1", "Rename them later", "avro"
    ),
    _of_format(
        "mergeSchema",
        Kind.SWITCH,
        "Files are merged always when a schema is inferred",
        "true",
        "avro",
        "csv",
        "parquet",
    ),
)

OPTIONS: Mapping[str, Option] = {option.name.casefold(): option for option in _OPTIONS}
