"""From the definition of a sink to what writes it."""

from __future__ import annotations

import json
import random
import time
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from threading import Lock
from types import MappingProxyType

from headrace.autoloader.stores.paths import mapped
from headrace.graph.resolved import ResolvedFlow
from headrace.model.datasets import Kind
from headrace.model.sinks import FOREACH_BATCH, SinkDefinition
from headrace.settings.storage import StorageLayout
from headrace.sinks.checks import columns_named, options_of, table_of, writer_options
from headrace.sinks.database import TableWriter
from headrace.sinks.formats import AS_HEADER, CONSOLE, DELTA, FILES, HTTP, JDBC, KAFKA, format_of
from headrace.sinks.http import Body, HttpPlace, HttpSender
from headrace.sinks.retrying import Clock, Patience
from headrace.sources.jdbc_connection import database_of
from headrace.sources.option_reading import GivenOptions
from headrace.spark.deadletter.row_errors import RowErrors
from headrace.spark.readers.auto_loader import PATHS
from headrace.spark.sinks.console import ConsoleSink
from headrace.spark.sinks.delta import DeltaSink
from headrace.spark.sinks.failed_batches import FailedBatchPlace, WithFailedBatches
from headrace.spark.sinks.files import FilesSink
from headrace.spark.sinks.function import FunctionSink
from headrace.spark.sinks.http import HttpSink
from headrace.spark.sinks.jdbc import JdbcSink
from headrace.spark.sinks.kafka import KafkaSink
from headrace.spark.sinks.sink import Guard, NotingSink, Sink
from headrace.spark.sinks.sink_writer import DeliveryPlace, SinkWriter
from headrace.spark.sinks.spark_format import FormatSink
from headrace.spark.sinks.spill_queue import SpillPlace
from headrace.spark.update.batch_target import transaction_version
from headrace.spark.update.context import UpdateContext
from headrace.storage.dead_letters import failing_rows_kept
from headrace.storage.flow_record import FlowRecord


def with_delivery(context: UpdateContext, flow: ResolvedFlow, record: FlowRecord) -> FlowRecord:
    """The record, in which what a flow delivers to a sink has its name; to be stored before anything is delivered."""
    if record.delivery or context.graph.by_name[flow.target].kind is not Kind.SINK:
        return record
    return replace(record, delivery=uuid.uuid4().hex)


# Sinks that have nothing of a batch that they fail with, or whose owner says what a repeat is.
_WHOLE = (FunctionSink, JdbcSink, FormatSink)


def passes_over(context: UpdateContext, flow: ResolvedFlow) -> bool:
    """True when batches go to the sink of a flow through us, so that one which it has taken does not come again."""
    dataset = context.graph.by_name[flow.target]
    sink = dataset.dataset.sink
    return sink is not None and (bool(dataset.members) or format_of(sink.format) is not None)


def deliveries(
    context: UpdateContext,
    flow: ResolvedFlow,
    record: FlowRecord,
    attempt: int,
    *,
    once: bool = False,
    only: str | None = None,
    fallbacks: Mapping[str, SpillPlace] = MappingProxyType({}),
) -> SinkWriter | None:
    """What takes the batches of a flow into a sink; None where its target is a table, or Spark itself writes it.

    Args:
        context: the pipeline.
        flow: whose batches.
        record: in which epoch it is, and since when.
        attempt: the how manieth try of this update.
        once: the only batch is all there is, and not one of a stream.
        only: of several sinks the one that gets it.
        fallbacks: by the names of sinks that may be down, where their batches wait.
    """
    dataset = context.graph.by_name[flow.target]
    sink = dataset.dataset.sink
    if sink is None or not (once or passes_over(context, flow)):
        return None
    guard = Guard(context.at, context.fence)
    folder = context.state.record_file(flow).parent
    policy = context.on_failing_rows.with_confs(flow.flow.spark_conf)
    wanted = {name: member for name, member in _members(context, flow).items() if only in (None, name)}
    sinks = {name: _made(context, name, member, guard) for name, member in wanted.items()}
    storing = Lock()
    if policy.whole_batches or failing_rows_kept(folder):
        aside = _aside_place(context, flow, record, guard, storing)
        goes_on = policy.whole_batches
        sinks = {name: _sparing(sink, name, aside, goes_on=goes_on) for name, sink in sinks.items()}
    place = DeliveryPlace(
        flow=flow.name,
        dataset=str(flow.target),
        delivery=record.delivery,
        epoch=record.epoch,
        attempt=transaction_version(0, context.term, attempt),
        folder=folder,
        stateful=bool(flow.analysis.operators),
        identity=record.identity,
        update_id=context.update_id,
        policy=policy,
        fallbacks=fallbacks,
        redact=context.redact,
        # Spark's writer runs the plan by itself, so that no observation is told (``KafkaSourceProvider``).
        counts_first=policy.whole_batches or any(member.format.casefold() == KAFKA for member in wanted.values()),
        storing=storing,
    )
    return SinkWriter(place, sinks, context.emit, context.known_counts, guard, context.now)


