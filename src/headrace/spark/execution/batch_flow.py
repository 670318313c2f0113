"""A flow whose query runs as one batch: the refresh of a materialized view, or an append that runs once."""

from __future__ import annotations

from dataclasses import replace

from headrace.delta_log.tables import table_state
from headrace.graph.resolved import Mode, ResolvedFlow
from headrace.runtime.ports import Completed, Report
from headrace.spark.execution.hooks import Hooks
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.session.clone import on_clone
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.sinks.sink_factory import deliveries, with_delivery
from headrace.spark.tables.writer_factory import WriterFactory
from headrace.spark.update.batch_writer import BatchWriter
from headrace.spark.update.context import UpdateContext
from headrace.storage.flow_record import write_record


class BatchFlowExecution:
    """One attempt of a flow that is no stream.

    Args:
        context: what the flows of the update share.
        preparation: prepares inputs.
        flow: what to run.
        attempt: its number within the update, from 1.
        hooks: reports to the attempt.
    """

    def __init__(
        self, context: UpdateContext, preparation: Preparation, flow: ResolvedFlow, attempt: int, hooks: Hooks
    ) -> None:
        self._context = context
        self._preparation = preparation
        self._flow = flow
        self._attempt = attempt
        self._targets = WriterFactory(context, attempt)
        self._hooks = hooks
        self.progressed = False

    def run(self) -> Report:
        """Compute the query and write its rows; raises whatever made it fail."""
        context, flow = self._context, self._flow
        record = context.state.progress_of(flow)
        began_at = context.now()
        replaces = flow.mode is Mode.REPLACE
        with self._preparation.loading:
            inputs = self._preparation.register_inputs(flow)
            with with_confs(context.session, flow.flow.spark_conf):
                frame = on_clone(self._preparation.frame(flow), context.work_group(flow.name))
        self._hooks.started()
        record, stored = with_delivery(context, flow, record), record
        if record != stored:
            context.fence()
            write_record(context.state.record_file(flow), record)
        target: BatchWriter | None = deliveries(context, flow, record, self._attempt, once=True)
        target = target or self._targets.table(flow, record, replaces=replaces)
        state = table_state(context.table_path(flow.target))
        target.write(frame, state.version + 1 if replaces and state else 0)
        written = table_state(context.table_path(flow.target))
        done = replace(
            record,
            fingerprint=flow.analysis.fingerprint,
            started_at=began_at,
            inputs=inputs,
            resetting=False,
            target_id=written.table_id if written else "",
            left=context.state.stores(flow).left(),
        )
        context.fence()
        write_record(context.state.record_file(flow), done)
        self.progressed = True
        return Completed(flow.name)
