"""Options of ``format("kinesis")``, with the vendor's names and defaults, and the start position of a stream."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from headrace.errors import PipelineError
from headrace.model.ddl import JsonType, struct_of
from headrace.model.time_zones import zone_of
from headrace.options.option import Kind, Option, OptionTable, accepted, refused
from headrace.options.parse import ParsedOptions, parse_options
from headrace.options.values import time_us
from headrace.sources.kinesis_client import EXTERNAL_ID_SECRET, Access
from headrace.sources.stream_source import PreparedSource, ReadContext

COLUMNS: JsonType = struct_of(
    (
        ("partitionKey", "string"),
        ("data", "binary"),
        ("stream", "string"),
        ("shardId", "string"),
        ("sequenceNumber", "string"),
        ("approximateArrivalTimestamp", "timestamp"),
    )
)
# Positions in a shard: its beginning, a time in milliseconds since 1970, or after a record.
BEGINNING, AT, AFTER = "TRIM_HORIZON", "AT:", "AFTER:"
LATEST = "LATEST"
_WORDS = {"latest": LATEST, "trim_horizon": BEGINNING, "earliest": BEGINNING}
_BUFFER = "Records are fetched when a batch is planned, without prefetching and coalescing"
_TASKS = "Each shard is one task"
_EFO = "Enhanced fan-out is not supported, only polling"
_POLL = "Remove it; consumerMode is always polling"

FORMAT = OptionTable(
    "kinesis",
    (
        Option("streamName", Kind.TEXT, "Names of the streams, separated by commas", required=True),
        Option("region", Kind.TEXT, "AWS region of the streams", "from the environment"),
        Option("endpoint", Kind.TEXT, "URL of the service, if it is not the default of the region"),
        Option(
            "initialPosition",
            Kind.TEXT,
            'Start of a new stream: `latest`, `trim_horizon`, `earliest`, `{"at_timestamp": "...", "format": "..."}`',
            "latest",
        ),
        Option(
            "maxRecordsPerFetch",
            Kind.POSITIVE_INTEGER,
            "Maximum number of records per request; at most 10,000",
            "10000",
        ),
        Option(
            "maxFetchRate",
            Kind.NUMBER,
            "A batch reads up to `maxFetchRate` MB times the seconds of `maxFetchDuration` from each shard",
            "1.0",
        ),
        Option("maxFetchDuration", Kind.INTERVAL, "Maximum time to read a shard for a batch", "10 s"),
        Option(
            "minFetchPeriod",
            Kind.INTERVAL,
            "Minimum time between two requests to a shard while a batch is planned",
            "400 ms",
        ),
        Option("shardFetchInterval", Kind.INTERVAL, "How often to check for new shards", "1 s"),
        Option(
            "awsAccessKey",
            Kind.SECRET,
            "Access key; needs `awsSecretKey`. Without keys, the credentials of the environment are used",
        ),
        Option("awsSecretKey", Kind.SECRET, "Secret key; needs `awsAccessKey`"),
        Option("awsSessionToken", Kind.SECRET, "Session token of temporary keys"),
        Option("roleArn", Kind.TEXT, "ARN of a role to assume"),
        Option("roleExternalId", Kind.SECRET, "External ID for the role"),
        Option("roleSessionName", Kind.TEXT, "Session name for the role", "headrace"),
        Option("stsEndpoint", Kind.TEXT, "URL of the AWS Security Token Service (STS)"),
        Option(
            "consumerMode", Kind.TEXT, "How records are read. Only polling is supported", "polling", values=("polling",)
        ),
        accepted("fetchBufferSize", _BUFFER),
        accepted("shardsPerTask", _TASKS),
        accepted("coalesceThresholdBlockSize", _BUFFER),
        accepted("coalesceBinSize", _BUFFER),
        accepted("coalesce", _BUFFER),
        *(
            refused(name, _EFO, _POLL)
            for name in (
                *("consumerName", "consumerNamePrefix", "requireConsumerDeregistration", "registeredConsumerId"),
                *("registeredConsumerIdType", "deregisterConsumerTimeoutInterval", "registerConsumerTimeoutInterval"),
            )
        ),
        refused("serviceCredential", "It is a Databricks service", "Use roleArn, or the environment's credentials"),
        refused("streamARN", "Streams are read by name", "Use streamName, and roleArn for another account"),
    ),
)
_MAX_RECORDS = 10_000
# Secret options, and the names under which the workers get them.
_SECRETS = {name: name for name in ("awsAccessKey", "awsSecretKey", "awsSessionToken")}
_SECRETS["roleExternalId"] = EXTERNAL_ID_SECRET
# The parts of a time pattern, in Java's letters.
_PATTERN = re.compile(r"yyyy|MM|dd|HH|mm|ss|S+|[Zz]+|'[^']*'|[^A-Za-z']")
_LETTERS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S"}
_VENDOR_FORMAT = "MM/dd/yyyy HH:mm:ss ZZZ"


def prepare_kinesis(given: Mapping[str, Any], schema: JsonType | None, context: ReadContext) -> PreparedSource:
    """Prepare a reader, without a request to the service.

    Raises:
        Problems: options that are wrong.
        PipelineError: ``SOURCE.SCHEMA_GIVEN``.
    """
    if schema is not None:
        raise PipelineError("SOURCE.SCHEMA_GIVEN", format=FORMAT.name)
    parsed = parse_options(FORMAT, given, time_zone=context.time_zone)
    streams = [name.strip() for name in parsed.get("streamName", "").split(",") if name.strip()]
    position = _position(parsed, context.time_zone)
    if not context.is_streaming and position == LATEST:
        # A batch that starts at the end has no records.
        position = BEGINNING
    if parsed.get("maxRecordsPerFetch", 1) > _MAX_RECORDS:
        parsed.reject("maxRecordsPerFetch", "use at most 10,000, the limit of the service")
    if "streamName" in parsed.values and not streams:
        parsed.reject("streamName", "name at least one stream")
    if ("awsAccessKey" in parsed.values) != ("awsSecretKey" in parsed.values):
        missing = "awsSecretKey" if "awsAccessKey" in parsed.values else "awsAccessKey"
        parsed.add_problem("SOURCE.OPTION_MISSING", option=missing, about="Set both keys or none")
    parsed.check()
    access = Access(
        region=parsed.get("region"),
        url=parsed.get("endpoint"),
        role=parsed.get("roleArn"),
        role_session=parsed.get("roleSessionName", "headrace"),
        role_url=parsed.get("stsEndpoint"),
    )
    settings = {
        "streams": streams,
        "position": position,
        "access": {name: value for name, value in asdict(access).items() if name != "secrets"},
        "fetch_records": parsed.get("maxRecordsPerFetch", _MAX_RECORDS),
        "fetch_bytes": int(parsed.get("maxFetchRate", 1.0) * 1_000_000 * parsed.get("maxFetchDuration", 10.0)),
        "fetch_s": parsed.get("maxFetchDuration", 10.0),
        "period_s": parsed.get("minFetchPeriod", 0.4),
        "look_s": parsed.get("shardFetchInterval", 1.0),
    }
    secrets = {travelling: parsed.values[name] for name, travelling in _SECRETS.items() if name in parsed.values}
    description = f"kinesis {', '.join(streams)}"
    return PreparedSource(FORMAT.name, description, COLUMNS, settings, secrets, parsed.without_effect())


def _position(parsed: ParsedOptions, zone: str) -> str:
    text = parsed.get("initialPosition", "latest").strip()
    if text.casefold() in _WORDS:
        return _WORDS[text.casefold()]
    try:
        document = json.loads(text)
    except json.JSONDecodeError:
        document = None
    if not isinstance(document, dict) or not {"at_timestamp"} <= set(document) <= {"at_timestamp", "format"}:
        parsed.reject(
            "initialPosition", 'use latest, trim_horizon, earliest, or {"at_timestamp": "...", "format": "..."}'
        )
        return BEGINNING
    try:
        return f"{AT}{_moment_ms(str(document['at_timestamp']), document.get('format'), zone)}"
    except ValueError as error:
        parsed.reject("initialPosition", str(error))
        return BEGINNING


def _moment_ms(text: str, pattern: str | None, zone: str) -> int:
    if pattern is None:
        try:
            return time_us(text, zone) // 1000
        except ValueError:
            pattern = _VENDOR_FORMAT
    letters = _PATTERN.findall(pattern)
    if "".join(letters) != pattern:
        raise ValueError(f'the format "{pattern}" has unsupported letters; use only yyyy MM dd HH mm ss S Z')
    zone_info: tzinfo = zone_of(zone)
    if letters and letters[-1][0] in "Zz":
        letters.pop()
        text, _, name = text.strip().rpartition(" ")
        if not text:
            raise ValueError("write the time, a space, and then the zone")
        zone_info = _zone(name)
    directives = "".join(_directive(part) for part in letters).strip()
    moment = datetime.strptime(text.strip(), directives)  # noqa: DTZ007 - the zone is put in below
    since = moment.replace(tzinfo=zone_info) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(milliseconds=1)


def _directive(part: str) -> str:
    if part in _LETTERS:
        return _LETTERS[part]
    if part.startswith("S"):
        return "%f"
    return part.strip("'").replace("%", "%%")


def _zone(name: str) -> Any:
    if re.fullmatch(r"[+-]\d\d:?\d\d", name):
        minutes = int(name[1:3]) * 60 + int(name[-2:])
        return timezone(timedelta(minutes=minutes if name[0] == "+" else -minutes))
    try:
        return UTC if name in ("Z", "UTC", "GMT") else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError):
        raise ValueError(f'unknown time zone "{name}"; use UTC, +hh:mm or a name such as Europe/Paris') from None