def noting_sinks(context: UpdateContext, flow: ResolvedFlow) -> dict[str, NotingSink]:
    """Those sinks of a flow, by their names, that note themselves what they have taken."""
    guard = Guard(context.at, context.fence)
    sinks = {name: _made(context, name, member, guard) for name, member in _members(context, flow).items()}
    return {name: sink for name, sink in sinks.items() if isinstance(sink, NotingSink)}


def _members(context: UpdateContext, flow: ResolvedFlow) -> dict[str, SinkDefinition]:
    """The sinks that the target of a flow stands for, by their names."""
    target = context.graph.by_name[flow.target]
    found = {str(name): context.graph.by_name[name].dataset.sink for name in target.members or (target.name,)}
    return {name: sink for name, sink in found.items() if sink is not None}


def _sparing(sink: Sink, name: str, aside: FailedBatchPlace, *, goes_on: bool) -> Sink:
    """The sink without batches that it fails with; one that may have a part of such a batch fails as ever."""
    if not isinstance(sink, _WHOLE):
        return sink
    return WithFailedBatches(sink, name, aside, goes_on=goes_on)


def _aside_place(
    context: UpdateContext, flow: ResolvedFlow, record: FlowRecord, guard: Guard, storing: Lock
) -> FailedBatchPlace:
    return FailedBatchPlace(
        folder=context.state.record_file(flow).parent,
        identity=record.identity,
        update_id=context.update_id,
        dataset=str(flow.target),
        report=RowErrors(context, flow).report,
        guard=guard,
        emit=context.emit,
        now=context.now,
        redact=context.redact,
        storing=storing,
    )


def _made(context: UpdateContext, name: str, definition: SinkDefinition, guard: Guard) -> Sink:
    kind = definition.format.casefold()
    if definition.function is not None and definition.format == FOREACH_BATCH:
        return FunctionSink(definition.function, guard)
    given = options_of(definition)
    if kind == DELTA:
        table = table_of(definition)
        if table is not None:
            path = StorageLayout(context.layout.root).table(context.naming, table)
        else:
            path = _path(context, given.texts["path"])
        merges = {"mergeSchema": given.texts["mergeSchema"]} if "mergeSchema" in given.texts else {}
        return DeltaSink(path, guard, merges, columns_named(given, "partitionBy"), local=path.startswith("/"))
    if kind == KAFKA:
        return KafkaSink(_kafka_options(given), guard, headers=given.get("deliveryHeaders", True))
    if kind == CONSOLE:
        return ConsoleSink(name, given.get("numRows", 20), given.get("truncate", True), guard)
    if kind in FILES:
        path = _path(context, given.texts["path"])
        return FilesSink(kind, path, guard, writer_options(given), columns_named(given, "partitionBy"))
    if kind == JDBC:
        return JdbcSink(_table_writer(given), guard, context.now, given.get("numPartitions"))
    if kind == HTTP:
        place = _http_place(given)
        sender = HttpSender(place, name, Clock(time.monotonic, time.sleep, random.random))
        keys, order = columns_named(given, "keys"), columns_named(given, "orderBy")
        return HttpSink(sender, guard, place.lanes, place.rows, keys, order)
    return FormatSink(definition.format, definition.options, guard)


def stream_options(definition: SinkDefinition) -> Mapping[str, str]:
    """What Spark's own writer is told of a sink that it writes as a stream; they may hold secrets."""
    if definition.format.casefold() == KAFKA:
        return _kafka_options(options_of(definition))
    return definition.options


def _kafka_options(given: GivenOptions) -> dict[str, str]:
    topic = {"topic": given.texts["topic"]} if "topic" in given.texts else {}
    return {**given.passed_on, **topic, "kafka.bootstrap.servers": given.texts["kafka.bootstrap.servers"]}


def _table_writer(given: GivenOptions) -> TableWriter:
    return TableWriter(
        database=database_of(given.values["url"], given.get("user"), given.get("password")),
        table=given.values["dbtable"],
        commits=given.get("commitTable", "headrace_commits"),
        transaction="",
        keys=columns_named(given, "keys"),
        sequence_by=given.get("sequenceBy"),
        rows_per_statement=given.get("batchSize", 1000),
    )


def _http_place(given: GivenOptions) -> HttpPlace:
    headers = {name.removeprefix(AS_HEADER): text for name, text in given.passed_on.items()}
    if "bearerToken" in given.values:
        headers["authorization"] = f"Bearer {given.values['bearerToken']}"
    body, usual = Body(given.get("body", "array")), Patience()
    return HttpPlace(
        url=given.values["url"],
        method=given.get("method", "POST"),
        headers=headers,
        body=body,
        rows=1 if body is Body.OBJECT else given.get("rowsPerRequest", 100),
        lanes=given.get("concurrency", 4),
        timeout_s=given.get("timeout", 30.0),
        per_second=given.get("requestsPerSecond"),
        key_header=given.get("idempotencyHeader", "Idempotency-Key"),
        patience=Patience(given.get("maxAttempts", usual.attempts), given.get("retryBudget", usual.budget_s)),
    )


def _path(context: UpdateContext, text: str) -> str:
    """A place that a person has written, in full: the mapped prefix of the settings, or below the project's folder."""
    paths = json.loads(context.session.conf.get(PATHS, "{}") or "{}")
    path = mapped(text, paths)
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return path if ":" in path.partition("/")[0] else str(Path(context.root, path))
