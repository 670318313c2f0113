"""Runs a flow whose query is one batch: the refresh of a materialized view, or a once flow."""

from __future__ import annotations

import time
from dataclasses import replace

from pyspark.sql import DataFrame

from headrace.delta_log.tables import table_state
from headrace.graph.resolved_flows import BatchFlow, RefreshFlow
from headrace.model.refresh import RefreshCost
from headrace.runtime.ports import Completed, Report
from headrace.spark.delta.conflicts import Outdated
from headrace.spark.execution.attempt_hooks import Hooks
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.refresh.view_refresh import GroupRefresh, ViewRefresh
from headrace.spark.session.clone import on_clone
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.sinks.create_sink_writer import create_sink_writer, with_delivery
from headrace.spark.tables.writer_factory import WriterFactory
from headrace.spark.update.batch_writer import BatchWriter
from headrace.spark.update.context import UpdateContext
from headrace.storage.flow_record import FlowRecord, write_record


class BatchFlowExecution:
    """One attempt of a flow that runs as one batch.

    Args:
        context: shared by the flows of the update.
        preparation: prepares inputs.
        flow: the flow to run.
        attempt: its number within the update, from 1.
        hooks: reports to the attempt.
        full: compute all rows of a view, whatever its policy.
    """

    def __init__(
        self,
        context: UpdateContext,
        preparation: Preparation,
        flow: BatchFlow,
        attempt: int,
        hooks: Hooks,
        *,
        full: bool,
    ) -> None:
        self._context = context
        self._preparation = preparation
        self._flow = flow
        self._attempt = attempt
        self._targets = WriterFactory(context, attempt)
        self._hooks = hooks
        self._full = full
        self.progressed = False

    def run(self) -> Report:
        """Compute the query and write its rows; raises whatever made it fail."""
        context, flow = self._context, self._flow
        record = context.state.progress_of(flow)
        began_at = context.reporting.now()
        with self._preparation.session_lock:
            inputs = self._preparation.register_inputs(flow)
            with with_confs(context.session, flow.flow.spark_conf):
                frame = on_clone(self._preparation.frame(flow), context.work_group(flow.name))
        self._hooks.on_start()
        record, stored = with_delivery(context, flow, record), record
        if record != stored:
            context.guard.fence()
            write_record(context.state.record_file(flow), record)
        if isinstance(flow, RefreshFlow):
            record = self._refresh(flow, record, frame)
        else:
            target: BatchWriter | None = create_sink_writer(context, flow, record, self._attempt, single_batch=True)
            target = target or self._targets.table_writer(flow, record, replaces=False)
            target.write(frame, 0)
        written = table_state(context.table_path(flow.target))
        done = replace(
            record,
            fingerprint=flow.analysis.fingerprint,
            code=context.code_digest,
            started_at=began_at,
            inputs=inputs,
            resetting=False,
            target_id=written.table_id if written else "",
            table_versions=context.state.stores(flow).table_versions(),
        )
        context.guard.fence()
        write_record(context.state.record_file(flow), done)
        self.progressed = True
        return Completed(flow.name)

    def _refresh(self, flow: RefreshFlow, record: FlowRecord, frame: DataFrame) -> FlowRecord:
        """Bring the table of a view up to date; returns the record with what it cost."""
        began_s = time.monotonic()
        refresh = ViewRefresh(self._context, flow, record)
        chosen = refresh.choose(frame, requested=self._full)
        changed_bytes = 0
        if isinstance(chosen, GroupRefresh):
            try:
                chosen.write()
                changed_bytes = chosen.changed_bytes
            except Outdated:
                chosen = refresh.choose(frame, failed="another writer has changed the view meanwhile")
        if not isinstance(chosen, GroupRefresh):
            target = self._targets.table_writer(
                flow, record, replaces=True, refresh=chosen.refresh, user_metadata=chosen.user_metadata
            )
            state = table_state(self._context.table_path(flow.target))
            target.write(chosen.frame, state.version + 1 if state else 0)
        if not chosen.input_bytes:
            return record
        cost = RefreshCost(time.monotonic() - began_s, chosen.input_bytes, changed_bytes)
        return replace(record, refresh_costs={**record.refresh_costs, chosen.cost_key: cost})
