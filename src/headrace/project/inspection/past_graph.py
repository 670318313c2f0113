"""The graph as an update saw it: its definitions, and how its flows ended; from the event log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from headrace.assistant.doctor.facts import Logged
from headrace.delta_log.tables import sql_literal
from headrace.errors import PipelineError
from headrace.events.envelope import id_floor
from headrace.events.reader import EventReader, created_at
from headrace.events.recorded import find_update, recorded_rows
from headrace.events.types import DatasetDefined, FlowDefined, SinkDefined, UpdateCreated
from headrace.metrics import catalogue
from headrace.metrics.samples import Samples
from headrace.model.outcome import Outcome, UpdateState

_UPDATES = 50
_DEFINITIONS = ", ".join(f"'{kind.event_type}'" for kind in (DatasetDefined, SinkDefined, FlowDefined))


@dataclass(frozen=True)
class PastGraph:
    """The graph of an update.

    Attributes:
        update_id: of the update.
        as_of: when the update began.
        logged: the definitions of the update; those that it did not record are of the updates before.
        samples: the state of each flow at the end of the update, or now while it runs.
    """

    update_id: str
    as_of: datetime
    logged: Logged
    samples: Samples


def past_graph(reader: EventReader, beginning: str, may_run: Callable[[str], bool]) -> PastGraph:
    """The graph as an update saw it.

    Args:
        reader: of the event log.
        beginning: of the id of the update.
        may_run: whether a process may run an update now.

    Raises:
        PipelineError: TRACE.NO_UPDATE, EVENTS.NOT_READABLE.
    """
    update_id = find_update(reader, beginning) if beginning else None
    first = None if update_id is None else created_at(reader, update_id)
    outcome = None if update_id is None else reader.outcome(update_id)
    if update_id is None or first is None or outcome is None:
        raise PipelineError("TRACE.NO_UPDATE", update=beginning)
    if outcome.state is UpdateState.RUNNING and not may_run(update_id):
        # It may have ended since the log was read.
        newest = reader.outcome(update_id) or outcome
        outcome = newest.as_lost() if newest.state is UpdateState.RUNNING else newest
    return PastGraph(update_id, outcome.started_at, _definitions(reader, update_id, first), _states(outcome))


def _definitions(reader: EventReader, update_id: str, first: int) -> Logged:
    """The definitions of an update, and of those before it since the newest one of all datasets."""
    created = f"event_type = '{UpdateCreated.event_type}' AND id < '{id_floor(first + 1)}'"
    before = recorded_rows(reader, created, f"id DESC LIMIT {_UPDATES}")
    whole = next((one for one in before if isinstance(one.event, UpdateCreated) and one.event.is_whole), None)
    since = "" if not before else (whole or before[-1]).row_id
    own = f"id >= '{id_floor(first)}' AND origin['update_id'] = {sql_literal(update_id)}"
    earlier = f"id >= {sql_literal(since)} AND id < '{id_floor(first)}'"
    # What an update defines itself comes last, and counts.
    where = f"event_type IN ({_DEFINITIONS}) AND (({earlier}) OR ({own}))"
    events = [one.event for one in recorded_rows(reader, where)]
    return Logged(
        flows={one.flow: one for one in events if isinstance(one, FlowDefined)},
        datasets={one.dataset: one for one in events if isinstance(one, DatasetDefined)},
        sinks={one.dataset: one for one in events if isinstance(one, SinkDefined)},
    )


def _states(outcome: Outcome) -> Samples:
    found = Samples()
    for flow in outcome.flows:
        found.set(catalogue.FLOW_STATE, 1, flow.flow, flow.dataset, flow.state.value)
    return found
