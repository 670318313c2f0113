"""Streams into sinks that begin or go on: where their batches wait when a sink is down, and that these come first."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

from headrace.checkpoints.initial_offsets import newest_seeded
from headrace.checkpoints.offsets import newest_batches
from headrace.errors import PipelineError
from headrace.events.types import Warned
from headrace.graph.resolved import ResolvedFlow
from headrace.plan.agreement import NONE, Disagreement, KnownBatches, contradiction
from headrace.sinks.checks import options_of
from headrace.sinks.formats import NO_FALLBACK
from headrace.sinks.outages import is_outage
from headrace.spark.errors.spark_errors import failed
from headrace.spark.session.clone import clone_of
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.sinks.sink import delivered_as
from headrace.spark.sinks.sink_factory import deliveries, noting_sinks
from headrace.spark.sinks.sink_writer import SinkWriter
from headrace.spark.sinks.spill_queue import SpillPlace
from headrace.spark.update.context import UpdateContext
from headrace.storage.dead_letters import failing_rows_kept
from headrace.storage.flow_record import FlowRecord
from headrace.storage.spill_queue import clear_drafts, waiting_batches


def resumed(
    context: UpdateContext,
    flow: ResolvedFlow,
    record: FlowRecord,
    attempt: int,
    *,
    loading: AbstractContextManager[object],
    stopping: Callable[[], bool],
    by_spark: bool,
    delivered_before: bool,
) -> SinkWriter | None:
    """What takes the batches of a stream into its sinks; None where Spark itself writes them.

    What waits for a sink goes there first, also when nothing new comes.

    Args:
        context: the pipeline.
        flow: the stream.
        record: in which epoch it is, and since when.
        attempt: the how manieth try of this update.
        loading: is held while the session has the flow's settings.
        stopping: whether the update was told to stop.
        by_spark: the stream's rows are sent one by one, by Spark's own writer.
        delivered_before: the record knows under which name batches were delivered before this update.
    """
    fallbacks = _fallbacks(context, flow)
    taker = deliveries(context, flow, record, attempt, fallbacks=fallbacks)
    if taker is not None and delivered_before:
        _check_notes(context, flow, record, fallbacks)
    if taker is not None and taker.fallbacks:
        with loading, with_confs(context.session, {**record.confs, **flow.flow.spark_conf}):
            session = clone_of(context.session, context.work_group(flow.name))
        context.fence()
        for place in context.state.waiting(context.graph, flow).values():
            clear_drafts(place)
        taker.note_waiting()
        for sink in taker.fallbacks:
            sink.catch_up(session, stopping=stopping)
    return None if by_spark else taker


def _check_notes(
    context: UpdateContext, flow: ResolvedFlow, record: FlowRecord, fallbacks: Mapping[str, SpillPlace]
) -> None:
    """Compare what sinks have noted with what the checkpoint knows, before a batch is planned.

    Raises:
        PipelineError: FLOW.CHECKPOINT_OLD, SINK.BEHIND_CHECKPOINT.
    """
    checkpoint = context.state.checkpoint(flow, record.epoch)
    planned, done = (NONE if newest is None else newest for newest in newest_batches(checkpoint))
    done = max(done, planned - 1)
    # A batch without rows need not wait, and one that was set aside never comes: then a gap says nothing.
    policy = context.on_failing_rows.with_confs(flow.flow.spark_conf)
    spared = policy.whole_batches or failing_rows_kept(context.state.record_file(flow).parent)
    for name, sink in noting_sinks(context, flow).items():
        try:
            newest = sink.note_of(delivered_as(record.delivery, name), context.session).batch
        except Exception as error:
            if name not in fallbacks or fallbacks[name].outage(error) is None:
                raise
            # Its batches wait until it can be asked; it compares each of them.
            continue
        committed = None if spared or name in fallbacks else max(newest, newest_seeded(checkpoint))
        known = KnownBatches(record.epoch, NONE, planned, done, committed, {f'sink "{name}"': newest})
        found = contradiction(known)
        if found is not None:
            raise _disagreement(flow, name, checkpoint, found)


def _disagreement(flow: ResolvedFlow, sink: str, checkpoint: Path, found: Disagreement) -> PipelineError:
    place, reset = flow.flow.location, f"{flow.name}=latest"
    if found.code == "FLOW.TABLE_OLD":
        said = {"flow": flow.name, "name": sink, "target": str(flow.target), "reset": reset, **found.said}
        return PipelineError("SINK.BEHIND_CHECKPOINT", location=place, **said)
    otherwise = f"; or continue with new rows only: headrace run --reset-checkpoint {reset}"
    said = {"flow": flow.name, "name": str(flow.target), "checkpoint": str(checkpoint), "otherwise": otherwise}
    return PipelineError(found.code, location=place, **said, **found.said)


def _fallbacks(context: UpdateContext, flow: ResolvedFlow) -> dict[str, SpillPlace]:
    """Where batches wait, for the sinks that may be down, and for those for which some do."""
    found = {}
    for name, place in context.state.waiting(context.graph, flow).items():
        sink = context.graph.by_name[context.naming.canonical(name)].dataset.sink
        keeps = sink is not None and options_of(sink).get("fallback", NO_FALLBACK) != NO_FALLBACK
        if keeps or waiting_batches(place):
            why, tell = partial(_why_down, context, flow), partial(_tell, context, flow, name)
            found[name] = SpillPlace(place, keeps, why, time.monotonic, tell)
    return found


def _why_down(context: UpdateContext, flow: ResolvedFlow, error: BaseException) -> str | None:
    problem = failed(flow.flow, error, context.root).error
    return context.redact(str(problem.params.get("reason", problem.message))) if is_outage(problem) else None


def _tell(context: UpdateContext, flow: ResolvedFlow, sink: str, code: str, what: str) -> None:
    context.emit(Warned(code, f'flow "{flow.name}": sink "{sink}" {what}', flow.name, str(flow.target)))
