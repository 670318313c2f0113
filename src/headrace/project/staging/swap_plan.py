"""What a swap would do, and why it is not possible; read without Spark and without the project's code."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from uuid import uuid4

from headrace.delta_log.table_files import live_files
from headrace.delta_log.tables import TableState, table_state
from headrace.errors import PipelineError
from headrace.plan.agreement import NONE
from headrace.project.staging.swap_facts import SwapFacts
from headrace.project.staging.swap_problems import swap_losses, swap_notes, swap_problems
from headrace.storage.dead_letter_tables import dead_letter_table
from headrace.storage.flow_record import next_epoch
from headrace.storage.flow_records import transaction_id
from headrace.storage.flow_stores import QUARANTINE, RETAINED_EVENTS, TABLE, tables_of
from headrace.storage.health import FlowHealth
from headrace.storage.stages.manifest import FlowStep, FlowToSwap, Swap, TableStep, TableToSwap
from headrace.stores.paths import relative_path, storage_path

_ROLES = {TABLE: "", QUARANTINE: ", quarantine", RETAINED_EVENTS: ", changes"}


@dataclass(frozen=True)
class TableChange:
    """How a swap changes a table, for the reader; versions and rows are None if they are unknown."""

    name: str
    step: TableStep
    version: int | None
    staged_version: int | None
    rows: int | None
    staged_rows: int | None


@dataclass(frozen=True)
class SwapPlan:
    """What a swap would do.

    Attributes:
        swap: the steps.
        changes: of tables, for the reader.
        problems: why it is not possible.
        losses: rows that streams below would miss, or get again, in sentences.
        notes: what it does not do, in sentences.
    """

    swap: Swap
    changes: tuple[TableChange, ...]
    problems: tuple[PipelineError, ...] = ()
    losses: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def plan_swap(facts: SwapFacts) -> SwapPlan:
    """What a swap does."""
    steps = list(_table_steps(facts))
    flows = (*_staged_flows(facts), *_cleared_flows(facts), *(_moved_flow(facts, flow) for flow in facts.readers))
    swap = Swap(uuid4().hex, facts.stage.name, tuple(table for table, _ in steps), flows)
    return SwapPlan(
        swap,
        tuple(change for _, change in steps),
        tuple(swap_problems(facts)),
        tuple(swap_losses(facts)),
        tuple(swap_notes(facts)),
    )


def _table_steps(facts: SwapFacts) -> Iterator[tuple[TableToSwap, TableChange]]:
    naming = facts.settings.naming
    for name in facts.tables:
        own = tables_of(facts.staged.layout, naming, name)
        flows = [flow for flow in facts.own if flow.stored.dataset == name]
        committed = (_committed(flow, facts.settings.id, flow.stored.record.epoch) for flow in flows)
        batches = dict(batch for batch in committed if batch is not None)
        for role, path in tables_of(facts.settings.layout, naming, name).items():
            yield from _table_step(facts, f"{name}{_ROLES[role]}", path, own[role], batches if role == TABLE else {})
    for folder in sorted({*facts.by_folder, *map(facts.folder, facts.into)}):
        letters, own_letters = (dead_letter_table(root / folder) for root in (facts.root, facts.own_root))
        yield from _table_step(facts, f"{folder.rpartition('/')[2]}, dead letters", letters, own_letters, {})


def _table_step(
    facts: SwapFacts, name: str, path: str, own_path: str, batches: Mapping[str, int]
) -> Iterator[tuple[TableToSwap, TableChange]]:
    now, own = table_state(path), table_state(own_path)
    if now is None and own is None:
        return
    step = TableStep.EMPTIED if own is None else TableStep.ADDED if now is None else TableStep.REPLACED
    place = str(relative_path(storage_path(path), facts.root))
    version, staged_version = (None if state is None else state.version for state in (now, own))
    yield (
        TableToSwap(name, place, step, -1 if own is None else own.version, batches),
        TableChange(name, step, version, staged_version, _rows(now), _rows(own)),
    )


def _staged_flows(facts: SwapFacts) -> Iterator[FlowToSwap]:
    for folder, flow in facts.by_folder.items():
        epoch = flow.stored.record.epoch
        yield FlowToSwap(flow.stored.name, str(flow.stored.dataset), folder, FlowStep.STAGED, epoch, epoch)


def _cleared_flows(facts: SwapFacts) -> Iterator[FlowToSwap]:
    """Flows of production that the code of the stage does not have: their rows are gone."""
    for flow in facts.into:
        folder, record = facts.folder(flow), flow.stored.record
        if folder not in facts.by_folder:
            epoch = next_epoch(flow.stored.file, record)
            name, dataset = flow.stored.name, str(flow.stored.dataset)
            yield FlowToSwap(name, dataset, folder, FlowStep.CLEARED, record.epoch, epoch)


def _moved_flow(facts: SwapFacts, flow: FlowHealth) -> FlowToSwap:
    before = flow.stored.record.epoch
    epoch = next_epoch(flow.stored.file, flow.stored.record)
    name, dataset = flow.stored.name, str(flow.stored.dataset)
    found = FlowToSwap(name, dataset, facts.folder(flow), FlowStep.MOVED, before, epoch)
    batch, path = _committed(flow, facts.settings.id, epoch), flow.stores.tables[TABLE]
    if batch is None or table_state(path) is None:
        return found
    table = str(relative_path(storage_path(path), facts.root))
    return replace(found, transaction=batch[0], committed=batch[1], table=table)


def _committed(flow: FlowHealth, pipeline: str, epoch: int) -> tuple[str, int] | None:
    """The transaction of a flow's commits in an epoch, and the newest batch that its table has; None for none."""
    committed, record = flow.batches.committed, flow.stored.record
    if committed is None or committed == NONE:
        return None
    return transaction_id(record.pipeline or pipeline, record.identity, epoch), committed


def _rows(state: TableState | None) -> int | None:
    if state is None:
        return None
    files = live_files(state.path, state.version)
    if any(file.rows is None for file in files):
        return None
    return sum((file.rows or 0) - file.deleted_rows for file in files)
