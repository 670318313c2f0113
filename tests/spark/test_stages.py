"""Stages: after a swap, an update gives the tables that a full refresh with the new code gives."""

from __future__ import annotations

import json
import random
import textwrap

import pytest
from tests.command_line import in_process
from tests.tiers import cases, examples

from headrace.delta_log.table_layout import table_layout
from headrace.delta_log.tables import table_state, table_version
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


def with_one_update(project, code, **settings):
    pipeline = project(code, **settings)
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
    for number in range(examples(few=1, many=2)):
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
def test_a_stage_is_compared_approved_and_swapped_on_the_command_line(project):
    pipeline = with_one_update(project, BEFORE, approval={"mode": "await"})
    change(pipeline)
    folder = pipeline.folder

    made = in_process(folder, "stage", "create", "bronze")
    compared = in_process(folder, "stage", "compare", "bronze", "--key", "id", "--output", "json")
    planned = in_process(folder, "stage", "swap", "bronze", "--dry-run")
    refused = in_process(folder, "stage", "swap", "bronze")
    plan_file = folder / "swap.plan.json"
    written = in_process(folder, "stage", "swap", "bronze", "--out", str(plan_file))
    unapproved = in_process(folder, "apply", str(plan_file))
    in_process(folder, "approve", str(plan_file), "--as", "bob")
    # Rows that arrive meanwhile are no difference.
    land(pipeline, 1)
    assert in_process(folder, "stage", "run", "bronze").returncode == 0
    swapped = in_process(folder, "apply", str(plan_file), "--output", "json")

    assert (made.returncode, compared.returncode, planned.returncode) == (0, 1, 1), made.stderr
    assert (refused.returncode, written.returncode, unapproved.returncode) == (4, 0, 4)
    assert "STAGE.NEEDS_APPROVAL" in refused.stderr
    assert swapped.returncode == 0, swapped.stderr
    (savepoint,) = pipeline.project.savepoints.all()
    assert savepoint.plan_id == json.loads(plan_file.read_text())["plan_id"]
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


def swapped_and_refreshed(pipeline, names):
    """The rows that an update gives after a swap, and those that a full refresh with the same code gives."""
    ran(pipeline)
    after = contents(pipeline, names)
    outcome = pipeline.run(full_refresh=names, accept_data_loss=True).outcome
    assert outcome.state is UpdateState.COMPLETED, outcome.flows
    return after, contents(pipeline, names)


LAYOUT = """
    DAY = F.expr("CASE WHEN id = 3 THEN NULL ELSE concat('a b/', id, '%=') END")

    @dp.table({options})
    def bronze():
        files = spark.readStream.schema("id LONG, n LONG").json(str(Path(__file__).parents[1] / "landing"))
        return files.where("n > 0").withColumn("day", DAY)

    dp.create_streaming_table("current", {options})
    dp.create_auto_cdc_flow("current", "bronze", keys=["id"], sequence_by="n")

    @dp.materialized_view({options})
    def largest():
        return spark.read.table("bronze").groupBy("day", "id").agg(F.max("n").alias("n"))
"""
LAYOUTS = {
    "becomes partitioned": ("", 'partition_cols=["day"]'),
    "other partitions": ('partition_cols=["id"]', 'partition_cols=["day", "id"]'),
    "no partitions": ('partition_cols=["day"]', ""),
    "becomes clustered": ("", 'cluster_by=["id"]'),
    "other clustering": ('cluster_by=["id"]', 'cluster_by=["day", "id"]'),
    "no clustering": ('cluster_by=["id"]', ""),
    "partitions to clustering": ('partition_cols=["day"]', 'cluster_by=["id"]'),
    "clustering to partitions": ('cluster_by=["id"]', 'partition_cols=["day"]'),
}
# A campaign has the others.
TRIED = ("other partitions", "becomes clustered", "partitions to clustering", "clustering to partitions")


def layouts(pipeline, names):
    paths = [f"{pipeline.settings.layout.root}/tables/default/{name}" for name in names]
    return [(table_state(path).partition_by, table_layout(path).cluster_by) for path in paths]


