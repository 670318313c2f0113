"""Parses the clauses between a dataset's name and its query, in any order."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from headrace.errors import PipelineError
from headrace.model.custom_metrics import CustomMetric, is_metric_name, metric_name_of
from headrace.model.refresh import RefreshPolicy
from headrace.schedules.clause import USAGE, clause_text, parse_clause
from headrace.schedules.cron import InvalidSchedule
from headrace.sql.columns import ColumnList, column_list, plain_name
from headrace.sql.cursor import Cursor
from headrace.sql.lexer import Kind
from headrace.sql.table_rules import ResolveName
from headrace.sql.unsupported_sql import CLAUSES, FLOW_CLAUSES, found_ahead, unsupported

_NUMBER_SIGNS = ("-", "+")
_ENDS = (("AS",), ("FLOW", "AUTO", "CDC"), ("FLOW", "REPLACE", "USING"))


@dataclass
class Clauses:
    """The values of the clauses; ``seen`` are the first words of those that were parsed."""

    columns: ColumnList = field(default_factory=ColumnList)
    comment: str | None = None
    properties: dict[str, str] = field(default_factory=dict)
    # From properties: the vendor's grammar has no metrics.
    metrics: list[CustomMetric] = field(default_factory=list)
    partition_by: tuple[str, ...] = ()
    cluster_by: tuple[str, ...] = ()
    # In the form of headrace.schedules.clause; empty for none.
    schedule: str = ""
    zone: str = "UTC"
    refresh_policy: RefreshPolicy = RefreshPolicy.AUTO
    seen: set[str] = field(default_factory=set)


def clauses(cursor: Cursor, problems: list[PipelineError], resolve_name: ResolveName, zone: str = "UTC") -> Clauses:
    """Parse the column list and the clauses up to AS or the end; unsupported ones are added to *problems*.

    *resolve_name* returns the dataset for a spelling; *zone* is the time zone of schedules that name none.

    Raises:
        PipelineError: SQL.SYNTAX, NAME.INVALID.
    """
    found = Clauses(zone=zone)
    if not cursor.done and cursor.rest[0].is_symbol("("):
        found.columns = column_list(cursor, problems, resolve_name)
    while not cursor.done and not any(cursor.ahead(*words) for words in _ENDS):
        _clause(cursor, found, problems)
    return found


def _clause(cursor: Cursor, found: Clauses, problems: list[PipelineError]) -> None:
    location = cursor.location
    refused = found_ahead(FLOW_CLAUSES, cursor)
    if refused is not None:
        problems.append(unsupported(*refused, location))
        cursor.position = cursor.end
        return
    refused = found_ahead(CLAUSES, cursor)
    if refused is not None:
        problems.append(unsupported(*refused, location))
        cursor.position += len(refused[0].split())
        _skip_to_next(cursor)
        return
    for words, read in _READERS.items():
        if cursor.ahead(*words):
            if words[0] in found.seen:
                raise cursor.failure(f"{' '.join(words)} only once")
            found.seen.add(words[0])
            cursor.accept(*words)
            read(cursor, found, problems)
            return
    raise cursor.failure("a clause or AS")


def _skip_to_next(cursor: Cursor) -> None:
    """Skip the tokens of an unsupported clause, so that the rest of the statement is checked too."""
    while not cursor.done and not _starts_clause(cursor):
        if cursor.rest[0].is_symbol("("):
            cursor.brackets("what belongs to the clause")
        else:
            cursor.position += 1


def _starts_clause(cursor: Cursor) -> bool:
    starts = (*_READERS, *CLAUSES, *FLOW_CLAUSES, ("AS",))
    return any(cursor.ahead(*words) for words in starts)


def _using(cursor: Cursor, _found: Clauses, problems: list[PipelineError]) -> None:
    location = cursor.location
    name = plain_name(cursor, "DELTA")
    if name.casefold() != "delta":
        problems.append(PipelineError("UNSUPPORTED.FORMAT", location=location, what="USING", format=name))


def _partitioned(cursor: Cursor, found: Clauses, _problems: list[PipelineError]) -> None:
    found.partition_by = _names(cursor)


def _clustered(cursor: Cursor, found: Clauses, _problems: list[PipelineError]) -> None:
    found.cluster_by = _names(cursor)


def _comment(cursor: Cursor, found: Clauses, _problems: list[PipelineError]) -> None:
    found.comment = cursor.string("a comment in quotes")


def _schedule(cursor: Cursor, found: Clauses, problems: list[PipelineError]) -> None:
    location, begin = cursor.location, cursor.position
    while not cursor.done and not _starts_clause(cursor):
        cursor.position += 1
    tokens = cursor.part(begin, cursor.position).rest
    words = " ".join(token.text for token in tokens)
    start = cursor.statement.tokens[begin - 1].text.upper()
    start = "SCHEDULE" if start == "SCHEDULE" else "TRIGGER ON UPDATE"
    try:
        if {"SCHEDULE", "TRIGGER"} <= found.seen:
            raise InvalidSchedule("a dataset has one of SCHEDULE and TRIGGER ON UPDATE")  # noqa: TRY301 - as the parser
        found.schedule = clause_text(parse_clause(f"{start} {words}", found.zone))
    except InvalidSchedule as invalid:
        # Values of parameters are not shown.
        shown = (token.text if token.parameter is None else token.parameter for token in tokens)
        given = {"clause": " ".join((start, *shown)), "reason": str(invalid), "usage": USAGE}
        problems.append(PipelineError("SCHEDULE.INVALID", location=location, **given))


def _refresh_policy(cursor: Cursor, found: Clauses, _problems: list[PipelineError]) -> None:
    # The longest first: STRICT follows INCREMENTAL.
    for policy in sorted(RefreshPolicy, key=lambda policy: -len(policy.in_sql)):
        if cursor.accept(*policy.in_sql.split()):
            found.refresh_policy = policy
            return
    raise cursor.failure("AUTO, INCREMENTAL, INCREMENTAL STRICT or FULL")


def _properties(cursor: Cursor, found: Clauses, problems: list[PipelineError]) -> None:
    for item in cursor.brackets("properties").items():
        location = item.location
        key = item.string("a property") if _is_string(item) else _dotted(item)
        item.accept_symbol("=")
        value = _value(item)
        if not item.done:
            raise item.failure('"," or ")"')
        name = metric_name_of(key)
        if name is None:
            found.properties[key] = value
        elif is_metric_name(name):
            found.metrics.append(CustomMetric(name, value, location))
        else:
            problems.append(PipelineError("METRICS.INVALID_NAME", location=location, name=name))


_Reader = Callable[[Cursor, Clauses, list[PipelineError]], None]
_READERS: Mapping[tuple[str, ...], _Reader] = {
    ("USING",): _using,
    ("PARTITIONED", "BY"): _partitioned,
    ("CLUSTER", "BY"): _clustered,
    ("COMMENT",): _comment,
    ("TBLPROPERTIES",): _properties,
    ("SCHEDULE",): _schedule,
    ("TRIGGER", "ON", "UPDATE"): _schedule,
    ("REFRESH", "POLICY"): _refresh_policy,
}


def _names(cursor: Cursor) -> tuple[str, ...]:
    found: list[str] = []
    for item in cursor.brackets("columns").items():
        # CLUSTER BY accepts nested columns; Spark takes the name with dots.
        found.append(item.name("a column's name"))
        if not item.done:
            raise item.failure('"," or ")" after a plain column')
    return tuple(name.replace("`", "") if "." not in name else name for name in found)


def _is_string(item: Cursor) -> bool:
    return not item.done and item.rest[0].kind is Kind.STRING


def _dotted(item: Cursor) -> str:
    return item.name("a property").replace("`", "")


def _value(item: Cursor) -> str:
    if _is_string(item):
        return item.string("a value")
    sign = next((sign for sign in _NUMBER_SIGNS if item.accept_symbol(sign)), "")
    token = None if item.done else item.rest[0]
    numeric = token is not None and token.text[0].isdigit()
    if token is None or not (numeric or (not sign and token.is_word("TRUE", "FALSE"))):
        raise item.failure("a value in quotes, a number, TRUE or FALSE")
    item.position += 1
    return sign + token.text.lower()
