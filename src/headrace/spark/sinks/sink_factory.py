"""Creates sinks from their definitions, and the writer of a flow's batches."""

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

from headrace.autoloader.stores.paths import replace_prefix
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.datasets import Kind
from headrace.model.sinks import FOREACH_BATCH, SinkDefinition
from headrace.settings.storage import StorageLayout
from headrace.sinks.checks import named_columns, options_of, table_of, writer_options
from headrace.sinks.database import TableWriter
from headrace.sinks.formats import CONSOLE, DELTA, FILES, HEADER_PREFIX, HTTP, JDBC, KAFKA, format_of
from headrace.sinks.http import Body, HttpPlace, HttpSender
from headrace.sinks.retrying import Clock, Patience
from headrace.sources.jdbc_connection import database_of
from headrace.sources.option_reading import ParsedOptions
from headrace.spark.deadletter.row_errors import RowErrors
from headrace.spark.readers.auto_loader import PATHS
from headrace.spark.sinks.console import ConsoleSink
from headrace.spark.sinks.delta import DeltaSink
from headrace.spark.sinks.failed_batches import DeadLetterSink, FailedBatchContext
from headrace.spark.sinks.files import FilesSink
from headrace.spark.sinks.function import FunctionSink
from headrace.spark.sinks.http import HttpSink
from headrace.spark.sinks.jdbc import JdbcSink
from headrace.spark.sinks.kafka import KafkaSink
from headrace.spark.sinks.sink import CommittingSink, Guard, Sink
from headrace.spark.sinks.sink_writer import DeliveryContext, SinkWriter
from headrace.spark.sinks.spark_format import FormatSink
from headrace.spark.sinks.spill_queue import SpillQueue
from headrace.spark.update.batch_target import transaction_version
from headrace.spark.update.context import UpdateContext
from headrace.storage.dead_letters import has_dead_letters
from headrace.storage.flow_record import FlowRecord


def with_delivery(context: UpdateContext, flow: ResolvedFlow, record: FlowRecord) -> FlowRecord:
    """The record with a unique name of the flow's deliveries. Store it before the first delivery."""
    if record.delivery or context.graph.by_name[flow.target].kind is not Kind.SINK:
        return record
    return replace(record, delivery=uuid.uuid4().hex)


# Sinks that have nothing of a batch on which they fail, or whose owner handles repeats.
_SINKS_WITH_DEAD_LETTERS = (FunctionSink, JdbcSink, FormatSink)


def delivers_batches(context: UpdateContext, flow: ResolvedFlow) -> bool:
    """True if we deliver batches to the flow's sink, not Spark's own writer, so that we can skip repeated batches."""
    dataset = context.graph.by_name[flow.target]
    sink = dataset.dataset.sink
    return sink is not None and (bool(dataset.members) or format_of(sink.format) is not None)


def create_sink_writer(
    context: UpdateContext,
    flow: ResolvedFlow,
    record: FlowRecord,
    attempt: int,
    *,
    single_batch: bool = False,
    only_sink: str | None = None,
    fallbacks: Mapping[str, SpillQueue] = MappingProxyType({}),
) -> SinkWriter | None:
    """The writer of a flow's batches to its sinks; None if the target is a table, or Spark itself writes to the sink.

    Args:
        context: the pipeline.
        flow: the flow.
        record: of the flow.
        attempt: its number within the update.
        single_batch: the only batch is not one of a stream.
        only_sink: the only one of several sinks that gets it.
        fallbacks: the spill queues of sinks that may be down, by name.
    """
    dataset = context.graph.by_name[flow.target]
    sink = dataset.dataset.sink
    if sink is None or not (single_batch or delivers_batches(context, flow)):
        return None
    guard = Guard(context.at, context.fence)
    folder = context.state.record_file(flow).parent
    policy = context.on_failing_rows.with_confs(flow.flow.spark_conf)
    members = {name: member for name, member in _members(context, flow).items() if only_sink in (None, name)}
    sinks = {name: _create_sink(context, name, member, guard) for name, member in members.items()}
    dead_letter_lock = Lock()
    if policy.accepts_batches or has_dead_letters(folder):
        failed_batches = _failed_batch_context(context, flow, record, guard, dead_letter_lock)
        stores_batches = policy.accepts_batches
        sinks = {
            name: _with_dead_letters(sink, name, failed_batches, stores_batches=stores_batches)
            for name, sink in sinks.items()
        }
    delivery = DeliveryContext(
        flow=flow.name,
        dataset=str(flow.target),
        delivery=record.delivery,
        epoch=record.epoch,
        attempt=transaction_version(0, context.term, attempt),
        folder=folder,
        is_stateful=bool(flow.analysis.operators),
        identity=record.identity,
        update_id=context.update_id,
        policy=policy,
        fallbacks=fallbacks,
        redact=context.redact,
        # Spark's writer runs the plan itself, so that no observation is reported (``KafkaSourceProvider``).
        counts_first=policy.accepts_batches or any(member.format.casefold() == KAFKA for member in members.values()),
        dead_letter_lock=dead_letter_lock,
    )
    return SinkWriter(delivery, sinks, context.emit, context.known_counts, guard, context.now)


