"""The rows of a backfill or replay, and the status of replayed rows in quarantine."""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.delta_log.tables import table_state
from headrace.graph.resolved import ResolvedFlow
from headrace.model.names import quoted
from headrace.model.schema import Schema
from headrace.plan.backfills import Load, Replay
from headrace.runtime.failpoints import Failpoint
from headrace.spark.delta.conform import conform
from headrace.spark.delta.tables import delta_table
from headrace.spark.expectations.quarantine_table import RELEASED, REPLAYED, meant
from headrace.spark.preparation.prepare import Preparation
from headrace.spark.queries.batch_mode import as_batch
from headrace.spark.replay.backfill import part_of
from headrace.spark.replay.replay_query import frame_of_failing, settle_failing
from headrace.spark.replay.replay_source import frame_from_source
from headrace.spark.session.clone import on_clone
from headrace.spark.session.scoped_confs import with_confs
from headrace.spark.update.context import UpdateContext
from headrace.storage.backfills import finished, store_load
from headrace.storage.flow_record import FlowRecord


def frame_of(
    context: UpdateContext, preparation: Preparation, flow: ResolvedFlow, record: FlowRecord, load: Load
) -> DataFrame:
    """The rows of a backfill or replay: the query's result over the ranges, or quarantined rows."""
    group = context.work_group(flow.name)
    if load.replay is not None and load.replay.failing is not None:
        return frame_of_failing(context, preparation, flow, load.replay, load.replay.failing)
    if load.replay is not None and load.replay.from_source:
        written = context.state.load_is_in_table(flow, load)
        return frame_from_source(context, preparation, flow, record, load.replay, written=written)
    if load.replay is not None:
        with preparation.loading, with_confs(context.session, flow.flow.spark_conf):
            return on_clone(set_aside_rows(context, flow, record, load.replay), group)
    with preparation.loading, part_of(context, flow, load) as part, as_batch(part):
        preparation.register_inputs(flow)
        with with_confs(context.session, flow.flow.spark_conf):
            return on_clone(preparation.frame(flow), group)


def set_aside_rows(context: UpdateContext, flow: ResolvedFlow, record: FlowRecord, replay: Replay) -> DataFrame:
    """The rows of a flow that are open in quarantine, as its function returned them, with their new values."""
    path = context.layout.quarantine(context.naming, flow.target)
    stored = context.session.read.format("delta").option("versionAsOf", replay.version).load(path)
    rows = stored.where(meant(record, replay)).select("row.*")
    for column, text in replay.changes:
        # The type stays, so that a number that is given as one is a text in a column of texts.
        rows = rows.withColumn(column, F.expr(text).cast(rows.schema[column].dataType))
    feed = flow.analysis.feed
    schema = context.graph.by_name[flow.target].schema if feed is None else Schema.from_json(feed.source_json)
    # Flows of one table share its quarantine, whose rows have the columns of all.
    known = [name for name in rows.columns if schema.find(name) is not None]
    return conform(rows.select(*map(quoted, known)), schema)


def take_back(context: UpdateContext, flow: ResolvedFlow, record: FlowRecord, load: Load) -> None:
    """Remove what an earlier attempt of a replay quarantined, unless its rows are in the table already."""
    path = context.layout.quarantine(context.naming, flow.target)
    if not load.begun or table_state(path) is None or context.state.load_is_in_table(flow, load):
        return
    context.fence()
    left = (F.col("flow") == record.identity) & (F.col("epoch") == load.epoch)
    delta_table(context.session, path).delete(left._jc)  # noqa: SLF001 - Delta's API for columns is Java's


def settle(context: UpdateContext, flow: ResolvedFlow, record: FlowRecord, load: Load, replay: Replay) -> None:
    """Mark the rows of a replay, which are in the table or set aside anew, and record that it is done.

    Both can be repeated after a crash: rows that were set aside anew carry the epoch of the replay.
    """
    if replay.failing is not None:
        settle_failing(context, flow, load, replay.failing)
        return
    path = context.layout.quarantine(context.naming, flow.target)
    stored = context.session.read.format("delta").option("versionAsOf", replay.version).load(path)
    batches = stored.where(meant(record, replay)).select("epoch", "batch_id").distinct().collect()
    # Whoever is stopped here, and goes on after another update, marks nothing that was set aside since.
    among = F.struct("epoch", "batch_id").isin(*(F.struct(F.lit(e), F.lit(b).cast("bigint")) for e, b in batches))
    rows = meant(record, replay) & (F.col("epoch") != load.epoch) & among
    status = REPLAYED if replay.judged else RELEASED
    context.fence()
    jvm: Any = context.session._jvm  # noqa: SLF001 - Delta's API for columns is Java's
    values = jvm.java.util.HashMap()
    values.put("status", F.lit(status)._jc)  # noqa: SLF001 - the same
    delta_table(context.session, path).update(rows._jc, values)  # noqa: SLF001 - the same
    context.at(Failpoint.MARKED)
    context.fence()
    store_load(context.state.record_file(flow).parent, finished(load))
