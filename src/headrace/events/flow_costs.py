"""What a row costs a flow, from the batches of its last days in the event log."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta
from statistics import median

from headrace.delta_log.tables import sql_literal
from headrace.events.envelope import from_row, id_floor, seq_no_at
from headrace.events.levels import Level
from headrace.events.reader import EVENT_COLUMNS, EventReader
from headrace.events.types import BatchDone, StreamProgress

_DAYS = timedelta(days=7)
# The newest ones: a stream may have thousands a day.
_MOST_EVENTS = 2000


def core_seconds_per_row(reader: EventReader, flows: Collection[str], now: datetime) -> dict[str, float]:
    """For each flow, the median over its batches of the time of all cores for a row that it read.

    A flow is missing if no batch of the last seven days has read rows, or if their time is unknown.

    Args:
        reader: of the event log.
        flows: the names of the flows.
        now: the end of the seven days.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    if not flows:
        return {}
    names = ", ".join(map(sql_literal, sorted(flows)))
    where = (
        f"id >= '{id_floor(seq_no_at(now - _DAYS))}' AND level = '{Level.METRICS.value}' "
        f"AND event_type IN ('{BatchDone.event_type}', '{StreamProgress.event_type}') "
        f"AND origin['flow_name'] IN ({names})"
    )
    costs: dict[str, list[float]] = {}
    for row in reader.rows(", ".join(EVENT_COLUMNS), where, f"id DESC LIMIT {_MOST_EVENTS}"):
        event = from_row(row)
        match event:
            case StreamProgress():
                rows, time = event.progress.input_rows, event.progress.executor_time
            case BatchDone():
                rows, time = event.counts.rows_read, event.executor_time
            case _:
                continue
        if rows and time is not None:
            costs.setdefault(event.flow, []).append(time.run_ms / 1000 / rows)
    return {flow: median(found) for flow, found in costs.items()}
