"""The records of a pipeline's flows in its storage, and the paths of their checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from headrace.checkpoints.offsets import read_progress
from headrace.delta_log.tables import committed_transaction
from headrace.graph.graph_flow import GraphFlow
from headrace.graph.resolved_flows import ResolvedFlow, StateSignature, StreamingFlow
from headrace.model.datasets import Flow
from headrace.model.names import Naming
from headrace.plan.agreement import NONE
from headrace.plan.backfills import Backfill
from headrace.settings.storage import StorageLayout
from headrace.storage.backfills import stored_backfills
from headrace.storage.deliveries import last_delivered
from headrace.storage.flow_record import FlowRecord, read_record
from headrace.storage.flow_stores import FlowStores, adoption_of, newest_epoch, tables_of
from headrace.storage.inventory import first_record, flows_of
from headrace.stores.paths import StoragePath, storage_path


def transaction_id(pipeline_id: str, flow: str, epoch: int) -> str:
    """The application id of a flow's commits; it contains the epoch, so that a new checkpoint skips nothing."""
    return f"headrace:{pipeline_id}:{flow}:{epoch}"


class StoredRecords:
    """The stored state of each flow.

    Args:
        layout: the paths in the storage.
        naming: resolves names to qualified ones.
        pipeline_id: the id that the flows' transactions carry.
        logged: the newest epoch and its newest batch that the event log has for a flow and dataset; None without any.
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

    def record_file(self, flow: Flow | GraphFlow) -> StoragePath:
        """The path of a flow's record."""
        return storage_path(self._layout.flow_state(self._naming, flow.target, flow.name))

    def record(self, flow: Flow | GraphFlow) -> FlowRecord | None:
        """A flow's record, or None when it never ran."""
        return read_record(self.record_file(flow))

    def progress_of(self, flow: ResolvedFlow) -> FlowRecord:
        """A flow's record; if lost or unreadable, a new one in the epoch that the event log has."""
        record = self.record(flow)
        if record is None or record.unreadable:
            first, ran = self._first_record(flow)
            record = first if ran else replace(first, pipeline=self._pipeline_id)
        # A flow that was cleaned and is in the code again is no longer cleaned.
        named = replace(record, flow=flow.name, dataset=str(flow.target), mode=flow.mode.value, cleaned=False)
        return replace(named, identity=record.identity or record.flow or flow.name)

    def _first_record(self, flow: ResolvedFlow) -> tuple[FlowRecord, bool]:
        siblings = flows_of(self._layout, self._naming, flow.target)
        known = newest_epoch(self.record_file(flow), self._logged(flow.name, str(flow.target)))
        return first_record(flow.name, siblings, None if known == NONE else known)

    def transaction(self, record: FlowRecord) -> str:
        """The application id of a flow's commits in the epoch of its record."""
        return transaction_id(record.pipeline or self._pipeline_id, record.identity, record.epoch)

    def checkpoint(self, flow: GraphFlow, epoch: int) -> StoragePath:
        """The path of a flow's checkpoint of an epoch."""
        return storage_path(self._layout.checkpoint(self._naming, flow.target, flow.name, epoch))

    def stores(self, flow: ResolvedFlow) -> FlowStores:
        """The stores that know the progress of a flow."""
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
            has_run=self.has_run(flow),
            adoption=adoption_of(self._layout, self._naming, flow.target),
        )

    def has_committed(self, flow: Flow | GraphFlow, record: FlowRecord, number: int) -> bool:
        """True when a flow's table contains a batch."""
        newest = committed_transaction(self._layout.table(self._naming, flow.target), self.transaction(record))
        return newest is not None and newest >= number

    def is_resetting(self, flow: Flow | ResolvedFlow) -> bool:
        """True when a crash interrupted a reset of the flow."""
        record = self.record(flow)
        return record is not None and record.resetting

    def is_reset_accepted(self, flow: ResolvedFlow) -> bool:
        """True when a reset that a crash interrupted needs no more approval."""
        record = self.record(flow)
        return record is not None and record.accepted

    def pending_backfill(self, flow: ResolvedFlow) -> Backfill | None:
        """A backfill that a crash has left unfinished, or None."""
        backfills = stored_backfills(self.record_file(flow).parent, self._naming.canonical)
        return next((backfill for backfill in backfills if backfill.pending), None)

    def is_backfill_committed(self, flow: ResolvedFlow, backfill: Backfill) -> bool:
        """True when the rows of a backfill are committed, or a sink has noted that it has them."""
        if last_delivered(self.record_file(flow).parent, backfill.epoch):
            return True
        transaction = self.transaction(replace(self.progress_of(flow), epoch=backfill.epoch))
        return committed_transaction(self._layout.table(self._naming, flow.target), transaction) is not None

    def has_run(self, flow: ResolvedFlow) -> bool:
        """True when the flow has progress, that is, has run before."""
        record = self.record(flow)
        if record is None or record.unreadable:
            return self._first_record(flow)[1]
        return record.started_at > 0

    def state_signature(self, flow: ResolvedFlow) -> StateSignature | None:
        """What the checkpoint of a flow was made with; None when no batch was planned yet, or that was not noted."""
        record = self.record(flow)
        if record is None or record.state_signature is None:
            return None
        has_started = record.snapshot is not None or read_progress(self.checkpoint(flow, record.epoch)) is not None
        return record.state_signature if has_started else None


def unfinished_batch(state: StoredRecords, flow: ResolvedFlow) -> tuple[int, int] | None:
    """The epoch and number of a stream's unfinished batch; None when there is none."""
    epoch = state.progress_of(flow).epoch
    progress = read_progress(state.checkpoint(flow, epoch)) if isinstance(flow, StreamingFlow) else None
    return None if progress is None or progress.completed else (epoch, progress.batch_id)
