"""Reads the trace of an update from the event log. Needs no session, and no process of the update."""

from __future__ import annotations

import time
from collections.abc import Mapping

from headrace.errors import PipelineError
from headrace.events.reader import EventReader
from headrace.events.recorded import batches_of_update, events_of_update, find_update, has_ended
from headrace.metrics.trace import Trace, trace_of
from headrace.project.lease_holders import host_name, liveness
from headrace.settings.settings import Settings


def update_trace(
    settings: Settings, environ: Mapping[str, str], update_id: str | None, newest_batches: int
) -> Trace | None:
    """The trace of an update; None if no update has run yet.

    Args:
        settings: the pipeline's.
        environ: the environment variables.
        update_id: the update, or the beginning of its id; None for the latest.
        newest_batches: only so many batches of each flow, the newest.

    Raises:
        PipelineError: TRACE.NO_UPDATE: no update has this id; EVENTS.NOT_READABLE.
    """
    reader = EventReader(settings.layout.events)
    found = reader.latest_update_id() if update_id is None else find_update(reader, update_id)
    if found is None:
        if update_id is None:
            return None
        raise PipelineError("TRACE.NO_UPDATE", update=update_id)
    trace = _trace(reader, found, newest_batches)
    if trace is None or not trace.is_running:
        return trace
    if liveness(settings.layout.lease, host_name(environ), time.time).may_run(found):
        return trace
    # It may have ended since the log was read. To read all of it again takes long after a long update.
    return _trace(reader, found, newest_batches) if has_ended(reader, found) else trace.as_lost()


def _trace(reader: EventReader, update_id: str, newest_batches: int) -> Trace | None:
    # An update may have run for months.
    events = events_of_update(reader, update_id, newest_batches)
    return trace_of(events, newest_batches, batches_of_update(reader, update_id))
