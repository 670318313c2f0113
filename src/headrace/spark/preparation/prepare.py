"""Prepares tables as planned, and registers the inputs of flows."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import DataFrame

from headrace.autoloader.schema_store import mark_schemas_outdated
from headrace.cdc.merge_keys import MERGE_KEYS_PROPERTY
from headrace.delta_log.tables import TableVersion, table_exists, table_state, table_version_or_none
from headrace.expectations.compile import Rules
from headrace.graph.resolved import ResolvedDataset
from headrace.graph.resolved_flows import ChangeFlow, RefreshFlow, ResolvedFlow
from headrace.model.expectations import Action
from headrace.model.names import QualifiedName
from headrace.model.schema import Schema
from headrace.plan.source_retention import Restart
from headrace.plan.steps import TableChange, TableStep
from headrace.runtime.failpoints import Failpoint
from headrace.spark.cdc.retained_events import clear_retained_events
from headrace.spark.delta.alter import change_columns, cluster_table, describe_table
from headrace.spark.delta.fencing import write_fenced
from headrace.spark.delta.tables import empty_frame
from headrace.spark.expectations.quarantine_table import widen_quarantine
from headrace.spark.expectations.quarantine_writer import create_quarantine
from headrace.spark.preparation.restarts import start_epoch
from headrace.spark.queries.flow_frames import flow_frame, register_views
from headrace.spark.update.context import UpdateContext
from headrace.storage.backfills import retire_backfills
from headrace.storage.dead_letters import delete_dead_letters
from headrace.storage.flow_record import next_epoch, write_record
from headrace.storage.inventory import flows_of


class Preparation:
    """Tables and names of one update. ``session_lock`` is held while a flow is prepared, loaded and started (D4)."""

    def __init__(self, context: UpdateContext) -> None:
        self._context = context
        self._prepared: set[QualifiedName] = set()
        self._resets: dict[QualifiedName, TableStep] = {}
        self._restarted: set[str] = set()
        # Confs and temporary views are session-wide, so that flows are loaded and started one at a time.
        self.session_lock = threading.RLock()

    def announce(self, tables: Iterable[TableStep]) -> None:
        """Record which tables this update will reset."""
        self._resets = {step.dataset: step for step in tables if step.change is TableChange.RESET}

    def prepare(self, flow: ResolvedFlow, table: TableStep | None) -> None:
        """Prepare a flow's target as planned, once for all flows that write to it."""
        context = self._context
        dataset = context.graph.by_name[flow.target]
        with self.session_lock:
            if flow.target not in self._prepared:
                context.fence()
                if table is not None and table.change is TableChange.RESET:
                    self._mark(dataset.name)
                    self._reset(dataset, rows_lost=table.loses_rows)
                if dataset.kind.stored:
                    context.catalog.register_table(dataset)
                    if table is not None and table.change is TableChange.EVOLVE:
                        self._evolve(dataset, table)
                    _note_merged(context, dataset)
                    self._prepare_quarantine(dataset)
                self._prepared.add(flow.target)

    def restart(self, flow: ResolvedFlow, restart: Restart) -> None:
        """Drop the progress of a flow, once for all its attempts."""
        with self.session_lock:
            if flow.name not in self._restarted:
                self._context.fence()
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
            empty = empty_frame(context.session, dataset.schema.nullable)
            path = context.table_path(dataset.name)
            empty.write.format("delta").mode("append").option("mergeSchema", "true").save(path)
        if table.cluster_by is not None:
            cluster_table(context.session, text, table.cluster_by)

    def _prepare_quarantine(self, dataset: ResolvedDataset) -> None:
        context = self._context
        flows = context.graph.flows_into(dataset.name)
        merges = any(isinstance(flow, ChangeFlow) for flow in flows)
        if merges or Rules(dataset.dataset.expectations).with_action(Action.QUARANTINE):
            path = context.layout.quarantine(context.naming, dataset.name)
            if not table_exists(path):
                create_quarantine(context.session, path, self._empty(dataset), context.term)
            elif not all(isinstance(flow, RefreshFlow) for flow in flows):
                widen = partial(widen_quarantine, context.session, path, self._evaluated_schema(dataset))
                write_fenced(path, context.term, context.fence, widen)

    def _empty(self, dataset: ResolvedDataset) -> DataFrame:
        return empty_frame(self._context.session, self._evaluated_schema(dataset).nullable)

    def _evaluated_schema(self, dataset: ResolvedDataset) -> Schema:
        """The schema of the rows that a dataset's rules evaluate: its own, or that of its change events."""
        flows = self._context.graph.flows_into(dataset.name)
        schemas = [Schema.from_json(flow.feed.source_json) for flow in flows if isinstance(flow, ChangeFlow)]
        return reduce(Schema.merged, schemas) if schemas else dataset.schema

    def _mark(self, name: QualifiedName) -> None:
        """Record that a table and its readers in this update are being reset, so that the next update does the rest.

        Stream readers cannot continue once the table is cleared; other tables stay as they are if the update ends
        early. The readers are recorded first, because they can be reset without the table.
        """
        context = self._context
        reached = {name}
        for flow in context.graph.stored_flows:
            inputs = {given.name for given in context.graph.stored_inputs(flow) if given.streaming}
            if flow.target in self._resets.keys() - self._prepared and inputs & reached:
                reached.add(flow.target)
        for flow in reversed(context.graph.stored_flows):
            if flow.target in reached:
                accepted = flow.target == name or self._resets[flow.target].accepted
                record = replace(context.state.progress_of(flow), resetting=True, accepted=accepted)
                write_record(context.state.record_file(flow), record)

    def _reset(self, dataset: ResolvedDataset, *, rows_lost: bool) -> None:
        """Clear a table and start a new epoch of every flow that writes to it; safe to repeat after a crash.

        A sink is not cleared.

        Flows that are no longer in the code start over too if they come back, because their rows are cleared as well.
        """
        context = self._context
        flows = context.graph.flows_into(dataset.name)
        records = {context.state.record_file(flow): context.state.progress_of(flow) for flow in flows}
        context.at(Failpoint.RESET_STARTED)
        if dataset.kind.stored:
            self._clear(dataset)
        context.at(Failpoint.RESET_CLEARED)
        context.fence()
        stored = flows_of(context.layout, context.naming, dataset.name)
        former = {flow.file: flow.record for flow in stored if flow.file not in records}
        if dataset.name in context.catalog.cleared:
            for name in {*(flow.name for flow in flows), *(flow.name for flow in stored)}:
                mark_schemas_outdated(context.catalog.auto_loader_folder(dataset.name, name))
        # Flows of the code come last: while one of their records is being reset, the next update repeats the reset.
        for file, record in (*former.items(), *records.items()):
            retire_backfills(file.parent, context.naming.canonical)
            delete_dead_letters(file.parent, record.epoch, context.fence)
            fresh = record.cleared(next_epoch(file, record), rows_lost=rows_lost)
            write_record(file, replace(fresh, resetting=self._reads_from_reset(dataset)))
        context.at(Failpoint.RESET_DONE)

    def _clear(self, dataset: ResolvedDataset) -> None:
        """Clear a table, its quarantine and its retained events."""
        context = self._context
        # Checked before each step and in its commit, because a process may be paused in between.
        context.fence()
        quarantine = context.layout.quarantine(context.naming, dataset.name)
        if table_exists(quarantine):
            empty = self._empty(dataset)
            clear = partial(create_quarantine, context.session, quarantine, empty)
            write_fenced(quarantine, context.term, context.fence, clear)
        retained = context.layout.cdc_state(context.naming, dataset.name)
        if table_exists(retained):
            write_fenced(
                retained, context.term, context.fence, partial(clear_retained_events, context.session, retained)
            )
        context.at(Failpoint.RESET_QUARANTINE_CLEARED)
        context.fence()
        path = context.table_path(dataset.name)
        write_fenced(path, context.term, context.fence, partial(context.catalog.replace_table, dataset))
        if dataset.dataset.cluster_by:
            # Delta accepts it from no writer; after a crash in between, the next update does it, as any layout change.
            cluster_table(context.session, context.catalog.names.of(dataset.name).text, dataset.dataset.cluster_by)

    def _reads_from_reset(self, dataset: ResolvedDataset) -> bool:
        """True when a stream into the dataset cannot continue because it reads a table that a later update resets."""
        context = self._context
        flows = context.graph.flows_into(dataset.name)
        inputs = {given.name for flow in flows for given in context.graph.stored_inputs(flow) if given.streaming}
        later = inputs - self._resets.keys()
        return any(context.state.is_resetting(up) for name in later for up in context.graph.flows_into(name))

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
