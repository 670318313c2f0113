"""Brings tables to where the plan wants them, and makes what a flow reads readable."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from dataclasses import replace
from functools import partial, reduce

from pyspark.sql import DataFrame

from headrace.autoloader.schema_store import outdate_schemas
from headrace.cdc.merge_keys import ROWS_PROPERTY
from headrace.delta_log.tables import TableVersion, is_made, table_state, version_outside
from headrace.expectations.compile import Rules
from headrace.graph.resolved import Mode, ResolvedDataset, ResolvedFlow
from headrace.model.expectations import Action
from headrace.model.names import QualifiedName
from headrace.model.schema import Schema
from headrace.plan.source_retention import Restart
from headrace.plan.steps import TableChange, TableStep
from headrace.runtime.failpoints import Failpoint
from headrace.spark.cdc.retained_events import clear_memory
from headrace.spark.delta.alter import change_columns, cluster_table, describe_table
from headrace.spark.delta.fencing import written_once
from headrace.spark.delta.tables import empty_frame
from headrace.spark.expectations.quarantine_table import widen_quarantine
from headrace.spark.expectations.quarantine_writer import make_quarantine
from headrace.spark.preparation.restarts import begin_epoch
from headrace.spark.queries.flow_frames import flow_frame, register_views
from headrace.spark.update.context import UpdateContext
from headrace.storage.backfills import retire_loads
from headrace.storage.dead_letters import clear_failing
from headrace.storage.flow_record import next_epoch, write_record
from headrace.storage.inventory import flows_of


class Preparation:
    """Tables and names of one update. ``loading`` is held while a flow is prepared, loaded and started (D4)."""

    def __init__(self, context: UpdateContext) -> None:
        self._context = context
        self._prepared: set[QualifiedName] = set()
        self._resets: dict[QualifiedName, TableStep] = {}
        self._restarted: set[str] = set()
        # Confs and temporary views belong to the session, so flows are loaded and started one at a time.
        self.loading = threading.RLock()

    def announce(self, tables: Iterable[TableStep]) -> None:
        """Take note of which tables this update will reset."""
        self._resets = {step.dataset: step for step in tables if step.change is TableChange.RESET}

    def prepare(self, flow: ResolvedFlow, table: TableStep | None) -> None:
        """Bring the target to where the plan wants it, once for all flows that feed it."""
        context = self._context
        dataset = context.graph.by_name[flow.target]
        with self.loading:
            if flow.target not in self._prepared:
                context.fence()
                if table is not None and table.change is TableChange.RESET:
                    self._mark(dataset.name)
                    self._reset(dataset, cut=table.cut)
                if dataset.kind.stored:
                    context.catalog.register_table(dataset)
                    if table is not None and table.change is TableChange.EVOLVE:
                        self._evolve(dataset, table)
                    _note_merged(context, dataset)
                    self._prepare_quarantine(dataset)
                self._prepared.add(flow.target)

    def restart(self, flow: ResolvedFlow, restart: Restart) -> None:
        """Drop the progress of a flow, once however often the flow is tried."""
        with self.loading:
            if flow.name not in self._restarted:
                self._context.fence()
                begin_epoch(self._context, flow, restart)
                self._restarted.add(flow.name)

    def _evolve(self, dataset: ResolvedDataset, table: TableStep) -> None:
        """Properties, the comment and columns, without a row being touched; safe to repeat after a crash."""
        context = self._context
        # Properties come first: changes of columns may need them.
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
        merges = any(flow.merges for flow in context.graph.flows_into(dataset.name))
        if merges or Rules(dataset.dataset.expectations).with_action(Action.QUARANTINE):
            path = context.layout.quarantine(context.naming, dataset.name)
            if not is_made(path):
                make_quarantine(context.session, path, self._empty(dataset), context.term)
            elif any(flow.mode is not Mode.REPLACE for flow in context.graph.flows_into(dataset.name)):
                widen = partial(widen_quarantine, context.session, path, self._judged(dataset))
                written_once(path, context.term, context.fence, widen)

    def _empty(self, dataset: ResolvedDataset) -> DataFrame:
        return empty_frame(self._context.session, self._judged(dataset).nullable)

    def _judged(self, dataset: ResolvedDataset) -> Schema:
        """The columns of the rows that a dataset's rules judge: its own, or those of the events that change it."""
        feeds = [flow.analysis.feed for flow in self._context.graph.flows_into(dataset.name)]
        schemas = [Schema.from_json(feed.source_json) for feed in feeds if feed is not None]
        return reduce(Schema.merged, schemas) if schemas else dataset.schema

    def _mark(self, name: QualifiedName) -> None:
        """Record that a table is being reset, and that its readers of this update must be: the next one does the rest.

        They cannot go on once it is cleared; what is not reached from it stays as it is when the update ends early.
        They come first, because they can be reset without it.
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

    def _reset(self, dataset: ResolvedDataset, *, cut: bool) -> None:
        """Clear a table and begin a new epoch of every flow that feeds it; safe to repeat after a crash.

        Of a sink nothing is cleared.

        Flows that are not in the code now begin anew as well when they come back: their rows are cleared with the rest.
        """
        context = self._context
        flows = context.graph.flows_into(dataset.name)
        records = {context.state.record_file(flow): context.state.progress_of(flow) for flow in flows}
        context.at(Failpoint.RESET_BEGUN)
        if dataset.kind.stored:
            self._clear(dataset)
        context.at(Failpoint.RESET_CLEARED)
        context.fence()
        stored = flows_of(context.layout, context.naming, dataset.name)
        left = {flow.file: flow.record for flow in stored if flow.file not in records}
        if dataset.name in context.catalog.cleared:
            for name in {*(flow.name for flow in flows), *(flow.name for flow in stored)}:
                outdate_schemas(context.catalog.auto_loader_folder(dataset.name, name))
        # Those of the code come last: while one of them says that it is being reset, the next update does it again.
        for file, record in (*left.items(), *records.items()):
            retire_loads(file.parent, context.naming.canonical)
            clear_failing(file.parent, record.epoch, context.fence)
            fresh = record.cleared(next_epoch(file, record), cut=cut)
            write_record(file, replace(fresh, resetting=self._reads_from_reset(dataset)))
        context.at(Failpoint.RESET_DONE)

    def _clear(self, dataset: ResolvedDataset) -> None:
        """Leave nothing in a table, in what is set aside of it and in what is remembered beside it."""
        context = self._context
        # Before each step, and in its commit, because a process may be stopped in between.
        context.fence()
        quarantine = context.layout.quarantine(context.naming, dataset.name)
        if is_made(quarantine):
            empty = self._empty(dataset)
            clear = partial(make_quarantine, context.session, quarantine, empty)
            written_once(quarantine, context.term, context.fence, clear)
        memory = context.layout.memory(context.naming, dataset.name)
        if is_made(memory):
            written_once(memory, context.term, context.fence, partial(clear_memory, context.session, memory))
        context.at(Failpoint.RESET_ASIDE)
        context.fence()
        path = context.table_path(dataset.name)
        written_once(path, context.term, context.fence, partial(context.catalog.replace_table, dataset))
        if dataset.dataset.cluster_by:
            # Delta takes it from no writer; a crash in between leaves it to the next update, as any change of layout.
            cluster_table(context.session, context.catalog.names.of(dataset.name).text, dataset.dataset.cluster_by)

    def _reads_from_reset(self, dataset: ResolvedDataset) -> bool:
        """True when a stream into the dataset reads what a later update is to reset, after which it cannot go on."""
        context = self._context
        flows = context.graph.flows_into(dataset.name)
        inputs = {given.name for flow in flows for given in context.graph.stored_inputs(flow) if given.streaming}
        later = inputs - self._resets.keys()
        return any(context.state.resetting(up) for name in later for up in context.graph.flows_into(name))

    def frame(self, flow: ResolvedFlow) -> DataFrame:
        """What a flow's query returns over the tables as they are registered now."""
        return flow_frame(self._context.graph, flow, self._context.catalog)

    def register_inputs(self, flow: ResolvedFlow) -> dict[str, TableVersion]:
        """Make what a flow reads readable as it is now; the versions of the tables."""
        context = self._context
        versions = {}
        for given in context.graph.stored_inputs(flow):
            context.catalog.register_table(context.graph.by_name[given.name])
            state = table_state(context.table_path(given.name))
            if state is not None:
                versions[str(given.name)] = TableVersion(state.table_id, state.version)
        for path in flow.analysis.external_tables:
            version = version_outside(path)
            if version is not None:
                versions[path] = version
        register_views(context.graph, flow, context.catalog)
        return versions


def _note_merged(context: UpdateContext, dataset: ResolvedDataset) -> None:
    """Let a table say by what its rows are merged; those that version 0.1 has made do not."""
    table = context.state.table(dataset.name)
    if dataset.merged is None or table is None or ROWS_PROPERTY in table.properties:
        return
    text = context.catalog.names.of(dataset.name).text
    describe_table(context.session, text, [(ROWS_PROPERTY, dataset.merged.to_property())], None, ())
