"""The table of the API's routes: where each is, who may use it, what it takes and what it returns."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from headrace.events.levels import Level
from headrace.serve.api.schemas import Schema
from headrace.serve.pages.row_facts import COMPARISONS, DEFAULT_STORED, MOST_STORED
from headrace.serve.pipelines import NEWEST_UPDATES
from headrace.serve.roles import Role

PREFIX = "/api/v1"
METRICS_PATH = "/metrics"
METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_PARAMETER = re.compile(r"\{(\w+)\}")
# Names of everything else may have any character.
_PLAIN = ("pipeline", "request", "plan", "alert")
MOST_ITEMS, LONGEST_TEXT, MOST_HOURS = 50, 200, 24 * 365
LONGEST_QUERY, MOST_ROWS, MOST_SECONDS = 8000, 1000, 60
DEFAULT_ROWS, DEFAULT_SECONDS = 100, 30


class FieldKind(Enum):
    """What the value of a field is."""

    NAMES = "names"
    TEXT = "text"
    FLAG = "flag"
    HOURS = "hours"
    QUERY = "query"
    ROWS = "rows"
    SECONDS = "seconds"


_TEXT: Schema = {"type": "string", "minLength": 1, "maxLength": LONGEST_TEXT}
_FIELD_SCHEMAS: Mapping[FieldKind, Schema] = {
    FieldKind.NAMES: {"type": "array", "maxItems": MOST_ITEMS, "items": _TEXT},
    FieldKind.TEXT: _TEXT,
    FieldKind.FLAG: {"type": "boolean", "default": False},
    FieldKind.HOURS: {"type": "number", "minimum": 0, "maximum": MOST_HOURS, "default": 4},
    FieldKind.QUERY: {"type": "string", "minLength": 1, "maxLength": LONGEST_QUERY},
    FieldKind.ROWS: {"type": "integer", "minimum": 1, "maximum": MOST_ROWS, "default": DEFAULT_ROWS},
    FieldKind.SECONDS: {"type": "number", "minimum": 1, "maximum": MOST_SECONDS, "default": DEFAULT_SECONDS},
}


@dataclass(frozen=True)
class Limit:
    """How many items of a list are in an answer: by default, and at most."""

    default: int
    most: int


# Rows of a quarantine; commits with their changes, commits that are looked at for changes of columns, batches, and the
# batches whose expectations are counted.
WAITING_ROWS = Limit(20, 100)
COMMITS, SCHEMA_COMMITS = Limit(30, 200), Limit(100, 500)
BATCHES, EVALUATIONS = Limit(60, 500), Limit(100, 1000)
UPDATES = Limit(NEWEST_UPDATES, 500)


@dataclass(frozen=True)
class Parameter:
    """A parameter of a query or a header.

    Attributes:
        name: of the parameter.
        description: what it does.
        schema: of its value.
        place: ``query`` or ``header``.
        example: a value; None for none.
    """

    name: str
    description: str
    schema: Schema
    place: str = "query"
    example: str | int | None = None


@dataclass(frozen=True)
class BodyField:
    """A field of the object that a request sends.

    Attributes:
        name: of the field.
        description: what it does.
        kind: of its value.
    """

    name: str
    description: str
    kind: FieldKind

    @property
    def schema(self) -> Schema:
        """The schema of its value."""
        return {**_FIELD_SCHEMAS[self.kind], "description": self.description}


@dataclass(frozen=True)
class ApiRoute:
    """A route of the API.

    Attributes:
        name: of the operation; the key of the function that answers.
        method: of HTTP.
        path: below the prefix; names in braces are parameters.
        role: who may use it.
        summary: what it does, in one line.
        answer: the name of the schema of its answer.
        parameters: of the query, and headers.
        fields: of the object that it takes; all are optional.
        waits: it answers when it is done, and stores no request.
        prefix: of its path.
        content_type: of its answer.
    """

    name: str
    method: str
    path: str
    role: Role
    summary: str
    answer: str
    parameters: tuple[Parameter, ...] = ()
    fields: tuple[BodyField, ...] = ()
    waits: bool = False
    prefix: str = PREFIX
    content_type: str = "application/json"

    @property
    def url(self) -> str:
        """Its whole path, with parameters in braces."""
        return self.prefix + self.path

    @property
    def writes(self) -> bool:
        """Whether it changes something, or runs a query."""
        return self.method != "GET"

    @property
    def path_parameters(self) -> tuple[str, ...]:
        """The names in its path."""
        return tuple(_PARAMETER.findall(self.path))

    @property
    def ends_with_any_name(self) -> bool:
        """Whether its path ends with a name that may have slashes."""
        return self.path.endswith("}") and self.path_parameters[-1] not in _PLAIN

    @property
    def pattern(self) -> str:
        """The path as the router has it: names of datasets and flows may have slashes."""
        return _PARAMETER.sub(lambda one: one[0] if one[1] in _PLAIN else f"{{{one[1]}:path}}", self.url)


_P = "/pipelines/{pipeline}"
_D, _F = f"{_P}/datasets/{{dataset}}", f"{_P}/flows/{{flow}}"
_WHOLE: Schema = {"type": "integer", "minimum": 0}


def _limit(limit: Limit, description: str) -> Parameter:
    """The parameter with the number of items."""
    schema = {"type": "integer", "minimum": 1, "maximum": limit.most, "default": limit.default}
    return Parameter("limit", description, schema, example=limit.default)


_GRAPH = (
    Parameter("focus", "Show only this dataset or source, and what is near it.", {"type": "string"}, example="orders"),
    Parameter("hops", "How near, in edges.", {**_WHOLE, "default": 1}),
    Parameter(
        "update",
        "The graph as this update saw it, with the states at its end; of the id, the beginning is enough.",
        {"type": "string"},
        example="5f0c2a91",
    ),
)
_BEFORE_VERSION = Parameter("before", "Only commits before this version: `earlier` of an answer.", _WHOLE, example=412)
_BEFORE = Parameter(
    "before",
    "Only what was recorded before the event with this `sequence`: `earlier` of an answer.",
    _WHOLE,
    example=1795003200123456,
)
_SINCE = Parameter(
    "since",
    "Only what was recorded from this time on, with its time zone.",
    {"type": "string", "format": "date-time"},
    example="2026-11-29T00:00:00Z",
)
_EVENTS = (
    Parameter("after", "Only events after the one with this `sequence`.", _WHOLE),
    Parameter(
        "type",
        "Only events of this `event_type`. Can be repeated.",
        {"type": "array", "items": {"type": "string", "pattern": "^[a-z_]{1,50}$"}, "maxItems": MOST_ITEMS},
        example="update_progress",
    ),
    Parameter(
        "level",
        "Only events of this level. Can be repeated.",
        {"type": "array", "items": {"type": "string", "enum": [level.value for level in Level]}},
        example="ERROR",
    ),
    Parameter(
        "Accept",
        "With `text/event-stream`, events are sent as they are stored.",
        {"type": "string"},
        "header",
    ),
)
_OF_UPDATE = (
    Parameter(
        "level",
        "List events of this level and worse ones; `METRICS` for all.",
        {"type": "string", "enum": ["ERROR", "WARN", "INFO", "METRICS"], "default": "INFO"},
    ),
    Parameter("flow", "List only events of this flow.", {"type": "string"}),
    Parameter("page", "The part of the list of events.", {"type": "integer", "minimum": 1, "default": 1}),
)
_WAITING = (
    Parameter("rule", "Only rows that violate this rule, or `query.failed` or `sink.refused`.", {"type": "string"}),
    _limit(WAITING_ROWS, "How many rows at most."),
)
_ROWS = (
    Parameter("columns", "Only these columns, with commas between them.", {"type": "string"}),
    Parameter("where", "Only rows in which this column meets the comparison.", {"type": "string"}),
    Parameter("is", "The comparison.", {"type": "string", "enum": [*COMPARISONS], "default": "="}),
    Parameter("value", "What the column is compared with.", {"type": "string", "maxLength": 1000}),
    Parameter(
        "limit",
        "How many rows at most.",
        {"type": "integer", "minimum": 1, "maximum": MOST_STORED, "default": DEFAULT_STORED},
    ),
)
_VERSION: Schema = {"type": "integer", "minimum": 0}
_DIFF = (
    Parameter("from", "The first version. Without it, the one before the newest change of rows.", _VERSION),
    Parameter("to", "The second version. Without it, the newest.", _VERSION),
    Parameter("key", "Columns that identify a row, with commas between them.", {"type": "string"}),
    Parameter(
        "limit",
        "How many examples at most.",
        {"type": "integer", "minimum": 1, "maximum": MOST_STORED, "default": DEFAULT_STORED},
    ),
)
KEY_HEADER = "Idempotency-Key"
_KEY = (
    Parameter(
        KEY_HEADER,
        "The id of the request, up to 100 letters, digits and `-_.:@`. Sent again, it does nothing again.",
        {"type": "string", "pattern": "^[A-Za-z0-9._:@-]{1,100}$"},
        "header",
    ),
)
_SELECTION = (
    BodyField("refresh", "Only these datasets, selected as by `headrace run --refresh`.", FieldKind.NAMES),
    BodyField("full_refresh", "Clear and recompute these datasets.", FieldKind.NAMES),
    BodyField("exclude", "Leave these datasets out.", FieldKind.NAMES),
    BodyField(
        "reset_checkpoint", "Reset the checkpoints of these flows, each `FLOW` or `FLOW=START`.", FieldKind.NAMES
    ),
)
_DATASETS = BodyField("datasets", "Only these datasets.", FieldKind.NAMES)


def _write(name: str, path: str, role: Role, summary: str, *fields: BodyField) -> ApiRoute:
    """A route that stores a request."""
    return ApiRoute(name, "POST", _P + path, role, summary, "Asked", _KEY, fields)


ROUTES: tuple[ApiRoute, ...] = (
    ApiRoute("openapi", "GET", "/openapi.json", Role.VIEWER, "This document", "Document"),
    ApiRoute("me", "GET", "/me", Role.VIEWER, "Whose token it is, and what it may do", "Me"),
    ApiRoute("pipelines", "GET", "/pipelines", Role.VIEWER, "All pipelines, with their health", "Pipelines"),
    ApiRoute("pipeline", "GET", _P, Role.VIEWER, "A pipeline, and what needs attention", "Pipeline"),
    ApiRoute("all_alerts", "GET", "/alerts", Role.VIEWER, "The alerts of all pipelines", "AllAlerts"),
    ApiRoute("graph", "GET", f"{_P}/graph", Role.VIEWER, "What reads what, with health and lag", "Graph", _GRAPH),
    ApiRoute(
        "rows",
        "GET",
        f"{_D}/rows",
        Role.OPERATOR,
        "Rows of the table of a dataset, read without Spark",
        "TableRows",
        _ROWS,
    ),
    ApiRoute(
        "diff",
        "GET",
        f"{_D}/diff",
        Role.OPERATOR,
        "How the rows of two versions of the table differ, found without Spark",
        "RowsDiff",
        _DIFF,
    ),
    ApiRoute("dataset", "GET", _D, Role.VIEWER, "A dataset, without its rows", "Dataset"),
    ApiRoute(
        "history",
        "GET",
        f"{_D}/history",
        Role.VIEWER,
        "The commits of a dataset's table, the newest first",
        "History",
        (_limit(COMMITS, "How many commits at most."), _BEFORE_VERSION),
    ),
    ApiRoute(
        "schema",
        "GET",
        f"{_D}/schema",
        Role.VIEWER,
        "The columns of a dataset, and how they changed",
        "SchemaReport",
        (_limit(SCHEMA_COMMITS, "How many commits of the table are looked at, at most."), _BEFORE_VERSION),
    ),
    ApiRoute(
        "expectations",
        "GET",
        f"{_D}/expectations",
        Role.VIEWER,
        "The expectations of a dataset, with their counts over time",
        "Expectations",
        (_SINCE, _limit(EVALUATIONS, "The counts of how many batches at most."), _BEFORE),
    ),
    ApiRoute("flow", "GET", _F, Role.VIEWER, "A flow, its newest batches and its checkpoint", "Flow"),
    ApiRoute(
        "batches",
        "GET",
        f"{_F}/batches",
        Role.VIEWER,
        "The batches of a flow, the newest first",
        "Batches",
        (_SINCE, _limit(BATCHES, "How many batches at most."), _BEFORE),
    ),
    ApiRoute(
        "checkpoint",
        "GET",
        f"{_F}/checkpoint",
        Role.VIEWER,
        "Epochs, batches and positions of a flow, and what keeps it from continuing",
        "Checkpoint",
    ),
    ApiRoute("state", "GET", f"{_F}/state", Role.VIEWER, "How much state a flow keeps, without its rows", "State"),
    ApiRoute(
        "updates",
        "GET",
        f"{_P}/updates",
        Role.VIEWER,
        "The updates, the newest first",
        "Updates",
        (_limit(UPDATES, "How many updates at most."), _BEFORE),
    ),
    ApiRoute(
        "update",
        "GET",
        f"{_P}/updates/{{update}}",
        Role.VIEWER,
        "An update: its flows, its plan and its events",
        "UpdateReport",
        _OF_UPDATE,
    ),
    ApiRoute("doctor", "GET", f"{_P}/doctor", Role.VIEWER, "What is wrong or at risk", "Diagnosis"),
    ApiRoute("events", "GET", f"{_P}/events", Role.VIEWER, "The newest 1,000 events", "Events", _EVENTS),
    ApiRoute("schedules", "GET", f"{_P}/schedules", Role.VIEWER, "The schedules, and who runs them", "Schedules"),
    ApiRoute(
        "schedule",
        "GET",
        f"{_P}/schedules/{{schedule}}",
        Role.VIEWER,
        "A schedule: what its next decision waits for, and what is queued",
        "ScheduleReport",
    ),
    ApiRoute("alerts", "GET", f"{_P}/alerts", Role.VIEWER, "The alerts of the last check", "Alerts"),
    ApiRoute("quarantine", "GET", f"{_P}/quarantine", Role.VIEWER, "How many rows are in quarantine", "Quarantines"),
    ApiRoute(
        "quarantined_rows",
        "GET",
        f"{_P}/quarantine/{{dataset}}",
        Role.OPERATOR,
        "The newest waiting rows of a dataset",
        "QuarantinedRows",
        _WAITING,
    ),
    ApiRoute("savepoints", "GET", f"{_P}/savepoints", Role.VIEWER, "The savepoints, oldest first", "Savepoints"),
    ApiRoute("plans", "GET", f"{_P}/plans", Role.VIEWER, "The plans that were made by request", "Plans"),
    ApiRoute("requests", "GET", f"{_P}/requests", Role.VIEWER, "The requests of the last seven days", "Requests"),
    ApiRoute("request", "GET", f"{_P}/requests/{{request}}", Role.VIEWER, "A request and its result", "RequestReport"),
    ApiRoute(
        "sql",
        "POST",
        f"{_P}/sql",
        Role.OPERATOR,
        "The rows of a query over tables of the pipeline",
        "QueryResult",
        fields=(
            BodyField("query", "One SELECT, over tables of the pipeline alone.", FieldKind.QUERY),
            BodyField("rows", "How many rows at most.", FieldKind.ROWS),
            BodyField("seconds", "How long it may take. The start of Java does not count.", FieldKind.SECONDS),
        ),
        waits=True,
    ),
    _write(
        "start_update",
        "/updates",
        Role.OPERATOR,
        "Run an update",
        *_SELECTION,
        BodyField("continuous", "Run until it is stopped.", FieldKind.FLAG),
    ),
    _write("stop_update", "/updates/{update}/stop", Role.OPERATOR, "Stop an update: batches that run may finish"),
    _write("stop_request", "/requests/{request}/stop", Role.OPERATOR, "Stop a request, or take it out of the queue"),
    _write("validate", "/validate", Role.OPERATOR, "Check the whole project"),
    _write("make_plan", "/plans", Role.OPERATOR, "Plan an update, and keep the plan", *_SELECTION),
    _write(
        "approve_plan",
        "/plans/{plan}/approve",
        Role.APPROVER,
        "Approve a plan in your name",
        BodyField("note", "What to say with the approval.", FieldKind.TEXT),
    ),
    _write("reject_plan", "/plans/{plan}/reject", Role.APPROVER, "Reject a plan: it can no longer be applied"),
    _write("apply_plan", "/plans/{plan}/apply", Role.OPERATOR, "Run the update of a plan"),
    _write("roll_back", "/plans/{plan}/rollback", Role.ADMIN, "Go back to before a plan was applied"),
    _write(
        "replay",
        "/quarantine/{dataset}/replay",
        Role.OPERATOR,
        "Check quarantined rows again, and write those that pass",
        BodyField("rules", "Only rows that violated these expectations.", FieldKind.NAMES),
        BodyField(
            "set",
            "New values of columns, each `COLUMN=EXPRESSION`: an expression of SQL over the columns of the row.",
            FieldKind.NAMES,
        ),
        BodyField("release", "Accept rows that still violate expectations.", FieldKind.FLAG),
        BodyField("dry_run", "Count the rows that would pass.", FieldKind.FLAG),
        BodyField("from_source", "Read the records of the source again, and run the current code.", FieldKind.FLAG),
    ),
    _write(
        "maintain",
        "/maintenance",
        Role.OPERATOR,
        "Compact, cluster and vacuum tables",
        _DATASETS,
        BodyField("only", "Only these tasks.", FieldKind.NAMES),
        BodyField("dry_run", "Show what would be done.", FieldKind.FLAG),
    ),
    _write(
        "create_savepoint",
        "/savepoints",
        Role.OPERATOR,
        "Save tables and checkpoints as they are now",
        BodyField("name", "A name for it.", FieldKind.TEXT),
    ),
    _write(
        "restore",
        "/savepoints/{savepoint}/restore",
        Role.OPERATOR,
        "Go back to a savepoint; without `dry_run` only as an admin",
        _DATASETS,
        BodyField("dry_run", "Show what would change.", FieldKind.FLAG),
    ),
    _write("drop_savepoint", "/savepoints/{savepoint}/drop", Role.ADMIN, "Remove a savepoint"),
    _write("fire_schedule", "/schedules/{schedule}/fire", Role.OPERATOR, "Run the update of a schedule now"),
    _write("pause_schedule", "/schedules/{schedule}/pause", Role.ADMIN, "Pause a schedule"),
    _write("resume_schedule", "/schedules/{schedule}/resume", Role.ADMIN, "Resume a schedule"),
    _write("acknowledge_alert", "/alerts/{alert}/ack", Role.OPERATOR, "Acknowledge an alert in your name"),
    _write(
        "silence_alert",
        "/alerts/{alert}/silence",
        Role.OPERATOR,
        "Silence an alert",
        BodyField("hours", "For how long.", FieldKind.HOURS),
    ),
    ApiRoute(
        "metrics",
        "GET",
        METRICS_PATH,
        Role.VIEWER,
        "The metrics of all pipelines, in Prometheus' text format",
        "Metrics",
        prefix="",
        content_type=METRICS_TYPE,
    ),
)
