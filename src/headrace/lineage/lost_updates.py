"""Updates whose process is gone: the next update reports how their runs ended."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from headrace.delta_log.tables import sql_literal
from headrace.events.envelope import from_row, id_floor
from headrace.events.levels import Level
from headrace.events.reader import EVENT_COLUMNS, EventReader, created_at
from headrace.events.types import TERMINAL_UPDATE_STATES, Event, UpdateCreated, UpdateStateChanged, Warned

# The code of the warning that records that the ends of an update's runs were reported.
RUNS_ENDED = "LINEAGE.RUNS_ENDED"
# The settings of lineage in the event that begins an update; missing if nothing was sent.
RECORDED_AS = "lineage"
_BEGINS_AND_ENDS = (
    f"event_type IN ('{UpdateCreated.event_type}', '{UpdateStateChanged.event_type}') "
    f"OR (event_type = '{Warned.event_type}' AND strpos(details, '{RUNS_ENDED}') > 0)"
)
# More than the events of all updates that can be lost in a row.
_MOST_EVENTS = 500


@dataclass(frozen=True)
class LostUpdate:
    """An update that has no end in the log, and the namespace in which its runs were reported."""

    update_id: str
    namespace: str


def lost_updates(reader: EventReader, own_id: str) -> list[LostUpdate]:
    """The updates without an end, newest first, back to the last one that ended or was reported.

    Args:
        reader: of the log.
        own_id: the update that asks; it holds the lease, so no other one runs.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    found: list[LostUpdate] = []
    done = {own_id}
    for row in reader.rows(", ".join(EVENT_COLUMNS), _BEGINS_AND_ENDS, f"id DESC LIMIT {_MOST_EVENTS}"):
        update_id, event = str(row["origin"]["update_id"]), from_row(row)
        match event:
            case Warned(facts=facts):
                done.add(str(facts.get("update_id")))
            case UpdateStateChanged(state=state) if state in TERMINAL_UPDATE_STATES:
                done.add(update_id)
            case UpdateCreated(settings=settings) if update_id not in done:
                recorded = settings.get(RECORDED_AS)
                if recorded:
                    found.append(LostUpdate(update_id, str(recorded["namespace"])))
            case UpdateCreated() if update_id != own_id:
                break
            case _:
                pass
    return found


def events_of_update(reader: EventReader, update_id: str) -> Iterator[tuple[Event, datetime]]:
    """The events of an update and their times, in order, without those about batches.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    first = created_at(reader, update_id)
    where = f"id >= '{id_floor(first or 0)}' AND level <> '{Level.METRICS.value}'"
    where += f" AND origin['update_id'] = {sql_literal(update_id)}"
    for row in reader.rows(", ".join(EVENT_COLUMNS), where):
        event = from_row(row)
        if event is not None:
            yield event, row["timestamp"]


def last_sign_of_life(reader: EventReader, update_id: str) -> datetime | None:
    """The time of the newest event of an update; None without one.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    where = f"origin['update_id'] = {sql_literal(update_id)}"
    rows = reader.rows(", ".join(EVENT_COLUMNS), where, "id DESC LIMIT 1")
    return rows[0]["timestamp"] if rows else None
