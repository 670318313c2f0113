"""Finds the flows that keep a savepoint from being a cut between batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from headrace.checkpoints.offsets import read_progress
from headrace.delta_log.tables import TableState, table_state
from headrace.errors import PipelineError
from headrace.graph.resolved_flows import Mode
from headrace.model.names import Naming, QualifiedName
from headrace.storage.backfills import stored_backfills
from headrace.storage.flow_stores import TABLE
from headrace.storage.health import FlowHealth
from headrace.storage.input_changes import has_unread_rows


def unfinished_flows(flows: Iterable[FlowHealth], naming: Naming) -> Iterator[PipelineError]:
    """SAVEPOINT.UNFINISHED for each flow that is inside a batch, or has not read its input tables to the end."""
    found = [*flows]
    states = {flow.stored.dataset: table_state(flow.stores.tables[TABLE]) for flow in found}
    tables = {state.table_id: (name, state) for name, state in states.items() if state is not None}
    for flow in found:
        reason = _reason(flow, naming, tables)
        if reason:
            yield PipelineError("SAVEPOINT.UNFINISHED", flow=flow.stored.name, reason=reason)


def _reason(flow: FlowHealth, naming: Naming, tables: Mapping[str, tuple[QualifiedName, TableState]]) -> str:
    record = flow.stored.record
    if flow.problem is not None:
        return f"it cannot continue ({flow.problem.code})"
    if record.resetting:
        return "its reset is not finished"
    if any(backfill.pending for backfill in stored_backfills(flow.stored.file.parent, naming.canonical)):
        return "its backfill or replay is not finished"
    if record.running and flow.stores.mode is Mode.SNAPSHOT:
        return "its snapshot is not finished"
    progress = read_progress(flow.stores.checkpoint) if flow.has_checkpoint else None
    if progress is None:
        return ""
    if not progress.completed:
        return f"its batch {progress.batch_id} is not finished"
    for offset in progress.offsets:
        known = tables.get(str(offset.get("reservoirId"))) if isinstance(offset, Mapping) else None
        if known is not None and has_unread_rows(known[1].path, known[1].version, offset):
            return f'it has not read all rows of "{known[0]}"'
    return ""
