"""Resumes the delivery of a stream to its sinks: checks what they have, and delivers waiting batches first."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial

from headrace.checkpoints.initial_offsets import newest_initial_batch
from headrace.checkpoints.offsets import newest_batches
from headrace.errors import PipelineError
from headrace.events.types import Warned
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.plan.agreement import NONE, Disagreement, KnownBatches, find_disagreement
from headrace.sinks.checks import options_of
from headrace.sinks.formats import NO_FALLBACK
from headrace.sinks.outages import is_outage
from headrace.spark.errors.spark_errors import failure_report
from headrace.spark.session.clone import clone_of
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.sinks.create_sink_writer import committing_sinks, create_sink_writer
from headrace.spark.sinks.sink import transaction_name
from headrace.spark.sinks.sink_writer import SinkWriter
from headrace.spark.sinks.spill_queue import SpillQueue
from headrace.spark.update.context import UpdateContext
from headrace.storage.dead_letters import has_dead_letters
from headrace.storage.flow_record import FlowRecord
from headrace.storage.spill_queue import clear_drafts, spilled_batches


def resume_delivery(
    context: UpdateContext,
    flow: ResolvedFlow,
    record: FlowRecord,
    attempt: int,
    *,
    session_lock: AbstractContextManager[object],
    is_stopping: Callable[[], bool],
    written_by_spark: bool,
    delivered_before: bool,
) -> SinkWriter | None:
    """The writer of a stream's batches to its sinks; None if Spark itself writes them.

    Waiting batches are delivered first, even if there are no new ones.

    Args:
        context: the pipeline.
        flow: the stream.
        record: of the flow.
        attempt: its number within the update.
        session_lock: held while the session has the flow's settings.
        is_stopping: whether the update was told to stop.
        written_by_spark: Spark's own writer sends the stream's rows one by one.
        delivered_before: batches were delivered under the record's name before this update.
    """
    fallbacks = _fallbacks(context, flow)
    writer = create_sink_writer(context, flow, record, attempt, fallbacks=fallbacks)
    if writer is not None and delivered_before:
        _check_notes(context, flow, record, fallbacks)
    if writer is not None and writer.fallbacks:
        with session_lock, with_confs(context.session, {**record.confs, **flow.flow.spark_conf}):
            session = clone_of(context.session, context.work_group(flow.name))
        context.guard.fence()
        for folder in context.state.spill_queues(context.graph, flow).values():
            clear_drafts(folder)
        writer.record_spilled()
        for sink in writer.fallbacks:
            sink.catch_up(session, is_stopping=is_stopping)
    return None if written_by_spark else writer


def _check_notes(
    context: UpdateContext, flow: ResolvedFlow, record: FlowRecord, fallbacks: Mapping[str, SpillQueue]
) -> None:
    """Compare the last batches of the sinks with the checkpoint, before a batch is planned.

    Raises:
        PipelineError: FLOW.CHECKPOINT_OLD, SINK.BEHIND_CHECKPOINT.
    """
    checkpoint = context.state.checkpoint(flow, record.epoch)
    planned, done = (NONE if newest is None else newest for newest in newest_batches(checkpoint))
    done = max(done, planned - 1)
    # Empty batches are not queued, and dead letters are not delivered, so gaps are normal with both.
    policy = context.defaults.dead_letter_policy.with_confs(flow.flow.spark_conf)
    has_gaps = policy.accepts_batches or has_dead_letters(context.state.record_file(flow).parent)
    for name, sink in committing_sinks(context, flow).items():
        try:
            newest = sink.last_commit(transaction_name(record.delivery, name), context.session).batch
        except Exception as error:
            if name not in fallbacks or fallbacks[name].outage_reason(error) is None:
                raise
            # Its batches wait until it is back; then it checks each of them.
            continue
        committed = None if has_gaps or name in fallbacks else max(newest, newest_initial_batch(checkpoint))
        known = KnownBatches(record.epoch, NONE, planned, done, committed, {f'sink "{name}"': newest})
        found = find_disagreement(known)
        if found is not None:
            raise _disagreement(flow, name, str(checkpoint), found)


def _disagreement(flow: ResolvedFlow, sink: str, checkpoint: str, found: Disagreement) -> PipelineError:
    location, reset = flow.flow.location, f"{flow.name}=latest"
    if found.code == "FLOW.TABLE_OLD":
        details = {"flow": flow.name, "name": sink, "target": str(flow.target), "reset": reset, **found.params}
        return PipelineError("SINK.BEHIND_CHECKPOINT", location=location, **details)
    otherwise = f"; or continue with new rows only: headrace run --reset-checkpoint {reset}"
    details = {"flow": flow.name, "name": str(flow.target), "checkpoint": checkpoint, "otherwise": otherwise}
    return PipelineError(found.code, location=location, **details, **found.params)


def _fallbacks(context: UpdateContext, flow: ResolvedFlow) -> dict[str, SpillQueue]:
    """The spill queues of sinks with a fallback, and of those with waiting batches."""
    found = {}
    for name, folder in context.state.spill_queues(context.graph, flow).items():
        sink = context.graph.by_name[context.naming.canonical(name)].dataset.sink
        spills = sink is not None and options_of(sink).get("fallback", NO_FALLBACK) != NO_FALLBACK
        if spills or spilled_batches(folder):
            why, report = partial(_why_down, context, flow), partial(_report, context, flow, name)
            found[name] = SpillQueue(folder, spills, why, time.monotonic, report)
    return found


def _why_down(context: UpdateContext, flow: ResolvedFlow, error: BaseException) -> str | None:
    problem = failure_report(flow.flow, error, context.root).error
    return context.reporting.redact(str(problem.params.get("reason", problem.message))) if is_outage(problem) else None


def _report(context: UpdateContext, flow: ResolvedFlow, sink: str, code: str, what: str) -> None:
    context.reporting.emit(Warned(code, f'flow "{flow.name}": sink "{sink}" {what}', flow.name, str(flow.target)))
