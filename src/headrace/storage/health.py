"""The flows of a storage as their checkpoints, records and tables show them, without the project's code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.autoloader.positions import problem_of_offset
from headrace.storage.agreement import batches_of, contradiction_of, damage_of_stores
from headrace.checkpoints.damage import set_aside
from headrace.delta_log.tables import TableState, table_state
from headrace.storage.flow_records import transaction_id
from headrace.storage.flow_stores import FlowStores, newest_epoch, tables_of
from headrace.storage.inventory import StoredFlow, stored_flows, stored_tables
from headrace.checkpoints.offsets import read_progress
from headrace.errors import PipelineError
from headrace.graph.resolved import Mode
from headrace.model.names import Naming
from headrace.plan.agreement import NONE, KnownBatches
from headrace.settings.storage import StorageLayout

_ASIDE = "aside"


@dataclass(frozen=True)
class FlowHealth:
    """A flow of the storage.

    Attributes:
        stored: which.
        stores: where its progress is known.
        batches: the newest ones that they know.
        problem: what keeps the flow from going on; None when nothing does.
    """

    stored: StoredFlow
    stores: FlowStores
    batches: KnownBatches
    problem: PipelineError | None

    @property
    def streams(self) -> bool:
        """Whether it has a checkpoint."""
        return self.stores.mode.streams

    @property
    def counts_batches(self) -> bool:
        """Whether the batches have numbers that stores agree on; a view is computed anew each time."""
        return self.streams or self.stores.mode is Mode.SNAPSHOT


def health_of_flows(
    layout: StorageLayout,
    naming: Naming,
    pipeline_id: str,
    logged: Mapping[tuple[str, str], tuple[int, int]],
) -> tuple[FlowHealth, ...]:
    """Every flow with a record, sorted by where that lies.

    Args:
        layout: where things lie.
        naming: how names are spelled in full.
        pipeline_id: whose transactions the flows commit under.
        logged: the newest epoch and batch that the event log has of each flow into each dataset.
    """
    states = [table_state(path) for _, path in stored_tables(layout, naming)]
    tables = [state for state in states if state is not None]
    flows = stored_flows(layout, naming)
    return tuple(_health(flow, _stores(flow, layout, naming, pipeline_id, logged), tables) for flow in flows)


def repair(flow: FlowHealth, stamp: str) -> list[Path]:
    """Set aside what is torn and not needed, until nothing of the kind is left; where it is now.

    Safe to repeat after a crash: each step is one rename, and the next call sees what is left to be done.

    Args:
        flow: which.
        stamp: names the folder beside the checkpoints that gets the files.
    """
    stores, aside = flow.stores, flow.stored.file.parent / _ASIDE / stamp
    if stores.record.unreadable:
        aside.mkdir(parents=True, exist_ok=True)
        return [stores.file.replace(aside / stores.file.name)]
    moved = []
    while (damage := damage_of_stores(stores)) is not None and damage.mendable:
        moved.append(set_aside(damage, aside))
    return moved


def _health(flow: StoredFlow, stores: FlowStores, tables: Iterable[TableState]) -> FlowHealth:
    found = contradiction_of(stores, tables)
    problem = _problem_of_ledgers(stores)
    if found is not None:
        said: dict[str, Any] = {"flow": flow.name, "name": flow.dataset, "otherwise": "", **found.said}
        problem = PipelineError(found.code, **said)
    return FlowHealth(flow, stores, batches_of(stores), problem)


def _problem_of_ledgers(stores: FlowStores) -> PipelineError | None:
    """What does not agree between a flow's checkpoint and the ledgers of Auto Loader beside it."""
    progress = read_progress(stores.checkpoint) if stores.mode.streams else None
    # Readers of a view that the flow reads have theirs beside the view.
    folders = sorted(stores.file.parent.parent.glob("*/auto_loader/*/_ledgers"))
    for offset in progress.offsets if progress is not None else ():
        if not isinstance(offset, Mapping) or "ledger" not in offset or not folders:
            continue
        own = next((one for one in folders if (one / f"{offset['ledger']}.ledger").exists()), folders[0])
        problem = problem_of_offset(str(own), offset)
        if problem is not None:
            return problem
    return None


def _stores(
    flow: StoredFlow,
    layout: StorageLayout,
    naming: Naming,
    pipeline_id: str,
    logged: Mapping[tuple[str, str], tuple[int, int]],
) -> FlowStores:
    record, known = flow.record, logged.get((flow.name, str(flow.dataset)))
    unknown = Mode.APPEND if newest_epoch(flow.file, known) != NONE else Mode.REPLACE
    return FlowStores(
        mode=Mode(record.mode) if record.mode else unknown,
        record=record,
        file=flow.file,
        tables=tables_of(layout, naming, flow.dataset),
        transaction=transaction_id(record.pipeline or pipeline_id, record.identity, record.epoch),
        logged=known,
        ran=flow.ran or known is not None,
    )


def word_of(flow: FlowHealth) -> str:
    """How a flow stands, in a word or two."""
    if flow.problem is not None:
        return flow.problem.code
    unfinished = flow.streams and flow.batches.done < flow.batches.planned
    return "in a batch" if unfinished else "ok"


def shown(batch: int) -> int | None:
    """The number of a batch; None for none."""
    return None if batch == NONE else batch
