"""Counts the batches that an earlier version left to Delta's own sink, from the table's log."""

from __future__ import annotations

from dataclasses import replace

from headrace.checkpoints.offsets import query_id_of
from headrace.delta_log.tables import committed_transaction, newest_version
from headrace.events.types import BatchDone
from headrace.graph.resolved_flows import ResolvedFlow
from headrace.model.datasets import Kind
from headrace.model.outcome import FlowCounts
from headrace.spark.delta.commit_counts import stream_commits
from headrace.spark.delta.rescued_rows import rescued_column
from headrace.spark.update.context import UpdateContext
from headrace.storage.flow_record import FlowRecord


def count_sink_commits(context: UpdateContext, flow: ResolvedFlow, record: FlowRecord) -> FlowRecord:
    """Record the batches of a flow's epoch that Delta's own sink committed and that a crash left uncounted.

    Up to version 0.1, it wrote the streams without expectations and without state.

    Args:
        context: receives an event for each batch.
        flow: the flow, which is not running.
        record: its record.

    Returns:
        The record with the version up to which commits are counted. Storing it is up to the caller.
    """
    if context.graph.by_name[flow.target].kind is Kind.SINK:
        return record
    path = context.table_path(flow.target)
    query_id = query_id_of(context.state.checkpoint(flow, record.epoch))
    if query_id is None or committed_transaction(path, query_id) is None:
        return record
    newest = newest_version(path)
    if newest <= record.counted_version:
        return record
    for commit in stream_commits(path, query_id, record.counted_version + 1, newest, rescued_column(flow)):
        # An update that crashed may have recorded batches without storing the version.
        if context.reporting.known_counts(flow.name, record.epoch, commit.batch_id) is None:
            context.reporting.emit(
                BatchDone(
                    flow=flow.name,
                    dataset=str(flow.target),
                    epoch=record.epoch,
                    batch_id=commit.batch_id,
                    counts=FlowCounts(rows_written=commit.rows, rows_rescued=commit.rescued),
                    commit=commit.commit,
                )
            )
    return replace(record, counted_version=newest)
