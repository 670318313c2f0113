"""Where the batches of a stream go: to a writer of ours, or to a sink of Spark in real-time mode."""

from __future__ import annotations

from headrace.graph.resolved_flows import CompleteFlow, StreamingFlow
from headrace.model.datasets import Kind
from headrace.model.triggers import Trigger, TriggerKind
from headrace.spark.deadletter.dead_letter_writer import with_dead_letters
from headrace.spark.execution.attempt_hooks import Hooks
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.sinks.resume import resume_delivery
from headrace.spark.sinks.sink_writer import SinkWriter
from headrace.spark.tables.commit_counter import count_sink_commits
from headrace.spark.tables.table_writer import TableWriter
from headrace.spark.tables.writer_factory import WriterFactory
from headrace.spark.update.batch_writer import BatchFunction
from headrace.spark.update.context import UpdateContext
from headrace.storage.flow_record import FlowRecord


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

    def count_rest(self, record: FlowRecord) -> FlowRecord:
        """Count the commits that Delta's own sink made in version 0.1 and that a crash left uncounted."""
        return count_sink_commits(self._context, self._flow, record)

    def batch_function(
        self, record: FlowRecord, trigger: Trigger, *, repeats: bool, delivered_before: bool
    ) -> BatchFunction | None:
        """The function for ``foreachBatch``; None if Spark writes the batches itself.

        Args:
            record: of the flow.
            trigger: of the query.
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
        else:
            batch_writer = WriterFactory(context, self._attempt).table_writer(
                flow, record, replaces=isinstance(flow, CompleteFlow), repeats=repeats
            )
        writer = with_dead_letters(context, flow, record, batch_writer)
        return None if writer is None else BatchFunction(writer)
