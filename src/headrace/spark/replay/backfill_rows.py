"""The rows of a backfill or replay, and the status of replayed rows in quarantine."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.delta_log.tables import table_state
from headrace.graph.resolved_flows import ChangeFlow, ResolvedFlow
from headrace.model.schema import Schema
from headrace.plan.backfills import Backfill, Replay
from headrace.runtime.failpoints import Failpoint
from headrace.spark.delta.tables import delta_table
from headrace.spark.expectations.quarantine_table import RELEASED, REPLAYED, matches_replay
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.queries.batch_mode import as_batch
from headrace.spark.replay.backfill_ranges import open_part
from headrace.spark.replay.quarantined_rows import quarantined_rows
from headrace.spark.replay.replay_query import finish_dead_letter_replay, frame_of_dead_letters
from headrace.spark.replay.replay_source import frame_from_source
from headrace.spark.session.clone import on_clone
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.update.context import UpdateContext
from headrace.storage.backfills import finished, store_backfill
from headrace.storage.flow_record import FlowRecord


def frame_of(
    context: UpdateContext, preparation: Preparation, flow: ResolvedFlow, record: FlowRecord, backfill: Backfill
) -> DataFrame:
    """The rows of a backfill or replay: the query's result over the ranges, or quarantined rows."""
    group = context.work_group(flow.name)
    if backfill.replay is not None and backfill.replay.dead_letter_ids is not None:
        return frame_of_dead_letters(context, preparation, flow, backfill.replay, backfill.replay.dead_letter_ids)
    if backfill.replay is not None and backfill.replay.from_source:
        written = context.state.is_backfill_committed(flow, backfill)
        return frame_from_source(context, preparation, flow, record, backfill.replay, written=written)
    if backfill.replay is not None:
        with preparation.session_lock, with_confs(context.session, flow.flow.spark_conf):
            schema = context.graph.by_name[flow.target].schema
            if isinstance(flow, ChangeFlow):
                schema = Schema.from_json(flow.feed.source_json)
            path = context.layout.quarantine(context.naming, flow.target)
            return on_clone(quarantined_rows(context.session, path, schema, record, backfill.replay), group)
    with preparation.session_lock, open_part(context, flow, backfill) as part, as_batch(part):
        preparation.register_inputs(flow)
        with with_confs(context.session, flow.flow.spark_conf):
            return on_clone(preparation.frame(flow), group)


def remove_quarantined(context: UpdateContext, flow: ResolvedFlow, record: FlowRecord, backfill: Backfill) -> None:
    """Remove the rows that an earlier attempt of a replay quarantined, unless its rows are in the table already."""
    path = context.layout.quarantine(context.naming, flow.target)
    if not backfill.is_resumed or table_state(path) is None or context.state.is_backfill_committed(flow, backfill):
        return
    context.guard.fence()
    previous_attempt = (F.col("flow") == record.identity) & (F.col("epoch") == backfill.epoch)
    delta_table(context.session, path).delete(previous_attempt._jc)  # noqa: SLF001 - Delta's API for columns is Java's


def finish_replay(
    context: UpdateContext, flow: ResolvedFlow, record: FlowRecord, backfill: Backfill, replay: Replay
) -> None:
    """Mark the rows of a replay, which are in the table or in quarantine again, and record that it is done.

    Both steps can be repeated after a crash: rows in quarantine again have the epoch of the replay.
    """
    if replay.dead_letter_ids is not None:
        finish_dead_letter_replay(context, flow, backfill, replay.dead_letter_ids)
        return
    path = context.layout.quarantine(context.naming, flow.target)
    stored = context.session.read.format("delta").option("versionAsOf", replay.version).load(path)
    batches = stored.where(matches_replay(record, replay)).select("epoch", "batch_id").distinct().collect()
    # If this process stops here, and continues after another update, it must not mark rows quarantined since.
    in_batches = F.struct("epoch", "batch_id").isin(*(F.struct(F.lit(e), F.lit(b).cast("bigint")) for e, b in batches))
    rows = matches_replay(record, replay) & (F.col("epoch") != backfill.epoch) & in_batches
    status = REPLAYED if replay.applies_rules else RELEASED
    context.guard.fence()
    jvm: Any = context.session._jvm  # noqa: SLF001 - Delta's API for columns is Java's
    values = jvm.java.util.HashMap()
    values.put("status", F.lit(status)._jc)  # noqa: SLF001 - the same
    delta_table(context.session, path).update(rows._jc, values)  # noqa: SLF001 - the same
    context.guard.failpoint(Failpoint.MARKED_REPLAYED)
    context.guard.fence()
    store_backfill(context.state.record_file(flow).parent, finished(backfill))
