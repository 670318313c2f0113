"""Rows that sinks have refused, to the same sinks once more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from headrace.checkpoints.failing_rows import StoredRow, stored_failing_rows
from headrace.checkpoints.loads import store_load
from headrace.checkpoints.records import FlowRecord
from headrace.errors import PipelineError
from headrace.graph.resolved import ResolvedFlow
from headrace.plan.loads import Load, Replay
from headrace.spark.delta_tables import struct_type
from headrace.spark.failing_again import settle_failing
from headrace.spark.numbered_rows import JSON_OPTIONS
from headrace.spark.preparation import Preparation
from headrace.spark.session import on_clone, with_confs
from headrace.spark.sinks.making import deliveries
from headrace.spark.surroundings import Surroundings


def deliver_refused(
    around: Surroundings,
    preparation: Preparation,
    flow: ResolvedFlow,
    record: FlowRecord,
    load: Load,
    asked: Replay,
    attempt: int,
) -> None:
    """Hand rows to the sinks that have refused them; what they refuse again is set aside anew.

    Which rows they are is stored before, so that each is delivered as one batch of its own however often it is tried.

    Args:
        around: the pipeline.
        preparation: has the session's settings.
        flow: whose rows.
        record: of the flow.
        load: the replay.
        asked: what it is to do.
        attempt: the how manieth try of the flow.
    """
    folder = around.state.record_file(flow).parent
    rows = stored_failing_rows(folder, asked.failing or (), refused=True)
    members = around.graph.by_name[flow.target].members or (flow.target,)
    # A sink that is no longer in the code gets nothing; its rows stay.
    rows = [row for row in rows if row.sink in set(map(str, members))]
    sinks = sorted({str(row.sink) for row in rows})
    with preparation.loading, with_confs(around.session, {**record.confs, **flow.flow.spark_conf}):
        frames = {sink: _frame(around, flow, asked, [row for row in rows if row.sink == sink]) for sink in sinks}
    # Only a load that can be read is one that has to be finished.
    load = replace(load, replay=replace(asked, failing=tuple(row.id for row in rows)))
    around.fence()
    store_load(folder, load)
    own = replace(record, epoch=load.epoch, delivery=f"{record.delivery}:{load.number}")
    for number, sink in enumerate(sinks):
        target = deliveries(around, flow, own, attempt, once=True, only=sink)
        assert target is not None  # noqa: S101 - a sink has refused them
        target.write(frames[sink], number)
    settle_failing(around, flow, load, [row.id for row in rows])


def _frame(around: Surroundings, flow: ResolvedFlow, asked: Replay, rows: Sequence[StoredRow]) -> DataFrame:
    """The rows, as the query has returned them."""
    # Another flow into the same sink may return other columns.
    schema = struct_type(flow.analysis.schema.nullable)
    for row in rows:
        columns = set(json.loads(row.row))
        if not columns <= set(schema.names):
            named = ", ".join(sorted(columns))
            raise PipelineError("REPLAY.OTHER_SOURCE", location=flow.flow.location, flow=flow.name, columns=named)
    frame = around.session.createDataFrame([(row.row,) for row in rows], "row STRING")
    options = {**JSON_OPTIONS, "mode": "FAILFAST"}
    frame = frame.select(F.from_json("row", schema, options).alias("row")).select("row.*")
    for column, text in asked.changes:
        frame = frame.withColumn(column, F.expr(text).cast(frame.schema[column].dataType))
    return on_clone(frame, around.work_group(flow.name))
