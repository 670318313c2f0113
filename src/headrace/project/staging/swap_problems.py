"""Why a stage cannot be swapped in, what streams below would lose, and what happens besides."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from headrace.checkpoints.offsets import read_progress
from headrace.delta_log.table_files import is_outside
from headrace.delta_log.table_layout import table_layout
from headrace.delta_log.tables import TableState, table_state
from headrace.errors import PipelineError
from headrace.graph.new_tables import maps_names
from headrace.graph.resolved_flows import Mode
from headrace.plan.agreement import NONE
from headrace.project.staging.same_input import input_difference
from headrace.project.staging.swap_facts import SwapFacts, tables_read
from headrace.storage.adopted_tables import AdoptedTables, Consent, needs_consent
from headrace.storage.backfills import stored_backfills
from headrace.storage.flow_record import FlowRecord
from headrace.storage.flow_stores import TABLE
from headrace.storage.health import FlowHealth
from headrace.storage.input_changes import has_unread_rows
from headrace.storage.savepoints.pins import version_files
from headrace.storage.stages.manifest import StagedFlow
from headrace.storage.table_positions import read_positions

# Features of tables that number rows.
_NUMBERING = frozenset({"rowtracking", "identitycolumns"})


def swap_problems(facts: SwapFacts) -> Iterator[PipelineError]:
    """Why a swap is not possible: STAGE.*."""
    yield from _problems_of_tables(facts)
    yield from _problems_of_flows(facts)
    for flow in facts.readers:
        reason = _why_not_movable(flow, facts.replaced)
        if reason:
            yield PipelineError("STAGE.READER_BEHIND", flow=flow.stored.name, reason=reason)


def swap_losses(facts: SwapFacts) -> Iterator[str]:
    """Where streams that are moved behind the swap would miss rows, or get rows again, in sentences."""
    if not facts.readers:
        return
    read = frozenset[str]().union(*map(tables_read, facts.readers)) & facts.replaced.keys()
    above = {state.path for table_id, state in facts.replaced.items() if table_id in facts.upstream(read)}
    states = (table_state(flow.stores.tables[TABLE]) for flow in facts.production)
    known = {state.table_id: state for state in states if state is not None}
    below = ", ".join(sorted({str(reader.stored.dataset) for reader in facts.readers}))
    for flow in facts.into:
        own = facts.by_folder.get(facts.folder(flow))
        if own is None or flow.stores.tables[TABLE] not in above:
            continue
        difference = input_difference(flow, own, facts.pairs, known)
        if difference is not None:
            yield f'flow "{flow.stored.name}" has not read the same in the stage: {difference}; below it: {below}'


def swap_notes(facts: SwapFacts) -> Iterator[str]:
    """What a swap does not do, in sentences."""
    for flow in facts.readers:
        is_sink = table_state(flow.stores.tables[TABLE]) is None
        kept = "what was delivered from the old rows" if is_sink else "its rows, which are computed from the old rows"
        yield f'"{flow.stored.dataset}" keeps {kept}'
    folders = [f"{facts.folder(flow)}/".removeprefix("checkpoints/") for flow in facts.production]
    for position in read_positions(facts.settings.layout.root).known:
        if position.table_id in facts.replaced and not any(f"{position.reader}/".startswith(one) for one in folders):
            yield f"the stream with the checkpoint {position.reader} is not of the pipeline, and has to start again"


def _problems_of_tables(facts: SwapFacts) -> Iterator[PipelineError]:
    for name, (now, own) in facts.tables.items():
        if own is None:
            yield PipelineError("STAGE.NOT_BUILT", stage=facts.stage.name, name=name)
        elif now is None:
            yield PipelineError("STAGE.NOT_DEPLOYED", name=name)
        else:
            adopted = AdoptedTables(facts.settings.layout).at(now.path)
            reason = needs_consent(adopted, Consent.CLEAR) or _why_not_replaceable(now, own)
            if reason:
                yield PipelineError("STAGE.TABLE", name=name, reason=reason)


def _why_not_replaceable(now: TableState, own: TableState) -> str:
    numbering = sorted(_NUMBERING & (table_layout(now.path).features | table_layout(own.path).features))
    if numbering:
        return f"one of the two tables has {', '.join(numbering)}, and its numbers could be used twice"
    if maps_names(now.properties) and not maps_names(own.properties):
        return "it has column mapping, which Delta cannot take away, and the staged table does not have it"
    if any(map(is_outside, version_files(own.path, own.version))):
        return "the staged table has files outside of its folder"
    return ""


def _problems_of_flows(facts: SwapFacts) -> Iterator[PipelineError]:
    """What has changed in production since, and what the stage has not finished."""
    records = {facts.folder(flow): flow.stored.record for flow in facts.into}
    own_tables = {state.table_id: state for _, state in facts.tables.values() if state is not None}
    stage = facts.stage.name
    for then in facts.stage.flows:
        changed = _change(then, records.get(then.folder))
        if changed:
            yield PipelineError("STAGE.PRODUCTION_CHANGED", flow=then.name, reason=changed, stage=stage)
        own = facts.by_folder.get(then.folder)
        reason = "it has not run" if own is None or not own.stored.has_run else _why_unfinished(own, own_tables)
        if reason:
            yield PipelineError("STAGE.UNFINISHED", flow=then.name, reason=reason, stage=stage)
    for flow in facts.into:
        backfills = stored_backfills(flow.stored.file.parent, facts.settings.naming.canonical)
        if any(backfill.pending for backfill in backfills):
            reason = "its backfill or replay is not finished"
            yield PipelineError("STAGE.READER_BEHIND", flow=flow.stored.name, reason=reason)


def _change(then: StagedFlow, now: FlowRecord | None) -> str:
    """What has happened to a flow of production since the stage was made; empty for nothing."""
    if now is None:
        return "it is gone from production" if then.production_epoch != NONE else ""
    if then.production_epoch == NONE:
        return "it has run in production"
    if now.epoch != then.production_epoch:
        return "it was reset or restored in production"
    return "it has run other code in production" if now.fingerprint != then.production_fingerprint else ""


def _why_unfinished(flow: FlowHealth, tables: Mapping[str, TableState]) -> str:
    if flow.problem is not None:
        return f"it cannot continue ({flow.problem.code})"
    if flow.stored.record.resetting:
        return "its reset is not finished"
    if flow.stored.record.running and not flow.has_checkpoint:
        return "its last run was interrupted"
    return _open_batch(flow) or _unread_table(flow, tables)


def _why_not_movable(flow: FlowHealth, tables: Mapping[str, TableState]) -> str:
    if flow.problem is not None:
        return f"it cannot continue ({flow.problem.code})"
    if flow.stored.record.resetting:
        return "its reset is not finished"
    if flow.stores.mode is Mode.SNAPSHOT:
        return "it reads the versions of a table as snapshots, and would take the swap for one"
    return _open_batch(flow) or _unread_table(flow, tables)


def _open_batch(flow: FlowHealth) -> str:
    progress = read_progress(flow.stores.checkpoint) if flow.has_checkpoint else None
    return "" if progress is None or progress.completed else f"its batch {progress.batch_id} is not finished"


def _unread_table(flow: FlowHealth, tables: Mapping[str, TableState]) -> str:
    progress = read_progress(flow.stores.checkpoint) if flow.has_checkpoint else None
    for offset in progress.offsets if progress is not None else ():
        table = tables.get(str(offset.get("reservoirId"))) if isinstance(offset, Mapping) else None
        if table is not None and has_unread_rows(table.path, table.version, offset):
            return f"it has not read all rows of the table at {table.path}"
    return ""
