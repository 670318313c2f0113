"""Where a sink delivers to, as its options say."""

from __future__ import annotations

from headrace.options.parse import ParsedOptions
from headrace.sinks.checks import named_columns
from headrace.sinks.database import TableWriter
from headrace.sinks.formats import HEADER_PREFIX
from headrace.sinks.http import Body, HttpPlace
from headrace.sinks.retrying import Patience
from headrace.sources.jdbc_connection import database_of


def kafka_options(parsed: ParsedOptions) -> dict[str, str]:
    """The options for Spark's Kafka writer; they may contain secrets."""
    topic = {"topic": parsed.texts["topic"]} if "topic" in parsed.texts else {}
    return {**parsed.passed_on, **topic, "kafka.bootstrap.servers": parsed.texts["kafka.bootstrap.servers"]}


def table_writer(parsed: ParsedOptions) -> TableWriter:
    """The writer of a table of a database; the transaction of its commits is set by its user."""
    return TableWriter(
        database=database_of(parsed.values["url"], parsed.get("user"), parsed.get("password")),
        table=parsed.values["dbtable"],
        commits=parsed.get("commitTable", "headrace_commits"),
        transaction="",
        keys=named_columns(parsed, "keys"),
        sequence_by=parsed.get("sequenceBy"),
        rows_per_statement=parsed.get("batchSize", 1000),
    )


def http_endpoint(parsed: ParsedOptions) -> HttpPlace:
    """The endpoint of an HTTP sink, and how requests to it are built."""
    headers = {name.removeprefix(HEADER_PREFIX): text for name, text in parsed.passed_on.items()}
    if "bearerToken" in parsed.values:
        headers["authorization"] = f"Bearer {parsed.values['bearerToken']}"
    body, usual = Body(parsed.get("body", "array")), Patience()
    return HttpPlace(
        url=parsed.values["url"],
        method=parsed.get("method", "POST"),
        headers=headers,
        body=body,
        rows=1 if body is Body.OBJECT else parsed.get("rowsPerRequest", 100),
        lanes=parsed.get("concurrency", 4),
        timeout_s=parsed.get("timeout", 30.0),
        per_second=parsed.get("requestsPerSecond"),
        key_header=parsed.get("idempotencyHeader", "Idempotency-Key"),
        patience=Patience(parsed.get("maxAttempts", usual.attempts), parsed.get("retryBudget", usual.budget_s)),
    )
