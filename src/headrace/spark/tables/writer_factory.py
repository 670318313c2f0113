"""Builds the writer of a flow's batches into its table."""

from __future__ import annotations

from dataclasses import replace

from headrace.checkpoints.offsets import query_id_of
from headrace.expectations.compile import Rules
from headrace.graph.resolved_flows import BatchFlow, ChangeFlow, ResolvedFlow, SnapshotFlow
from headrace.model.expectations import Action, Expectation
from headrace.model.refresh import Refresh
from headrace.spark.cdc.change_writer import ChangeWriter
from headrace.spark.cdc.event_rules import snapshot_rules
from headrace.spark.cdc.merge_rules import merge_rules
from headrace.spark.cdc.snapshot_writer import SnapshotWriter
from headrace.spark.delta.rescued_rows import rescued_column
from headrace.spark.expectations.evaluation import Evaluation
from headrace.spark.expectations.samples import samples_per_rule
from headrace.spark.tables.small_batches import SmallBatches
from headrace.spark.tables.table_evaluation import table_evaluation
from headrace.spark.tables.table_writer import TableWriter
from headrace.spark.update.batch_target import BatchTarget
from headrace.spark.update.context import UpdateContext
from headrace.storage.flow_record import FlowRecord


class WriterFactory:
    """Builds the writers of one attempt.

    Args:
        context: the state that the flows of the update share.
        attempt: number of the attempt in this update.
    """

    def __init__(self, context: UpdateContext, attempt: int) -> None:
        self._context = context
        self._attempt = attempt

    def _target(self, flow: ResolvedFlow, record: FlowRecord, *, replaces: bool, repeats: bool = True) -> BatchTarget:
        context = self._context
        resolved = context.graph.by_name[flow.target]
        dataset = resolved.dataset
        required = tuple(c.name for c in resolved.code_schema.columns if not c.nullable) if replaces else ()
        return BatchTarget(
            flow=flow.name,
            dataset=str(flow.target),
            table=context.table_path(flow.target),
            quarantine=context.layout.quarantine(context.naming, flow.target),
            transaction=context.state.transaction(record),
            epoch=record.epoch,
            identity=record.identity,
            update_id=context.update_id,
            fencing_token=context.guard.fencing_token,
            attempt=self._attempt,
            query_id=query_id_of(context.state.checkpoint(flow, record.epoch)) or "",
            stateful=bool(flow.analysis.operators),
            replaces=replaces,
            repeats=repeats,
            partition_by=dataset.partition_by,
            cluster_by=dataset.cluster_by,
            required=required,
            rescued_column=rescued_column(flow),
        )

    def snapshot_writers(self, flow: SnapshotFlow, record: FlowRecord) -> tuple[TableWriter, SnapshotWriter]:
        """The writer of a flow's snapshots, and the snapshot writer that it uses."""
        context, feed = self._context, flow.feed
        declared = context.graph.by_name[flow.target].dataset.expectations
        target, rules = self._target(flow, record, replaces=False), Rules(snapshot_rules(flow.flow, feed, declared))
        rejects_rows = any(rule.action in (Action.DROP, Action.QUARANTINE) for rule in declared)
        snapshot_writer = SnapshotWriter(
            flow=flow.flow,
            feed=feed,
            table=target.table,
            transaction=target.transaction,
            failpoint=context.guard.failpoint,
            fence=context.guard.fence,
            table_lock=context.table_locks[flow.target],
            rejects_rows=rejects_rows,
        )
        return TableWriter(
            target,
            Evaluation(rules),
            context.emit_timed(flow.name),
            context.reporting.known_counts,
            context.guard.failpoint,
            context.guard.fence,
            snapshot_writer,
        ), snapshot_writer

    def table_writer(
        self,
        flow: ResolvedFlow,
        record: FlowRecord,
        *,
        replaces: bool,
        repeats: bool = True,
        apply_expectations: bool = True,
        refresh: Refresh | None = None,
        user_metadata: str | None = None,
    ) -> TableWriter:
        """The writer of a flow's batches.

        Args:
            flow: the flow.
            record: its record, with the epoch.
            replaces: a batch replaces all rows.
            repeats: an earlier attempt may have quarantined rows of the next batch.
            apply_expectations: apply the expectations of the table.
            refresh: how a materialized view is refreshed.
            user_metadata: what the commits say in addition.
        """
        context = self._context
        dataset = context.graph.by_name[flow.target].dataset
        target = self._target(flow, record, replaces=replaces, repeats=repeats)
        target = replace(target, refresh=refresh, user_metadata=user_metadata)
        if isinstance(flow, ChangeFlow):
            return self._merge_writer(flow, target, dataset.expectations if apply_expectations else ())
        checkpoint = context.state.checkpoint(flow, record.epoch)
        small_batches = SmallBatches(checkpoint, flow.analysis.sources, target.table if replaces else None)
        evaluation, table_lock = table_evaluation(context, dataset, target, apply_expectations=apply_expectations)
        samples = samples_per_rule(context, flow)
        return TableWriter(
            target,
            evaluation,
            context.emit_timed(flow.name) if isinstance(flow, BatchFlow) else context.reporting.emit,
            context.reporting.known_counts,
            context.guard.failpoint,
            context.guard.fence,
            small_batches=small_batches,
            table_lock=table_lock,
            samples=samples,
            metrics=dataset.metrics,
        )

    def _merge_writer(self, flow: ChangeFlow, target: BatchTarget, declared: tuple[Expectation, ...]) -> TableWriter:
        context, feed = self._context, flow.feed
        dataset = context.graph.by_name[flow.target].dataset
        on_tie = context.defaults.on_tie.with_confs(dataset.properties)
        rules = merge_rules(flow.flow, feed, declared, on_tie)
        change_writer = ChangeWriter(
            flow=flow.flow,
            feed=feed,
            table=target.table,
            retained_events=context.layout.cdc_state(context.naming, flow.target),
            transaction=target.transaction,
            failpoint=context.guard.failpoint,
            fence=context.guard.fence,
            table_lock=context.table_locks[flow.target],
            retention=context.defaults.retention.with_confs(dataset.properties),
            now=context.reporting.now,
            fencing_token=context.guard.fencing_token,
            on_tie=on_tie,
        )
        return TableWriter(
            target,
            Evaluation(rules),
            context.reporting.emit,
            context.reporting.known_counts,
            context.guard.failpoint,
            context.guard.fence,
            change_writer,
        )
