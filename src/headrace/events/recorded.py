"""The events of all updates, for readers that continue where they stopped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from headrace.delta_log.tables import sql_literal
from headrace.events.envelope import from_row
from headrace.events.expiry import Horizon
from headrace.events.reader import EVENT_COLUMNS, EventReader
from headrace.events.types import Event
from headrace.events.upkeep import LogTrimmed


@dataclass(frozen=True)
class Recorded:
    """An event of the log, with the id of its row."""

    row_id: str
    update_id: str
    at: datetime
    event: Event


def recorded_events(
    reader: EventReader, after_id: str | None = None, *, until: Horizon | None = None
) -> Iterator[Recorded]:
    """The events of all updates, oldest first; events that this version does not know are left out.

    Args:
        reader: of the log.
        after_id: the id of the last row already known; None for all.
        until: only the events that it covers.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    where = "TRUE" if after_id is None else f"id > {sql_literal(after_id)}"
    where += "" if until is None else f" AND {until.condition}"
    for row in reader.rows(", ".join(EVENT_COLUMNS), where):
        try:
            event = from_row(row)
        except (LookupError, TypeError, ValueError, AttributeError):
            # Another version wrote it.
            continue
        if event is not None:
            yield Recorded(row["id"], row["origin"]["update_id"], row["timestamp"], event)


def newest_trimming(reader: EventReader) -> LogTrimmed | None:
    """What was last recorded before expired events were removed; None if none were.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    rows = reader.rows(", ".join(EVENT_COLUMNS), f"event_type = '{LogTrimmed.event_type}'", "id DESC LIMIT 1")
    with suppress(LookupError, TypeError, ValueError, AttributeError):
        event = from_row(rows[0])
        return event if isinstance(event, LogTrimmed) else None
    return None


def continues(reader: EventReader, row_id: str) -> bool:
    """Whether the log continues one that had a row with this id.

    True if the row is there, or if all rows are newer, because older ones were removed. False if the log was restored
    to an earlier state, or belongs to another pipeline.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    if reader.rows("id", f"id = {sql_literal(row_id)}"):
        return True
    (bounds,) = reader.rows("min(id) AS oldest", "TRUE", "1") or [{"oldest": None}]
    return bounds["oldest"] is not None and bounds["oldest"] > row_id
