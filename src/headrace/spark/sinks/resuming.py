"""Streams into sinks that begin or go on: where their batches wait when a sink is down, and that these come first."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

from headrace.checkpoints.records import FlowRecord
from headrace.checkpoints.waiting import clear_drafts, waiting_batches
from headrace.events.types import Warned
from headrace.graph.resolved import ResolvedFlow
from headrace.sinks.checks import options_of
from headrace.sinks.formats import NO_FALLBACK
from headrace.sinks.outages import is_outage
from headrace.spark.failures import failed
from headrace.spark.in_force import with_confs
from headrace.spark.session import clone_of
from headrace.spark.sinks.fallback import WaitingPlace
from headrace.spark.sinks.making import deliveries
from headrace.spark.sinks.target import SinkTarget
from headrace.spark.surroundings import Surroundings


def resumed(
    around: Surroundings,
    flow: ResolvedFlow,
    record: FlowRecord,
    attempt: int,
    *,
    loading: AbstractContextManager[object],
    stopping: Callable[[], bool],
    by_spark: bool,
) -> SinkTarget | None:
    """What takes the batches of a stream into its sinks; None where Spark itself writes them.

    What waits for a sink goes there first, also when nothing new comes.

    Args:
        around: the pipeline.
        flow: the stream.
        record: in which epoch it is, and since when.
        attempt: the how manieth try of this update.
        loading: is held while the session has the flow's settings.
        stopping: whether the update was told to stop.
        by_spark: the stream's rows are sent one by one, by Spark's own writer.
    """
    taker = deliveries(around, flow, record, attempt, fallbacks=_fallbacks(around, flow))
    if taker is not None and taker.fallbacks:
        with loading, with_confs(around.session, {**record.confs, **flow.flow.spark_conf}):
            session = clone_of(around.session, around.work_group(flow.name))
        around.fence()
        for place in around.state.waiting(around.graph, flow).values():
            clear_drafts(place)
        taker.note_waiting()
        for sink in taker.fallbacks:
            sink.catch_up(session, stopping=stopping)
    return None if by_spark else taker


def _fallbacks(around: Surroundings, flow: ResolvedFlow) -> dict[str, WaitingPlace]:
    """Where batches wait, for the sinks that may be down, and for those for which some do."""
    found = {}
    for name, place in around.state.waiting(around.graph, flow).items():
        sink = around.graph.by_name[around.naming.canonical(name)].dataset.sink
        keeps = sink is not None and options_of(sink).get("fallback", NO_FALLBACK) != NO_FALLBACK
        if keeps or waiting_batches(place):
            why, tell = partial(_why_down, around, flow), partial(_tell, around, flow, name)
            found[name] = WaitingPlace(place, keeps, why, time.monotonic, tell)
    return found


def _why_down(around: Surroundings, flow: ResolvedFlow, error: BaseException) -> str | None:
    problem = failed(flow.flow, error, around.root).error
    return around.redact(str(problem.params.get("reason", problem.message))) if is_outage(problem) else None


def _tell(around: Surroundings, flow: ResolvedFlow, sink: str, code: str, what: str) -> None:
    around.emit(Warned(code, f'flow "{flow.name}": sink "{sink}" {what}', flow.name, str(flow.target)))
