"""Every key of a requirements file, as data: the parser, the reference page and the JSON schema read this table."""

from __future__ import annotations

import json
from typing import Any

from headrace.settings.json_schema import document_schema
from headrace.settings.key import DocumentErrors, Key, KeyTable, ValueType, used

_T = ValueType
_NAME = r"^[A-Za-z][A-Za-z0-9_]*$"

SOURCE_KINDS = ("kafka", "eventhubs", "files", "delta", "kinesis", "jdbc", "cdc", "rate", "synthetic")
OUTPUT_KINDS = ("bronze", "clean", "dedup", "enrich", "windows", "sessions", "join", "scd1", "scd2", "sink")
GUARANTEES = ("exactly-once", "at-least-once")
ERROR_POLICIES = ("quarantine", "drop", "fail", "dead-letter")
SCENARIOS = ("dashboard", "iot", "mobile", "batch")

_TOP = (
    used("name", _T.TEXT, "Name of the pipeline.", required=True, pattern=_NAME),
    used("sources", _T.SECTIONS, "The systems that records come from.", required=True),
    used("outputs", _T.SECTIONS, "The tables and sinks to build.", required=True),
    used(
        "latency",
        _T.TEXT,
        "How old the newest result may be, such as `1 day`, `5 minutes`, `10 seconds` or `200 ms`.",
        "`5 minutes`",
    ),
    used(
        "lateness",
        _T.TEXT_OR_SECTION,
        "How late events arrive, such as `10 minutes`. A mapping has the keys below.",
    ),
    used("lateness.within", _T.TEXT, "Nearly all events arrive within this time, such as `10 minutes`."),
    used("lateness.share", _T.DECIMAL, "Share of the events that arrive within it.", "`0.999`"),
    used(
        "lateness.measure_from",
        _T.TEXT,
        "Folder of a Delta table in which the lateness of past events is measured. Replaces `within`.",
    ),
    used(
        "lateness.scenario",
        _T.TEXT,
        "Where the events come from, to compare the delay with the usual one.",
        choices=SCENARIOS,
    ),
    used("state", _T.SECTION, "Limits of the state that streams keep."),
    used("state.memory", _T.TEXT, "Memory for the state, such as `2 GiB`.", "`1 GiB`"),
    used("state.keys", _T.NUMBER, "Number of distinct keys, such as users.", "each event has its own key", least=1),
    used("guarantee", _T.TEXT, "What a crash may repeat.", "`exactly-once`", choices=GUARANTEES),
    used("on_error", _T.TEXT, "What happens to records that are wrong.", "`quarantine`", choices=ERROR_POLICIES),
    used(
        "history",
        _T.TEXT_OR_SECTION,
        "Older records: `none`, or `backfill from PATH`. A mapping has the keys below.",
        "`none`",
    ),
    used("history.from", _T.TEXT, "Folder of files, or of a Delta table, with older records of the first source."),
    used("history.format", _T.TEXT, "Format of the files.", "`delta`", choices=("delta", "parquet", "json", "csv")),
    used(
        "alerts",
        _T.TEXT,
        "URL that alerts are posted to, as a reference such as `${secret:alerts/webhook}`.",
        "no messages are sent",
    ),
)
_SOURCES = (
    used("sources[].name", _T.TEXT, "Name of the source.", required=True, pattern=_NAME),
    used("sources[].kind", _T.TEXT, "Which system it is.", choices=SOURCE_KINDS),
    used(
        "sources[].format",
        _T.TEXT,
        "Format of the records: `json` or `csv` in messages; `json`, `csv`, `parquet`, `orc` or `avro` in files; "
        "`debezium` or `json` for `cdc`.",
        "`json`; `debezium` for `cdc`",
    ),
    used("sources[].schema", _T.MAP, "Columns with their SQL types, such as `amount: DECIMAL(10,2)`."),
    used("sources[].sample", _T.TEXT, "File of JSON lines whose columns and types become the schema."),
    used("sources[].event_time", _T.TEXT, "Column with the time at which the event happened."),
    used("sources[].keys", _T.TEXTS, "Columns that identify an event, or the row of a change event."),
    used(
        "sources[].duplicates",
        _T.SCALAR,
        "Whether the source repeats events: `yes`, `no`, or their share, such as `0.02`.",
        "`no`",
    ),
    used("sources[].events_per_s", _T.DECIMAL, "Average number of records per second.", "`100`"),
    used("sources[].peak", _T.DECIMAL, "How many times the average arrives at the busiest time.", "`3`"),
    used("sources[].retention", _T.TEXT, "How long the source keeps records, such as `7 days`.", "that of its kind"),
    used(
        "sources[].options",
        _T.MAP,
        "Options of its reader, such as `subscribe`. Secrets only as references: `${secret:scope/key}`.",
    ),
)
_OUTPUTS = (
    used("outputs[].name", _T.TEXT, "Name of the table or sink.", required=True, pattern=_NAME),
    used("outputs[].kind", _T.TEXT, "What it is.", required=True, choices=OUTPUT_KINDS),
    used("outputs[].from", _T.TEXT, "The source or output that it reads.", "the only source"),
    used("outputs[].comment", _T.TEXT, "Comment of the table."),
    used("outputs[].latency", _T.TEXT, "Latency of this output alone.", "`latency`"),
    used(
        "outputs[].keys", _T.TEXTS, "Columns to group, compare or merge by.", "those of the source, except to group by"
    ),
    used("outputs[].at", _T.TEXT, "Column with the event time.", "`event_time` of the source"),
    used("outputs[].columns", _T.TEXTS, "Columns to keep; for `enrich`, columns to add.", "all"),
    used("outputs[].rules", _T.MAP, "`clean`: conditions that each row satisfies, by name."),
    used("outputs[].aggregates", _T.MAP, "`windows`, `sessions`: SQL aggregates by column.", "`events: count(*)`"),
    used("outputs[].size", _T.TEXT, "`windows`: length of a window, such as `5 minutes`."),
    used("outputs[].slide", _T.TEXT, "`windows`: time between two starts.", "`size`"),
    used("outputs[].gap", _T.TEXT, "`sessions`: inactivity that ends a session, such as `30 minutes`."),
    used("outputs[].with", _T.TEXT, "`enrich`, `join`: the other source or output."),
    used(
        "outputs[].on", _T.TEXTS, "`enrich`, `join`: columns that both sides have.", "for `enrich`, keys of the table"
    ),
    used("outputs[].within", _T.TEXT, "`join`: the longest time between the two events, such as `1 hour`."),
    used("outputs[].how", _T.TEXT, "`join`: `left` keeps rows without a match.", "`inner`", choices=("inner", "left")),
    used("outputs[].sequence_by", _T.TEXT, "`scd1`, `scd2`: column that orders changes.", "the event time"),
    used("outputs[].deletes", _T.TEXT, "`scd1`, `scd2`: condition that is true for deletes."),
    used("outputs[].where", _T.TEXT, "`sink`: condition of the rows to deliver.", "all rows"),
    used("outputs[].format", _T.TEXT, "`sink`: `delta`, `kafka`, `jdbc`, `http`, `json`, `csv`, `parquet` or `orc`."),
    used("outputs[].options", _T.MAP, "`sink`: options of the sink. Secrets only as references."),
)

