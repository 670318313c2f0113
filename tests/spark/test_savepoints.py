"""Savepoints: after a restore, an update gives the tables that running on has given."""

from __future__ import annotations

import pytest

from headrace.model.outcome import UpdateState
from headrace.project.savepoints.create import SavepointRequest
from headrace.project.savepoints.savepoints import RestoreRequest

pytestmark = pytest.mark.spark

SHAPES = """
    from pathlib import Path

    LANDING = str(Path(__file__).parents[1] / "landing")
    dp.create_streaming_table("current")
    dp.create_streaming_table("history")

    @dp.table
    @dp.expect_or_drop("positive", "n > 0")
    def bronze():
        return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json") \\
            .schema("id LONG, n LONG, at TIMESTAMP").load(LANDING)

    @dp.table
    def appended():
        return spark.readStream.table("bronze").select("id", "n")

    @dp.table
    def distinct_ids():
        return spark.readStream.table("bronze").withWatermark("at", "10 minutes").dropDuplicates(["id"])

    @dp.table
    def totals():
        return spark.readStream.table("bronze").groupBy("id").agg(F.sum("n").alias("n"))

    @dp.materialized_view
    def largest():
        return spark.read.table("bronze").groupBy().agg(F.max("n").alias("n"))

    dp.create_auto_cdc_flow("current", "bronze", keys=["id"], sequence_by="n")
    dp.create_auto_cdc_flow("history", "bronze", keys=["id"], sequence_by="n", stored_as_scd_type=2)
    dp.create_streaming_table("started")

    @dp.append_flow(target="started", once=True)
    def start():
        return spark.range(3)
"""
NAMES = ("bronze", "appended", "distinct_ids", "totals", "largest", "current", "history", "started")


def land(pipeline, name, *rows):
    lines = [{"id": key, "n": n, "at": f"2026-01-01T00:{n % 60:02}:00"} for key, n in rows]
    pipeline.land(f"landing/{name}", lines)


def ran(pipeline):
    outcome = pipeline.run().outcome
    assert outcome.state is UpdateState.COMPLETED, outcome.flows


def contents(pipeline):
    return {name: pipeline.rows(name) for name in NAMES}


@pytest.mark.timeout(300)
def test_every_shape_of_flow_goes_on_after_a_restore_as_if_it_had_run_on(project):
    pipeline = project(SHAPES)
    land(pipeline, "1.json", (1, 1), (2, 2), (2, -1))
    ran(pipeline)
    savepoints = pipeline.project.savepoints
    made = savepoints.create(SavepointRequest("calm"))
    land(pipeline, "2.json", (1, 3), (3, 4), (3, -2))
    ran(pipeline)
    land(pipeline, "3.json", (2, 5), (4, 6))
    ran(pipeline)
    after = contents(pipeline)

    restored = savepoints.restore(RestoreRequest("calm"))

    assert restored.before is not None
    assert len(pipeline.rows("appended")) == 2
    ran(pipeline)
    assert contents(pipeline) == after
    savepoints.restore(RestoreRequest(made.id))
    savepoints.restore(RestoreRequest(restored.before.id))
    ran(pipeline)
    assert contents(pipeline) == after
