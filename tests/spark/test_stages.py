"""Stages: after a swap, an update gives the tables that a full refresh with the new code gives."""

from __future__ import annotations

import json
import random

import pytest
from tests.command_line import in_process
from tests.tiers import examples

from headrace.delta_log.tables import table_version
from headrace.errors import PipelineError, Problems
from headrace.model.outcome import UpdateState
from headrace.project.savepoints.create import SavepointRequest
from headrace.project.savepoints.savepoints import RestoreRequest
from headrace.project.staging.build import StageRequest
from headrace.project.staging.swaps import SwapRequest
from headrace.storage.savepoints.manifest import SavepointKind

pytestmark = pytest.mark.spark

LAW = "tests/spark/test_stages.py::test_a_swapped_dataset_goes_on_as_after_a_full_refresh_with_the_new_code"
BEFORE = """
    from pathlib import Path

    HERE = Path(__file__).parents[1]

    def events():
        files = spark.readStream.format("cloudFiles").option("cloudFiles.format", "json")
        return files.schema("id LONG, n LONG").load(str(HERE / "landing"))

    @dp.table
    @dp.expect_or_quarantine("positive", "n > 0")
    def bronze():
        return events()
"""
BELOW = """
    @dp.table
    def totals():
        return spark.readStream.table("bronze").groupBy("id").agg(F.sum("n").alias("n"))

    dp.create_streaming_table("current")
    dp.create_auto_cdc_flow("current", "bronze", keys=["id"], sequence_by="n")
"""
MORE = """
    dp.create_streaming_table("history")
    dp.create_auto_cdc_flow("history", "bronze", keys=["id"], sequence_by="n", stored_as_scd_type=2)

    @dp.materialized_view
    def largest():
        return spark.read.table("bronze").groupBy().agg(F.max("n"))

    dp.create_streaming_table("started")

    @dp.append_flow(target="started", once=True)
    def start():
        return spark.range(3)
"""
READER = """
    @dp.table
    def appended():
        return spark.readStream.table("bronze").select("id", "n")
"""
SINK = """
    dp.create_sink("out", "delta", {"path": str(HERE / "out")})

    @dp.append_flow(target="out")
    def deliver():
        return spark.readStream.table("bronze").select("id", "n")
"""
NEWER = """
from headrace import pipelines as dp

@dp.table
def newer():
    return spark.readStream.table("bronze")
"""
NAMES = ("bronze", "totals", "current")
ALL_NAMES = (*NAMES, "history", "largest", "started")
ROWS = (((1, 1), (2, 2), (2, -1)), ((1, 3), (3, 4), (3, -2)), ((2, 5), (4, 1)))


def land(pipeline, number):
    pipeline.land(f"landing/{number}.json", [{"id": key, "n": n} for key, n in ROWS[number]])


def ran(pipeline):
    outcome = pipeline.run().outcome
    assert outcome.state is UpdateState.COMPLETED, outcome.flows


def with_one_update(project, code):
    pipeline = project(code)
    land(pipeline, 0)
    ran(pipeline)
    return pipeline


def change(pipeline):
    """New code: another rule, and a new column."""
    file = pipeline.folder / "transformations/project.py"
    text = file.read_text().replace("n > 0", "n > 1")
    file.write_text(text.replace("return events()", 'return events().withColumn("double", F.col("n") * 2)'))


def staged(pipeline, *names, name="new"):
    stage, outcome = pipeline.project.stages.create(StageRequest(names, name=name))
    assert outcome.state is UpdateState.COMPLETED, outcome.flows
    return stage


def contents(pipeline, names):
    return {name: pipeline.rows(name) for name in names}


def versions(pipeline, names):
    return {name: table_version(f"{pipeline.settings.layout.root}/tables/default/{name}") for name in names}