ERRORS = DocumentErrors(
    unreadable="REQUIREMENTS.UNREADABLE",
    syntax="REQUIREMENTS.SYNTAX",
    duplicate_key="REQUIREMENTS.DUPLICATE_KEY",
    unknown_key="REQUIREMENTS.UNKNOWN_KEY",
    wrong_type="REQUIREMENTS.WRONG_TYPE",
    wrong_value="REQUIREMENTS.WRONG_VALUE",
    # No key of requirements is refused as such.
    refused="REQUIREMENTS.WRONG_VALUE",
)
KEYS: tuple[Key, ...] = (*_TOP, *_SOURCES, *_OUTPUTS)
REQUIREMENTS = KeyTable(KEYS, "docs/reference/requirements.md", errors=ERRORS)

# The parameters of each kind of output, besides those that all have.
_EVERY_OUTPUT = frozenset({"name", "kind", "from", "comment", "latency"})
PARAMETERS = {
    "bronze": _EVERY_OUTPUT,
    "clean": _EVERY_OUTPUT | {"rules", "columns"},
    "dedup": _EVERY_OUTPUT | {"keys", "at"},
    "enrich": _EVERY_OUTPUT | {"with", "on", "columns"},
    "windows": _EVERY_OUTPUT | {"keys", "at", "size", "slide", "aggregates"},
    "sessions": _EVERY_OUTPUT | {"keys", "at", "gap", "aggregates"},
    "join": _EVERY_OUTPUT | {"with", "on", "at", "within", "how"},
    "scd1": _EVERY_OUTPUT | {"keys", "columns", "sequence_by", "deletes"},
    "scd2": _EVERY_OUTPUT | {"keys", "columns", "sequence_by", "deletes"},
    "sink": _EVERY_OUTPUT | {"keys", "columns", "where", "format", "options"},
}


def requirements_schema() -> dict[str, Any]:
    """The JSON schema of requirements, for editors."""
    return document_schema(REQUIREMENTS, "Requirements of a Headrace pipeline")


def requirements_schema_text() -> str:
    """The schema as the text of a file."""
    return json.dumps(requirements_schema(), indent=2, ensure_ascii=False) + "\n"