@pytest.mark.long(guard=LAW)
@pytest.mark.parametrize("change_of_layout", cases(TRIED, [name for name in LAYOUTS if name not in TRIED]))
def test_a_swapped_table_has_the_layout_of_the_new_code(project, headrace_session, change_of_layout):
    """Guards partitions, clustering and names of folders: after a swap they are those of a full refresh, and so are
    the rows."""
    before, after = LAYOUTS[change_of_layout]
    names = ("bronze", "current", "largest")
    pipeline = project("from pathlib import Path\n" + textwrap.dedent(LAYOUT.format(options=before)))
    for number in (0, 1):
        land(pipeline, number)
    ran(pipeline)
    file = pipeline.folder / "transformations/project.py"
    file.write_text(file.read_text().replace(before, after) if before else with_options(file.read_text(), after))

    staged(pipeline, "bronze+")
    pipeline.project.stages.swaps.swap(SwapRequest("new", savepoint=False))
    for name in names:
        path = f"{pipeline.settings.layout.root}/tables/default/{name}"
        headrace_session.sql(f"OPTIMIZE delta.`{path}`")
    land(pipeline, 2)
    swapped = layouts(pipeline, names)
    after_swap, refreshed = swapped_and_refreshed(pipeline, names)

    assert after_swap == refreshed
    assert swapped == layouts(pipeline, names)
    partitions, clusters = swapped[0]
    assert (bool(partitions), bool(clusters)) == ("partition" in after, "cluster" in after)


def with_options(text, options):
    text = text.replace("@dp.table()", f"@dp.table({options})").replace('("current", )', f'("current", {options})')
    return text.replace("@dp.materialized_view()", f"@dp.materialized_view({options})")


TOPIC = """
    @dp.table
    def records():
        records = spark.readStream.format("kafka").options(**{options!r}).load()
        return records.selectExpr("CAST(value AS STRING) AS value", "offset").where("value > 'a'")

    @dp.table
    def counted():
        return spark.readStream.table("records").groupBy("value").count()

    @dp.table
    def below():
        return spark.readStream.table("records").select("value")
"""


@pytest.mark.long(guard=LAW)
def test_a_stage_reads_a_topic_from_the_start_and_goes_on_at_its_offsets(kafka, project):
    """Guards topics: rows may be gone from them, so consent is asked; after a swap no record is missing or twice."""
    topic, staged_names = kafka.topic(partitions=2), ("records", "counted")
    options = {
        "kafka.bootstrap.servers": kafka.servers,
        "subscribe": topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "2",
    }
    pipeline = project(TOPIC.format(options=options))
    kafka.produce(topic, "a", "b", "c", "c")
    kafka.produce(topic, "d", partition=1)
    ran(pipeline)
    file = pipeline.folder / "transformations/project.py"
    file.write_text(file.read_text().replace("value > 'a'", "value > 'b'"))
    stages = pipeline.project.stages

    with pytest.raises(Problems) as refused:
        stages.create(StageRequest(staged_names, name="new"))
    assert {problem.code for problem in refused.value} == {"PLAN.DATA_LOSS"}
    assert stages.all() == ()
    _, outcome = stages.create(StageRequest(staged_names, name="new", accept_data_loss=True))
    assert outcome.state is UpdateState.COMPLETED, outcome.flows
    kafka.produce(topic, "e", "c")
    stages.run("new")
    # "below" has not had these records.
    with pytest.raises(PipelineError) as behind:
        stages.swaps.swap(SwapRequest("new"))
    assert behind.value.code == "STAGE.LOSES"
    new = file.read_text()
    file.write_text(new.replace("value > 'b'", "value > 'a'"))
    ran(pipeline)
    file.write_text(new)
    stages.swaps.swap(SwapRequest("new"))
    kafka.produce(topic, "f", partition=1)
    ran(pipeline)

    assert sorted(row["value"] for row in pipeline.rows("below")) == ["b", "c", "c", "c", "d", "e", "f"]
    after_swap, refreshed = swapped_and_refreshed(pipeline, staged_names)
    assert after_swap == refreshed
    assert len(after_swap["records"]) == 6
