"""What flows have done before, as the storage and the event log have it; implements the planner's ``DeployedFlows``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from datetime import datetime

from headrace.autoloader.ledger.stored_ledgers import open_ledger
from headrace.autoloader.source import Source as LoaderSource
from headrace.checkpoints.offsets import read_progress
from headrace.delta_log.tables import count_rows, open_table_log, table_size
from headrace.errors import PipelineError
from headrace.events.flow_costs import core_seconds_per_row
from headrace.events.reader import EventReader
from headrace.graph.analysis import Source, SourceKind
from headrace.graph.resolved_flows import ResolvedFlow, StreamingFlow
from headrace.model.names import Naming, QualifiedName
from headrace.plan.changes import OldRows, Work
from headrace.plan.source_retention import SourceRetention
from headrace.settings.storage import StorageLayout
from headrace.storage.change_detection import StoredState
from headrace.storage.flow_source_retention import retention_of
from headrace.storage.inventory import stored_tables
from headrace.storage.positions import StoredTable, ledger_folders, source_positions
from headrace.stores.paths import storage_path


class StoredFlows:
    """What the flows of one pipeline have done.

    Args:
        layout: the paths in the storage.
        naming: resolves names to qualified ones.
        state: the current tables and records.
        now: the time, with a zone.
    """

    def __init__(self, layout: StorageLayout, naming: Naming, state: StoredState, now: Callable[[], datetime]) -> None:
        self._layout = layout
        self._naming = naming
        self._state = state
        self._now = now

    def has_run(self, flow: ResolvedFlow) -> bool:
        """True if the flow ran before."""
        return self._state.has_run(flow)

    def has_new_code(self, flow: ResolvedFlow) -> bool:
        """True if the flow ran before, with other code, settings or input columns."""
        record = self._state.record(flow)
        if record is None or record.unreadable or not record.started_at:
            return False
        return record.fingerprint not in (flow.analysis.fingerprint, flow.analysis.former_fingerprint)

    def input_of(self, flow: ResolvedFlow, inputs: Collection[QualifiedName]) -> Work:
        """All rows and bytes that the flow reads if it starts over: those of tables, and the bytes of known files."""
        rows = size = 0
        for name in inputs:
            table = open_table_log(self._layout.table(self._naming, name))
            if table is not None:
                rows += count_rows(table, self._layout.table(self._naming, name))
                size += table_size(table)
        outside = [source for source in flow.analysis.sources if source.kind is not SourceKind.DATASET]
        if not outside and not flow.analysis.external:
            return Work(rows, size)
        sizes = [_seen_bytes(source, offset) for source, offset in self._offsets(flow)]
        others = not isinstance(flow, StreamingFlow) or len(flow.analysis.external) > len(outside)
        return Work(None, None if others or not sizes or None in sizes else size + sum(filter(None, sizes)))

    def written_by(self, flow: ResolvedFlow) -> OldRows:
        """The rows of the flow's table, and how far the flow has read its sources."""
        epoch = self._state.progress_of(flow).epoch
        table = self._state.table(flow.target)
        log = open_table_log(table.path) if table is not None else None
        rows = count_rows(log, table.path) if table is not None and log is not None else None
        versions = (0, table.version) if table is not None else None
        if not isinstance(flow, StreamingFlow):
            return OldRows(rows, versions, epoch, None)
        checkpoint = self._state.checkpoint(flow, epoch)
        progress = read_progress(checkpoint)
        done = None if progress is None else progress.batch_id - (0 if progress.completed else 1)
        tables = [
            StoredTable(name, found)
            for name, _ in stored_tables(self._layout, self._naming)
            if (found := self._state.table(name)) is not None
        ]
        folders = ledger_folders(self._state.record_file(flow).parent)
        positions = source_positions(checkpoint, tables, folders)
        texts = tuple(f"{found.source}: {found.position}" for found in positions)
        return OldRows(rows, versions, epoch, None if done is None or done < 0 else done, texts)

    def source_retention(self, flow: ResolvedFlow) -> tuple[SourceRetention, ...]:
        """The sources of the flow, and which of the rows that it read cannot be read again."""
        return retention_of(flow, self._state, self._layout, self._naming)

    def core_seconds_per_row(self, flows: Collection[str]) -> Mapping[str, float]:
        """What a row costs each flow; flows of which that is unknown are missing."""
        try:
            return core_seconds_per_row(EventReader(self._layout.events), flows, self._now())
        except PipelineError:
            # A plan says what it knows.
            return {}

    def _offsets(self, flow: ResolvedFlow) -> Iterator[tuple[Source, object]]:
        progress = read_progress(self._state.checkpoint(flow, self._state.progress_of(flow).epoch))
        offsets = progress.offsets if progress is not None else ()
        for source, offset in zip(flow.analysis.sources, offsets, strict=False):
            if source.kind is not SourceKind.DATASET:
                yield source, offset


def _seen_bytes(source: Source, offset: object) -> int | None:
    """The bytes of the files that Auto Loader has found; None for other sources, and if unknown."""
    if source.kind is not SourceKind.AUTO_LOADER or not isinstance(offset, Mapping) or "ledger" not in offset:
        return None
    root = storage_path(LoaderSource.from_json(source.detail).ledgers)
    try:
        with closing(open_ledger(root, str(offset["ledger"]), read_only=True)) as ledger:
            return ledger.backlog(ledger.first_number).size
    except PipelineError:
        return None
