"""Prepares tables as planned, and registers the inputs of flows."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from pyspark.sql import DataFrame

from headrace.cdc.merge_keys import MERGE_KEYS_PROPERTY
from headrace.delta_log.tables import TableVersion, table_state, table_version_or_none
from headrace.graph.resolved import ResolvedDataset
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.names import QualifiedName
from headrace.plan.source_retention import Restart
from headrace.plan.steps import TableChange, TableStep
from headrace.spark.delta.alter import add_columns, change_columns, cluster_table, describe_table
from headrace.spark.preparation.quarantine_tables import prepare_quarantine
from headrace.spark.preparation.restarts import start_epoch
from headrace.spark.preparation.table_resets import TableResets
from headrace.spark.queries.flow_frames import flow_frame, register_views
from headrace.spark.update.context import UpdateContext


class Preparation:
    """Tables and names of one update. ``session_lock`` is held while a flow is prepared, loaded and started (D4)."""

    def __init__(self, context: UpdateContext) -> None:
        self._context = context
        self._prepared: set[QualifiedName] = set()
        self._resets = TableResets(context)
        self._restarted: set[str] = set()
        # Confs and temporary views are session-wide, so that flows are loaded and started one at a time.
        self.session_lock = threading.RLock()

    def announce(self, tables: Iterable[TableStep]) -> None:
        """Record which tables this update will reset."""
        self._resets.announce(tables)

    def prepare(self, flow: ResolvedFlow, table: TableStep | None) -> None:
        """Prepare a flow's target as planned, once for all flows that write to it."""
        context = self._context
        dataset = context.graph.by_name[flow.target]
        with self.session_lock:
            if flow.target not in self._prepared:
                context.guard.fence()
                if table is not None and table.change is TableChange.RESET:
                    self._resets.reset(dataset, self._prepared, rows_lost=table.loses_rows)
                if dataset.kind.stored:
                    context.catalog.register_table(dataset)
                    if table is not None and table.change is TableChange.EVOLVE:
                        self._evolve(dataset, table)
                    _note_merged(context, dataset)
                    prepare_quarantine(context, dataset)
                self._prepared.add(flow.target)

    def restart(self, flow: ResolvedFlow, restart: Restart) -> None:
        """Drop the progress of a flow, once for all its attempts."""
        with self.session_lock:
            if flow.name not in self._restarted:
                self._context.guard.fence()
                start_epoch(self._context, flow, restart)
                self._restarted.add(flow.name)

    def _evolve(self, dataset: ResolvedDataset, table: TableStep) -> None:
        """Evolve properties, comments and columns without touching rows; safe to repeat after a crash."""
        context = self._context
        # Properties come first, because changes of columns may need them.
        text = context.catalog.names.of(dataset.name).text
        describe_table(context.session, text, table.properties, table.comment, table.column_comments)
        change_columns(context.session, text, table.widened, table.relaxed)
        if table.columns:
            add_columns(context.session, context.table_path(dataset.name), dataset.schema)
        if table.cluster_by is not None:
            cluster_table(context.session, text, table.cluster_by)

    def frame(self, flow: ResolvedFlow) -> DataFrame:
        """The frame of a flow's query over the registered tables."""
        return flow_frame(self._context.graph, flow, self._context.catalog)

    def register_inputs(self, flow: ResolvedFlow) -> dict[str, TableVersion]:
        """Register the inputs of a flow; returns the versions of the tables."""
        context = self._context
        versions = {}
        for given in context.graph.stored_inputs(flow):
            context.catalog.register_table(context.graph.by_name[given.name])
            state = table_state(context.table_path(given.name))
            if state is not None:
                versions[str(given.name)] = TableVersion(state.table_id, state.version)
        for path in flow.analysis.external_tables:
            version = table_version_or_none(path)
            if version is not None:
                versions[path] = version
        register_views(context.graph, flow, context.catalog)
        return versions


def _note_merged(context: UpdateContext, dataset: ResolvedDataset) -> None:
    """Store a table's merge keys in its properties; tables of version 0.1 lack them."""
    table = context.state.table(dataset.name)
    if dataset.merge_keys is None or table is None or MERGE_KEYS_PROPERTY in table.properties:
        return
    text = context.catalog.names.of(dataset.name).text
    describe_table(context.session, text, [(MERGE_KEYS_PROPERTY, dataset.merge_keys.to_property())], None, ())
