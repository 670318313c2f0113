"""Where the batches of a stream go: to a writer of ours, or to the one of Spark or Delta."""

from __future__ import annotations

from dataclasses import replace

from headrace.checkpoints.offsets import read_progress
from headrace.delta_log.tables import committed_transaction
from headrace.graph.resolved_flows import CompleteFlow, MergeFlow, StreamingFlow
from headrace.model.datasets import Kind
from headrace.model.triggers import Trigger, TriggerKind
from headrace.spark.deadletter.dead_letter_writer import uses_dead_letters, with_dead_letters
from headrace.spark.execution.attempt_hooks import Hooks
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.sinks.resume import resume_delivery
from headrace.spark.sinks.sink_writer import SinkWriter
from headrace.spark.tables.commit_counter import CommitCounter
from headrace.spark.tables.table_writer import TableWriter
from headrace.spark.tables.writer_factory import WriterFactory
from headrace.spark.update.batch_writer import BatchFunction
from headrace.spark.update.context import UpdateContext
from headrace.storage.flow_record import FlowRecord, write_record
from headrace.stores.paths import StoragePath


class StreamTarget:
    """The target of a stream, in one attempt.

    Args:
        context: shared by the flows of the update.
        preparation: whose lock guards the session.
        flow: the flow.
        attempt: its number within the update, from 1.
        hooks: tells whether the attempt is stopping.
    """

    def __init__(
        self, context: UpdateContext, preparation: Preparation, flow: StreamingFlow, attempt: int, hooks: Hooks
    ) -> None:
        self._context = context
        self._preparation = preparation
        self._flow = flow
        self._attempt = attempt
        self._hooks = hooks

    def needs_table_writer(self, checkpoint: StoragePath, record: FlowRecord) -> bool:
        """True if the target is a table that Delta's own sink cannot write.

        Delta's sink skips a committed batch without computing it, applies no expectations, computes no metrics and
        cannot leave out rows.
        Spark cannot continue with state that was not computed again. And Delta's sink would repeat a batch that was
        committed when the flow still had expectations.
        """
        context, flow = self._context, self._flow
        dataset = context.graph.by_name[flow.target]
        if dataset.kind is Kind.SINK:
            return False
        if isinstance(flow, CompleteFlow | MergeFlow) or flow.analysis.operators:
            return True
        if dataset.dataset.expectations or dataset.dataset.metrics:
            return True
        if uses_dead_letters(context, flow):
            return True
        progress = read_progress(checkpoint)
        if progress is None or progress.completed:
            return False
        newest = committed_transaction(context.table_path(flow.target), context.state.transaction(record))
        return newest is not None and newest >= progress.batch_id

    def count_delta_commits(self, record: FlowRecord, query_id: str | None) -> FlowRecord:
        """Count the commits of Delta's own sink, before another writer replaces it."""
        context, flow = self._context, self._flow
        if query_id is None or committed_transaction(context.table_path(flow.target), query_id) is None:
            return record
        counter = CommitCounter(context, flow, record.epoch, query_id, record.counted_version)
        counter.count()
        counted = replace(record, counted_version=counter.counted_version)
        # Store it now, so that no later start counts the same commits.
        context.guard.fence()
        write_record(context.state.record_file(flow), counted)
        return counted

    def batch_function(
        self, record: FlowRecord, trigger: Trigger, *, own_sink: bool, repeats: bool, delivered_before: bool
    ) -> BatchFunction | None:
        """The function for ``foreachBatch``; None if Spark writes the batches itself.

        Args:
            record: of the flow.
            trigger: of the query.
            own_sink: what :meth:`needs_table_writer` returned.
            repeats: an earlier attempt may have quarantined rows of the next batch.
            delivered_before: batches were delivered in this epoch.
        """
        context, flow = self._context, self._flow
        batch_writer: SinkWriter | TableWriter | None = None
        if context.graph.by_name[flow.target].kind is Kind.SINK:
            batch_writer = resume_delivery(
                context,
                flow,
                record,
                self._attempt,
                session_lock=self._preparation.session_lock,
                is_stopping=self._hooks.is_stopping,
                written_by_spark=trigger.kind is TriggerKind.REAL_TIME,
                delivered_before=delivered_before,
            )
        elif own_sink:
            batch_writer = WriterFactory(context, self._attempt).table_writer(
                flow, record, replaces=isinstance(flow, CompleteFlow), repeats=repeats
            )
        writer = with_dead_letters(context, flow, record, batch_writer)
        return None if writer is None else BatchFunction(writer)