def test_a_swapped_dataset_goes_on_as_after_a_full_refresh_with_the_new_code(project):
    pipeline = with_one_update(project, BEFORE)
    change(pipeline)
    before, log = versions(pipeline, ("bronze",)), pipeline.project.events().position

    staged(pipeline, "bronze")
    land(pipeline, 1)

    assert (versions(pipeline, ("bronze",)), pipeline.project.events().position) == (before, log)
    # The table is replaced; its checkpoint and its record are not.
    crash_at(pipeline.project.stages.swaps, 5)
    assert pipeline.rows("bronze") == [{"id": 2, "n": 2, "double": 4}]
    ran(pipeline)
    land(pipeline, 2)
    ran(pipeline)
    assert sorted((row["id"], row["n"]) for row in pipeline.rows("bronze")) == [(1, 3), (2, 2), (2, 5), (3, 4)]
    assert len(pipeline.rows("bronze_quarantine")) == 4
    assert versions(pipeline, ("bronze",))["bronze"].table_id == before["bronze"].table_id
    assert pipeline.project.stages.all() == ()


@pytest.mark.long(guard=LAW)
def test_all_kinds_of_flows_are_staged_and_can_be_taken_back(project):
    pipeline = with_one_update(project, BEFORE + BELOW + MORE)
    old = contents(pipeline, ALL_NAMES)
    change(pipeline)
    staged(pipeline, "bronze+", "started")

    swapped = pipeline.project.stages.swaps.swap(SwapRequest("new"))

    assert swapped.before.kind is SavepointKind.BEFORE_SWAP
    new = contents(pipeline, ALL_NAMES)
    ran(pipeline)
    # Nothing is computed again.
    assert contents(pipeline, ALL_NAMES) == new
    land(pipeline, 1)
    ran(pipeline)
    assert pipeline.rows("totals") == [{"id": 1, "n": 3}, {"id": 2, "n": 2}, {"id": 3, "n": 4}]
    assert sorted(row["n"] for row in pipeline.rows("current")) == [2, 3, 4]
    assert sorted(row["n"] for row in pipeline.rows("history")) == [2, 3, 4]
    assert pipeline.rows("largest") == [{"max(n)": 4}]
    assert len(pipeline.rows("started")) == 3
    pipeline.project.savepoints.restore(RestoreRequest(swapped.before.id))
    assert contents(pipeline, ALL_NAMES) == old


class Crash(BaseException):
    """The process dies."""


def crash_at(swaps, step):
    left = [step]

    def reached(_):
        if not left[0]:
            raise Crash
        left[0] -= 1

    with pytest.raises(Crash):
        swaps.swap(SwapRequest("new"), reached)


@pytest.mark.long(guard=LAW)
def test_a_swap_that_crashes_at_any_step_is_finished_by_the_next_update(project):
    # One for the beginning, 6 for tables, 2 for batches, 1 for ledgers, 8 for flows, 2 for the end.
    order = [10, *random.Random(5).sample(range(20), 20)]
    for number in range(examples(few=1, many=3)):
        pipeline = with_one_update(project, BEFORE + BELOW + READER)
        change(pipeline)
        staged(pipeline, "bronze", "totals")
        swaps, crashed_at = pipeline.project.stages.swaps, order[number]
        crash_at(swaps, crashed_at)
        with pytest.raises(PipelineError) as refused:
            pipeline.project.savepoints.create(SavepointRequest("meanwhile"))
        assert refused.value.code == "STAGE.SWAPPING"

        land(pipeline, 1)
        ran(pipeline)

        assert sorted(row["n"] for row in pipeline.rows("bronze")) == [2, 3, 4], crashed_at
        assert pipeline.rows("totals") == [{"id": 1, "n": 3}, {"id": 2, "n": 2}, {"id": 3, "n": 4}]
        assert sorted(row["n"] for row in pipeline.rows("appended")) == [1, 2, 3, 4]
        assert pipeline.project.stages.all() == ()


@pytest.mark.long(guard=LAW)
def test_streams_that_are_not_staged_read_on_behind_the_swap(project):
    pipeline = with_one_update(project, BEFORE + BELOW + READER + SINK)
    change(pipeline)
    stage = staged(pipeline, "bronze", "totals")
    swaps = pipeline.project.stages.swaps
    plan = swaps.plan("new")
    assert {flow.name: flow.step.name for flow in plan.swap.flows} == {
        "bronze": "STAGED",
        "totals": "STAGED",
        "current": "MOVED",
        "appended": "MOVED",
        "deliver": "MOVED",
    }
    assert stage.left_out == ()

    # The stage reads rows that production has not read: nobody would deliver them.
    land(pipeline, 1)
    pipeline.project.stages.run("new")
    with pytest.raises(PipelineError) as refused:
        swaps.swap(SwapRequest("new"))
    assert refused.value.code == "STAGE.LOSES"
    ran_with_the_old_code(pipeline)
    swaps.swap(SwapRequest("new"))
    land(pipeline, 2)
    ran(pipeline)

    assert sorted(row["n"] for row in pipeline.rows("bronze")) == [2, 3, 4, 5]
    # Rows of the old code stay, and no row is there twice.
    assert sorted(row["n"] for row in pipeline.rows("appended")) == [1, 2, 3, 4, 5]
    assert sorted(row["n"] for row in pipeline.rows("current")) == [3, 4, 5]
    assert sorted(row["n"] for row in rows_at(pipeline.folder / "out")) == [1, 2, 3, 4, 5]