def committing_sinks(context: UpdateContext, flow: ResolvedFlow) -> dict[str, CommittingSink]:
    """The sinks of a flow that record their last batch themselves, by name."""
    guard = Guard(context.at, context.fence)
    sinks = {name: _create_sink(context, name, member, guard) for name, member in _members(context, flow).items()}
    return {name: sink for name, sink in sinks.items() if isinstance(sink, CommittingSink)}


def _members(context: UpdateContext, flow: ResolvedFlow) -> dict[str, SinkDefinition]:
    """The sinks of a flow's target, by name."""
    target = context.graph.by_name[flow.target]
    found = {str(name): context.graph.by_name[name].dataset.sink for name in target.members or (target.name,)}
    return {name: sink for name, sink in found.items() if sink is not None}


def _with_dead_letters(sink: Sink, name: str, failed_batches: FailedBatchContext, *, stores_batches: bool) -> Sink:
    """The sink with dead letters for failed batches; unchanged if it may have a part of a failed batch."""
    if not isinstance(sink, _SINKS_WITH_DEAD_LETTERS):
        return sink
    return DeadLetterSink(sink, name, failed_batches, stores_batches=stores_batches)


def _failed_batch_context(
    context: UpdateContext, flow: ResolvedFlow, record: FlowRecord, guard: Guard, dead_letter_lock: Lock
) -> FailedBatchContext:
    return FailedBatchContext(
        folder=context.state.record_file(flow).parent,
        identity=record.identity,
        update_id=context.update_id,
        dataset=str(flow.target),
        report=RowErrors(context, flow).report,
        guard=guard,
        emit=context.emit,
        now=context.now,
        redact=context.redact,
        dead_letter_lock=dead_letter_lock,
    )


def _create_sink(context: UpdateContext, name: str, definition: SinkDefinition, guard: Guard) -> Sink:
    kind = definition.format.casefold()
    if definition.function is not None and definition.format == FOREACH_BATCH:
        return FunctionSink(definition.function, guard)
    parsed = options_of(definition)
    if kind == DELTA:
        table = table_of(definition)
        if table is not None:
            path = StorageLayout(context.layout.root).table(context.naming, table)
        else:
            path = _path(context, parsed.texts["path"])
        merges = {"mergeSchema": parsed.texts["mergeSchema"]} if "mergeSchema" in parsed.texts else {}
        return DeltaSink(path, guard, merges, named_columns(parsed, "partitionBy"), local=path.startswith("/"))
    if kind == KAFKA:
        return KafkaSink(_kafka_options(parsed), guard, headers=parsed.get("deliveryHeaders", True))
    if kind == CONSOLE:
        return ConsoleSink(name, parsed.get("numRows", 20), parsed.get("truncate", True), guard)
    if kind in FILES:
        path = _path(context, parsed.texts["path"])
        return FilesSink(kind, path, guard, writer_options(parsed), named_columns(parsed, "partitionBy"))
    if kind == JDBC:
        return JdbcSink(_table_writer(parsed), guard, context.now, parsed.get("numPartitions"))
    if kind == HTTP:
        target = _http_target(parsed)
        sender = HttpSender(target, name, Clock(time.monotonic, time.sleep, random.random))
        keys, order = named_columns(parsed, "keys"), named_columns(parsed, "orderBy")
        return HttpSink(sender, guard, target.lanes, target.rows, keys, order)
    return FormatSink(definition.format, definition.options, guard)


def stream_options(definition: SinkDefinition) -> Mapping[str, str]:
    """The options of a sink for Spark's own stream writer; they may contain secrets."""
    if definition.format.casefold() == KAFKA:
        return _kafka_options(options_of(definition))
    return definition.options


def _kafka_options(parsed: ParsedOptions) -> dict[str, str]:
    topic = {"topic": parsed.texts["topic"]} if "topic" in parsed.texts else {}
    return {**parsed.passed_on, **topic, "kafka.bootstrap.servers": parsed.texts["kafka.bootstrap.servers"]}


def _table_writer(parsed: ParsedOptions) -> TableWriter:
    return TableWriter(
        database=database_of(parsed.values["url"], parsed.get("user"), parsed.get("password")),
        table=parsed.values["dbtable"],
        commits=parsed.get("commitTable", "headrace_commits"),
        transaction="",
        keys=named_columns(parsed, "keys"),
        sequence_by=parsed.get("sequenceBy"),
        rows_per_statement=parsed.get("batchSize", 1000),
    )


def _http_target(parsed: ParsedOptions) -> HttpPlace:
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


def _path(context: UpdateContext, text: str) -> str:
    """A user's path in full: with the settings' path mapping, and relative to the project's folder."""
    paths = json.loads(context.session.conf.get(PATHS, "{}") or "{}")
    path = replace_prefix(text, paths)
    if path.startswith("file:"):
        path = "/" + path.removeprefix("file:").lstrip("/")
    return path if ":" in path.partition("/")[0] else str(Path(context.root, path))
