"""The events of one update: counted, and a part of them, the newest first; and how its flows began."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.delta_log.tables import sql_literal
from headrace.events.envelope import from_row
from headrace.events.levels import Level
from headrace.events.reader import EVENT_COLUMNS, EventReader
from headrace.events.recorded import Recorded, of_update, recorded_rows
from headrace.events.types import Event, FlowDefined, FlowStateChanged, UpdateCreated, Warned

# By level and flow; the flow is empty for events of no flow.
EventCounts = Mapping[tuple[Level, str], int]


@dataclass(frozen=True)
class EventChoice:
    """Which events of an update are wanted.

    Attributes:
        levels: only of these levels.
        flow: only of this flow; empty for all, and for events of no flow.
    """

    levels: frozenset[Level]
    flow: str = ""

    def total(self, counts: EventCounts) -> int:
        """How many events are wanted."""
        return sum(
            number
            for (level, flow), number in counts.items()
            if level in self.levels and (not self.flow or flow == self.flow)
        )


@dataclass(frozen=True)
class ListedEvent:
    """An event as a line of a list.

    Attributes:
        at: when it was recorded.
        level: of the event.
        event_type: of the event.
        flow: that it is about; None for none.
        dataset: that it is about; None for none.
        message: its text.
        code: of the error or the warning; None without one, and if another version wrote it.
    """

    at: datetime
    level: str
    event_type: str
    flow: str | None
    dataset: str | None
    message: str
    code: str | None = None


def event_counts(reader: EventReader, update_id: str) -> EventCounts:
    """How many events an update has, by level and flow.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    columns = "level, origin['flow_name'] AS flow, count(*) AS number"
    rows = reader.rows(columns, f"{of_update(reader, update_id)} GROUP BY level, origin['flow_name']", "1, 2")
    known = {level.value: level for level in Level}
    return {(known[row["level"]], str(row["flow"] or "")): int(row["number"]) for row in rows if row["level"] in known}


def newest_events(
    reader: EventReader, update_id: str, choice: EventChoice, first: int, most: int
) -> tuple[ListedEvent, ...]:
    """Some events of an update, the newest first.

    Args:
        reader: of the log.
        update_id: the update.
        choice: which of its events.
        first: how many newer ones are passed over.
        most: how many are returned, at most.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    levels = ", ".join(sorted(sql_literal(level.value) for level in choice.levels))
    where = f"{of_update(reader, update_id)} AND level IN ({levels})"
    where += f" AND origin['flow_name'] = {sql_literal(choice.flow)}" if choice.flow else ""
    # Texts are read of the events that are returned alone: of a long update, the others are many.
    ids = [row["id"] for row in reader.rows("id", where, f"id DESC LIMIT {int(most)} OFFSET {int(first)}")]
    if not ids:
        return ()
    columns = ", ".join((*EVENT_COLUMNS, "level"))
    rows = reader.rows(columns, f"id IN ({', '.join(map(sql_literal, ids))})", "id DESC")
    return tuple(map(_listed, rows))


def first_states(reader: EventReader, update_id: str) -> list[Recorded]:
    """The event that created an update, and the first state of each of its flows, which has the reason of the plan.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    kinds = f"event_type IN ('{UpdateCreated.event_type}', '{FlowStateChanged.event_type}')"
    where = f"{of_update(reader, update_id)} AND {kinds} AND level <> '{Level.METRICS.value}'"
    firsts = reader.rows("min(id) AS first", f"{where} GROUP BY event_type, origin['flow_name']", "1")
    ids = ", ".join(sql_literal(row["first"]) for row in firsts)
    return recorded_rows(reader, f"id IN ({ids})") if ids else []


def failed_attempts(reader: EventReader, flow: str, first_id: str, newest: int) -> list[Recorded]:
    """The newest attempts of a flow that ended with an error, oldest first.

    Args:
        reader: of the log.
        flow: its name.
        first_id: the smallest id of the events to look at.
        newest: how many, at most.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    where = (
        f"id >= {sql_literal(first_id)} AND event_type = '{FlowStateChanged.event_type}' "
        f"AND level IN ('{Level.ERROR.value}', '{Level.WARN.value}') AND origin['flow_name'] = {sql_literal(flow)}"
    )
    found = recorded_rows(reader, where, f"id DESC LIMIT {int(newest)}")
    return [one for one in reversed(found) if isinstance(one.event, FlowStateChanged) and one.event.error]


def query_digests(reader: EventReader, flow: str, update_ids: Collection[str], first_id: str) -> dict[str, str | None]:
    """The digest of a flow's query in some updates, by their ids; None if an older version did not record it.

    Args:
        reader: of the log.
        flow: its name.
        update_ids: the updates.
        first_id: the smallest id of the events to look at.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    if not update_ids:
        return {}
    updates = ", ".join(map(sql_literal, sorted(update_ids)))
    where = (
        f"id >= {sql_literal(first_id)} AND event_type = '{FlowDefined.event_type}' "
        f"AND origin['flow_name'] = {sql_literal(flow)} AND origin['update_id'] IN ({updates})"
    )
    found = recorded_rows(reader, where)
    return {one.update_id: one.event.query_digest for one in found if isinstance(one.event, FlowDefined)}


def _listed(row: Mapping[str, Any]) -> ListedEvent:
    origin = row["origin"]
    code = _code_of(row) if row["level"] in (Level.WARN.value, Level.ERROR.value) else None
    subject = (origin["flow_name"] or None, origin["dataset_name"] or None)
    return ListedEvent(row["timestamp"], row["level"], row["event_type"], *subject, str(row["message"] or ""), code)


def _code_of(row: Mapping[str, Any]) -> str | None:
    try:
        event: Event | None = from_row(row)
    except (LookupError, TypeError, ValueError, AttributeError):
        # Another version wrote it.
        return None
    if isinstance(event, Warned):
        return event.code
    error = getattr(event, "error", None)
    return str(error["code"]) if isinstance(error, Mapping) and error.get("code") else None