def ran_with_the_old_code(pipeline):
    file = pipeline.folder / "transformations/project.py"
    new = file.read_text()
    file.write_text(new.replace("n > 1", "n > 0").replace('.withColumn("double", F.col("n") * 2)', ""))
    ran(pipeline)
    file.write_text(new)


def rows_at(path):
    from deltalake import DeltaTable  # noqa: PLC0415 - for this test alone

    return DeltaTable(str(path)).to_pyarrow_table().to_pylist()


@pytest.mark.long(guard=LAW)
def test_a_stage_is_compared_and_swapped_on_the_command_line(project):
    pipeline = with_one_update(project, BEFORE)
    change(pipeline)
    folder = pipeline.folder

    made = in_process(folder, "stage", "create", "bronze")
    compared = in_process(folder, "stage", "compare", "bronze", "--key", "id", "--output", "json")
    planned = in_process(folder, "stage", "swap", "bronze", "--dry-run")
    swapped = in_process(folder, "stage", "swap", "bronze", "--output", "json")

    assert (made.returncode, compared.returncode, planned.returncode, swapped.returncode) == (0, 1, 0, 0), made.stderr
    (table,) = json.loads(compared.stdout)
    assert [table["first"]["rows"], table["second"]["rows"]] == [2, 1]
    assert table["quarantined"] == {"production": 1, "stage": 2}
    (expectation,) = table["expectations"]
    assert [expectation[side]["failed"] for side in ("production", "stage")] == [1, 2]
    assert "nothing was written" in planned.stdout
    assert json.loads(swapped.stdout)["tables"][0]["step"] == "replaced"


@pytest.mark.long(guard=LAW)
def test_what_cannot_be_swapped_is_refused_by_name(project):
    pipeline = with_one_update(project, BEFORE + READER + SINK)
    stages = pipeline.project.stages
    with pytest.raises(PipelineError) as nothing:
        stages.create(StageRequest(("out",)))
    assert nothing.value.code == "STAGE.NOTHING"
    staged(pipeline, "bronze")
    with pytest.raises(PipelineError) as taken:
        stages.create(StageRequest(("bronze",), name="NEW"))
    assert taken.value.code == "STAGE.NAME_TAKEN"

    # Somebody runs the new code in production.
    change(pipeline)
    land(pipeline, 1)
    ran(pipeline)

    codes = [problem.code for problem in stages.swaps.plan("new").problems]
    assert codes == ["STAGE.OTHER_CODE", "STAGE.PRODUCTION_CHANGED"]
    with pytest.raises(Problems):
        stages.swaps.swap(SwapRequest("new"))
    stages.drop("new")
    assert stages.all() == ()
    pipeline.write("transformations/newer.py", NEWER)
    with pytest.raises(Problems) as missing:
        stages.create(StageRequest(("newer",)))
    assert [problem.code for problem in missing.value.errors] == ["STAGE.NOT_DEPLOYED"]


@pytest.mark.long(guard=LAW)
def test_a_stage_is_built_again_when_the_code_has_changed(project):
    pipeline = with_one_update(project, BEFORE)
    staged(pipeline, "bronze")
    change(pipeline)

    stage, outcome = pipeline.project.stages.run("new")

    assert outcome.state is UpdateState.COMPLETED
    assert stage == pipeline.project.stages.find("new")
    assert pipeline.project.stages.swaps.plan("new").problems == ()
    pipeline.project.stages.swaps.swap(SwapRequest("new", savepoint=False))
    assert pipeline.rows("bronze") == [{"id": 2, "n": 2, "double": 4}]
