"""Records what the event log knew of expired events, before they are removed."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from headrace.events.expiry import Horizon
from headrace.events.reader import EventReader
from headrace.events.recorded import newest_trimming, recorded_events
from headrace.events.types import Event
from headrace.events.upkeep import LogTrimmed
from headrace.metrics.trimmed import horizon_of, trimmed_fold


def record_trimming(reader: EventReader, horizon: Horizon, emit: Callable[[Event], datetime]) -> None:
    """Record the metrics of all events that a horizon covers, also of those that were removed before.

    Raises:
        PipelineError: EVENTS.NOT_READABLE, EVENTS.NOT_WRITTEN.
    """
    before = newest_trimming(reader)
    fold = trimmed_fold(before)
    earlier = horizon_of(before)
    for recorded in recorded_events(reader, until=horizon):
        if not earlier.covers(recorded.row_id, recorded.event):
            fold.apply(recorded.event, recorded.at, recorded.update_id)
    emit(LogTrimmed(horizon.before, horizon.metrics_before, fold.to_json()))
