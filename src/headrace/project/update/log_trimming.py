"""Records what the event log knew of expired events, before they are removed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from headrace.events.expiry import Horizon
from headrace.events.reader import EventReader
from headrace.events.recorded import recorded_events, trimming_to_continue
from headrace.events.types import Event
from headrace.events.upkeep import LogTrimmed
from headrace.metrics.trimmed import fold_to_continue, horizon_of


def record_trimming(reader: EventReader, horizon: Horizon, emit: Callable[[Event], datetime]) -> None:
    """Record the metrics of all events that a horizon covers, also of those that were removed before.

    Raises:
        PipelineError: EVENTS.NOT_READABLE, also if the earlier record cannot be read: its sums would be lost;
            EVENTS.NOT_WRITTEN.
    """
    before = trimming_to_continue(reader)
    try:
        fold = fold_to_continue(before)
    except ValueError as error:
        raise reader.unreadable(error) from error
    earlier = horizon_of(before)
    # It goes back if events are to be kept longer than before. What was counted stays counted.
    horizon = horizon.union(earlier)
    for recorded in recorded_events(reader, until=horizon):
        if not earlier.covers(recorded.row_id, recorded.event):
            fold.apply(recorded.event, recorded.at, recorded.update_id)
    emit(LogTrimmed(horizon.before, horizon.metrics_before, fold.to_json()))
