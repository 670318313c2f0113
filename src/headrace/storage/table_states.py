"""The tables of a pipeline as their logs have them, next to the records of its flows."""

from __future__ import annotations

from collections.abc import Callable

from headrace.cdc.merge_keys import MERGE_KEYS_PROPERTY, MergeKeys
from headrace.delta_log.table_layout import TableLayout, table_layout
from headrace.delta_log.tables import Commit, TableState, table_state
from headrace.model.names import Naming, QualifiedName
from headrace.settings.storage import StorageLayout
from headrace.storage.flow_records import StoredRecords
from headrace.storage.inventory import flows_of


class StoredTables(StoredRecords):
    """Deployed tables and flow records of one pipeline on a local disk.

    Args:
        layout: the paths in the storage.
        naming: resolves names to qualified ones.
        pipeline_id: the id that the flows' transactions carry.
        now: the clock, in seconds since 1970.
        logged: the newest epoch and its newest batch that the event log has for a flow and dataset; None without any.
    """

    def __init__(
        self,
        layout: StorageLayout,
        naming: Naming,
        pipeline_id: str,
        now: Callable[[], float],
        logged: Callable[[str, str], tuple[int, int] | None],
    ) -> None:
        super().__init__(layout, naming, pipeline_id, logged)
        self.now = now
        self._tables: dict[str, tuple[Commit, TableState]] = {}
        self._layouts: dict[tuple[str, str, int], TableLayout] = {}

    def table(self, name: QualifiedName) -> TableState | None:
        """The current state of a dataset's table, or None; cached until the log has a newer commit."""
        path = self._layout.table(self._naming, name)
        seen = self._tables.get(path)
        if seen is not None and seen[0].is_newest():
            return seen[1]
        found = table_state(path)
        if found is None:
            self._tables.pop(path, None)
        else:
            self._tables[path] = (Commit.of(path, found.version), found)
        return found

    def layout(self, name: QualifiedName) -> TableLayout:
        """Clustering and protocol of a dataset's table."""
        found = self.table(name)
        if found is None:
            return TableLayout()
        key = (found.path, found.table_id, found.version)
        if key not in self._layouts:
            self._layouts = {other: kept for other, kept in self._layouts.items() if other[0] != found.path}
            self._layouts[key] = table_layout(found.path)
        return self._layouts[key]

    def merge_keys(self, name: QualifiedName) -> MergeKeys | None:
        """The merge keys of a table: from its properties, or else from the records of flows that merged into it."""
        found = self.table(name)
        stored = found.properties.get(MERGE_KEYS_PROPERTY) if found is not None else None
        if stored is not None:
            return MergeKeys.of_property(stored)
        records = [flow.record for flow in flows_of(self._layout, self._naming, name) if flow.has_run]
        descriptions = [
            known.description for r in records if r.state_signature is not None for known in r.state_signature.operators
        ]
        return next(filter(None, map(MergeKeys.of_signature, descriptions)), None)
