"""Creates the writer of a flow's batches to its sinks."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from threading import Lock
from types import MappingProxyType

from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.datasets import Kind
from headrace.model.sinks import SinkDefinition
from headrace.sinks.formats import KAFKA, format_of
from headrace.spark.deadletter.row_errors import RowErrors
from headrace.spark.sinks.create_sink import create_sink
from headrace.spark.sinks.failed_batches import DeadLetterSink, FailedBatchContext
from headrace.spark.sinks.function import FunctionSink
from headrace.spark.sinks.jdbc import JdbcSink
from headrace.spark.sinks.sink import CommittingSink, Sink
from headrace.spark.sinks.sink_writer import DeliveryContext, SinkWriter
from headrace.spark.sinks.spark_format import FormatSink
from headrace.spark.sinks.spill_queue import SpillQueue
from headrace.spark.update.batch_target import transaction_version
from headrace.spark.update.context import UpdateContext
from headrace.spark.update.guard import Guard
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
    guard = context.guard
    folder = context.state.record_file(flow).parent
    policy = context.defaults.dead_letter_policy.with_confs(flow.flow.spark_conf)
    members = {name: member for name, member in _members(context, flow).items() if only_sink in (None, name)}
    sinks = {name: create_sink(context, name, member) for name, member in members.items()}
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
        attempt=transaction_version(0, context.guard.fencing_token, attempt),
        folder=folder,
        is_stateful=bool(flow.analysis.operators),
        identity=record.identity,
        update_id=context.update_id,
        policy=policy,
        fallbacks=fallbacks,
        redact=context.reporting.redact,
        # Spark's writer runs the plan itself, so that no observation is reported (``KafkaSourceProvider``).
        counts_first=policy.accepts_batches or any(member.format.casefold() == KAFKA for member in members.values()),
        dead_letter_lock=dead_letter_lock,
    )
    return SinkWriter(
        delivery, sinks, context.reporting.emit, context.reporting.known_counts, guard, context.reporting.now
    )


def committing_sinks(context: UpdateContext, flow: ResolvedFlow) -> dict[str, CommittingSink]:
    """The sinks of a flow that record their last batch themselves, by name."""
    sinks = {name: create_sink(context, name, member) for name, member in _members(context, flow).items()}
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
        emit=context.reporting.emit,
        now=context.reporting.now,
        redact=context.reporting.redact,
        dead_letter_lock=dead_letter_lock,
    )
