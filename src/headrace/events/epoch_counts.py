"""The counts of one epoch of a flow, from the event log."""

from __future__ import annotations

from headrace.delta_log.tables import sql_literal
from headrace.events.envelope import from_row
from headrace.events.outcome import Tally
from headrace.events.reader import EVENT_COLUMNS, EventReader
from headrace.events.types import BatchDone, FlowStateChanged
from headrace.model.outcome import FlowCounts


def counts_of_epoch(reader: EventReader, flow: str, epoch: int, *, newest: bool) -> FlowCounts | None:
    """The counts of the batches of an epoch, as far as the log still has them; None if it has none.

    Args:
        reader: of the event log.
        flow: the name of the flow.
        epoch: its epoch.
        newest: only those of the newest batch, as each batch replaces the table.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    where = f"event_type = '{FlowStateChanged.event_type}' AND origin['flow_name'] = {sql_literal(flow)}"
    where += f" AND origin['epoch'] = {int(epoch)} AND origin['batch_id'] IS NOT NULL"
    rows = reader.rows(", ".join(EVENT_COLUMNS), where)
    batches = [event for event in map(from_row, rows) if isinstance(event, BatchDone)]
    tally = Tally()
    for batch in batches[-1:] if newest else batches:
        tally.add(batch)
    return tally.totals.get(flow)
