"""The code of the newest updates, from the event log."""

from __future__ import annotations

from headrace.events.envelope import from_row
from headrace.events.reader import EVENT_COLUMNS, EventReader
from headrace.events.types import UpdateCreated


def code_digests(reader: EventReader, newest: int) -> frozenset[str]:
    """The digests of the code of the newest updates; those of older versions have none.

    Args:
        reader: of the event log.
        newest: the number of updates.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    where = f"event_type = '{UpdateCreated.event_type}'"
    rows = reader.rows(", ".join(EVENT_COLUMNS), where, f"id DESC LIMIT {int(newest)}")
    events = (from_row(row) for row in rows)
    return frozenset(event.code_digest for event in events if isinstance(event, UpdateCreated) and event.code_digest)
