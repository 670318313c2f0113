"""Brings tables to where the plan wants them, and makes what a flow reads readable."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

from pyspark.sql import DataFrame

from headrace.checkpoints.delta_log import table_state
from headrace.checkpoints.records import FlowRecord, TableVersion, write_record
from headrace.expectations.compile import Rules
from headrace.graph.resolved import ResolvedDataset, ResolvedFlow
from headrace.model.expectations import Action
from headrace.model.names import QualifiedName
from headrace.plan.steps import TableChange, TableStep
from headrace.runtime.seam import Point
from headrace.spark.delta_tables import empty_frame
from headrace.spark.frames import flow_frame, register_views
from headrace.spark.surroundings import Surroundings
from headrace.spark.target import make_quarantine


class Preparation:
    """Tables and names of one update. ``loading`` is held while a flow is prepared, loaded and started (D4)."""

    def __init__(self, around: Surroundings) -> None:
        self._around = around
        self._prepared: set[QualifiedName] = set()
        # Confs and temporary views belong to the session, so flows are loaded and started one at a time.
        self.loading = threading.RLock()

    def prepare(self, flow: ResolvedFlow, table: TableStep | None) -> None:
        """Bring the target to where the plan wants it, once for all flows that feed it."""
        around = self._around
        dataset = around.graph.by_name[flow.target]
        with self.loading:
            if flow.target not in self._prepared:
                around.fence()
                if table is not None and table.change is TableChange.RESET:
                    self._reset(dataset)
                around.catalog.register_table(dataset)
                if table is not None and table.change is TableChange.EVOLVE:
                    self._evolve(dataset, table)
                self._prepare_quarantine(dataset)
                self._prepared.add(flow.target)

    def _evolve(self, dataset: ResolvedDataset, table: TableStep) -> None:
        """Columns, properties and the comment, without a row being touched."""
        around = self._around
        if table.columns:
            empty = empty_frame(around.session, dataset.schema.nullable)
            path = around.table_path(dataset.name)
            empty.write.format("delta").mode("append").option("mergeSchema", "true").save(path)
        around.catalog.describe_table(dataset.name, table.properties, table.comment)
        if table.cluster_by is not None:
            around.catalog.cluster_table(dataset.name, table.cluster_by)

    def _prepare_quarantine(self, dataset: ResolvedDataset) -> None:
        around = self._around
        if Rules(dataset.dataset.expectations).with_action(Action.QUARANTINE):
            path = around.layout.quarantine(around.naming, dataset.name)
            if not (Path(path) / "_delta_log").is_dir():
                make_quarantine(around.session, path, empty_frame(around.catalog.session, dataset.schema.nullable))

    def _reset(self, dataset: ResolvedDataset) -> None:
        """Clear a table and begin a new epoch of every flow that feeds it; safe to repeat after a crash."""
        around = self._around
        flows = around.graph.flows_into(dataset.name)
        records = {flow.name: around.state.progress_of(flow) for flow in flows}
        for flow in flows:
            write_record(around.state.record_file(flow), replace(records[flow.name], resetting=True))
        around.at(Point.RESET_BEGUN)
        quarantine = around.layout.quarantine(around.naming, dataset.name)
        if (Path(quarantine) / "_delta_log").is_dir():
            make_quarantine(around.session, quarantine, empty_frame(around.catalog.session, dataset.schema.nullable))
        around.at(Point.RESET_ASIDE)
        around.catalog.replace_table(dataset)
        around.at(Point.RESET_CLEARED)
        for flow in flows:
            fresh = FlowRecord(epoch=records[flow.name].epoch + 1)
            write_record(around.state.record_file(flow), fresh)

    def frame(self, flow: ResolvedFlow) -> DataFrame:
        """What a flow's query returns over the tables as they are registered now."""
        return flow_frame(self._around.graph, flow, self._around.catalog)

    def register_inputs(self, flow: ResolvedFlow) -> dict[str, TableVersion]:
        """Make what a flow reads readable as it is now; the versions of the tables."""
        around = self._around
        versions = {}
        for given in around.graph.stored_inputs(flow):
            around.catalog.register_table(around.graph.by_name[given.name])
            state = table_state(around.table_path(given.name))
            if state is not None:
                versions[str(given.name)] = TableVersion(state.table_id, state.version)
        register_views(around.graph, flow, around.catalog)
        return versions
