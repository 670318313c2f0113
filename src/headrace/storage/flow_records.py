"""The records of a pipeline's flows in its storage, and where their checkpoints lie."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from headrace.storage.deliveries import last_delivered
from headrace.delta_log.tables import committed_transaction
from headrace.storage.flow_stores import FlowStores, newest_epoch, tables_of
from headrace.storage.inventory import first_record, flows_of
from headrace.storage.backfills import loads_of
from headrace.checkpoints.offsets import read_progress
from headrace.storage.flow_record import FlowRecord, read_record
from headrace.graph.flows import GraphFlow
from headrace.graph.resolved import MadeWith, ResolvedFlow
from headrace.model.datasets import Flow
from headrace.model.names import Naming
from headrace.plan.agreement import NONE
from headrace.plan.backfills import Load
from headrace.settings.storage import StorageLayout


def transaction_id(pipeline_id: str, flow: str, epoch: int) -> str:
    """The application id of a flow's commits; carries the epoch, so that a new checkpoint skips nothing."""
    return f"headrace:{pipeline_id}:{flow}:{epoch}"


class StoredRecords:
    """What is remembered of each flow.

    Args:
        layout: where things lie.
        naming: how names are spelled in full.
        pipeline_id: whose transactions the flows commit under.
        logged: the newest epoch, and the newest batch in it, that the event log has of a flow into a dataset, or None.
    """

    def __init__(
        self,
        layout: StorageLayout,
        naming: Naming,
        pipeline_id: str,
        logged: Callable[[str, str], tuple[int, int] | None],
    ) -> None:
        self._layout = layout
        self._naming = naming
        self._pipeline_id = pipeline_id
        self._logged = logged

    def record_file(self, flow: Flow | GraphFlow) -> Path:
        """Where a flow's record lies."""
        return Path(self._layout.flow_state(self._naming, flow.target, flow.name))

    def record(self, flow: Flow | GraphFlow) -> FlowRecord | None:
        """A flow's record, or None when it never ran."""
        return read_record(self.record_file(flow))

    def progress_of(self, flow: ResolvedFlow) -> FlowRecord:
        """A flow's record, or a fresh one where it is lost or unreadable, in the epoch that the event log knows."""
        record = self.record(flow)
        if record is None or record.unreadable:
            first, ran = self._first_record(flow)
            record = first if ran else replace(first, pipeline=self._pipeline_id)
        named = replace(record, flow=flow.name, dataset=str(flow.target), mode=flow.mode.value)
        return replace(named, identity=record.identity or record.flow or flow.name)

    def _first_record(self, flow: ResolvedFlow) -> tuple[FlowRecord, bool]:
        siblings = flows_of(self._layout, self._naming, flow.target)
        known = newest_epoch(self.record_file(flow), self._logged(flow.name, str(flow.target)))
        return first_record(flow.name, siblings, None if known == NONE else known)

    def transaction(self, record: FlowRecord) -> str:
        """The application id that a flow commits under in the epoch of its record."""
        return transaction_id(record.pipeline or self._pipeline_id, record.identity, record.epoch)

    def checkpoint(self, flow: GraphFlow, epoch: int) -> Path:
        """Where a flow's checkpoint of an epoch lies."""
        return Path(self._layout.checkpoint(self._naming, flow.target, flow.name, epoch))

    def stores(self, flow: ResolvedFlow) -> FlowStores:
        """Where the progress of a flow is known."""
        stored, record = self.record(flow), self.progress_of(flow)
        if stored is not None and stored.unreadable:
            record = stored
        return FlowStores(
            mode=flow.mode,
            record=record,
            file=self.record_file(flow),
            tables=tables_of(self._layout, self._naming, flow.target),
            transaction=self.transaction(record),
            logged=self._logged(flow.name, str(flow.target)),
            ran=self.ran(flow),
        )

    def has_committed(self, flow: Flow | GraphFlow, record: FlowRecord, number: int) -> bool:
        """True when a batch of a flow is in its table."""
        newest = committed_transaction(self._layout.table(self._naming, flow.target), self.transaction(record))
        return newest is not None and newest >= number

    def resetting(self, flow: Flow | ResolvedFlow) -> bool:
        """True when a crash interrupted a reset of the flow."""
        record = self.record(flow)
        return record is not None and record.resetting

    def accepted(self, flow: ResolvedFlow) -> bool:
        """True when nothing is asked any more about a reset that a crash interrupted."""
        record = self.record(flow)
        return record is not None and record.accepted

    def pending_load(self, flow: ResolvedFlow) -> Load | None:
        """A load that a crash has left unfinished, or None."""
        loads = loads_of(self.record_file(flow).parent, self._naming.canonical)
        return next((load for load in loads if load.pending), None)

    def load_is_in_table(self, flow: ResolvedFlow, load: Load) -> bool:
        """True when the rows of a load are committed, or a sink has noted that it has them."""
        if last_delivered(self.record_file(flow).parent, load.epoch):
            return True
        transaction = self.transaction(replace(self.progress_of(flow), epoch=load.epoch))
        return committed_transaction(self._layout.table(self._naming, flow.target), transaction) is not None

    def ran(self, flow: ResolvedFlow) -> bool:
        """True when the flow has progress: it was run before."""
        record = self.record(flow)
        if record is None or record.unreadable:
            return self._first_record(flow)[1]
        return record.started_at > 0

    def made_with(self, flow: ResolvedFlow) -> MadeWith | None:
        """What the checkpoint of a flow was made with; None when no batch was planned yet, or that was not noted."""
        record = self.record(flow)
        if record is None or record.made_with is None:
            return None
        begun = record.snapshot is not None or read_progress(self.checkpoint(flow, record.epoch)) is not None
        return record.made_with if begun else None


def unfinished_batch(state: StoredRecords, flow: ResolvedFlow) -> tuple[int, int] | None:
    """The epoch and the number of a stream's batch that was begun and is not done; None where there is none."""
    epoch = state.progress_of(flow).epoch
    progress = read_progress(state.checkpoint(flow, epoch)) if flow.mode.streams else None
    return None if progress is None or progress.completed else (epoch, progress.batch_id)
