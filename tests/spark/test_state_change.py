"""Streams that keep state: which changes of their query go on with it, and which are refused before they start."""

from __future__ import annotations

import shutil

import pytest
from pyspark.sql import functions as F

from headrace.errors import Problems
from headrace.model.change_classes import ChangeClass
from headrace.model.outcome import FlowState, UpdateState

pytestmark = pytest.mark.spark

LEGS = 'spark.readStream.schema("origin STRING, dest STRING, delay INT, at TIMESTAMP").json(spark.conf.get("landing"))'
TEXT = f"""
    @dp.table
    def legs():
        return {LEGS}

    def timed():
        return spark.readStream.table("legs").withWatermark("at", "1 hour")

    @dp.table
    def totals():
        return spark.readStream.table("legs").groupBy("origin").agg(F.count("*").alias("n"), F.sum("delay").alias("d"))

    @dp.table
    def hourly():
        return timed().groupBy(F.window("at", "1 hour"), "origin").count().select("window.start", "origin", "count")

    @dp.table
    def firsts():
        return timed().dropDuplicates(["origin", "at"]).select("origin", "at", "delay")

    @dp.table
    def pairs():
        back = timed().select(F.col("dest").alias("o"), F.col("at").alias("then"), F.col("delay").alias("late"))
        near = F.expr("origin = o AND then BETWEEN at AND at + INTERVAL 1 HOUR")
        return timed().join(back, near).select("origin", "late")

    @dp.table
    def plain():
        return timed().where("delay > 0").select("origin", "delay")
    """


def leg(origin, dest, delay, hour):
    return {"origin": origin, "dest": dest, "delay": delay, "at": f"2024-01-01T{hour:02}:00:00Z"}


@pytest.fixture(scope="module")
def pipeline(shared_project):
    pipeline = shared_project(TEXT, configuration={"landing": "landing", "spark.sql.shuffle.partitions": "1"})
    landing = pipeline.folder / "landing"
    settings = pipeline.folder / "pipeline.yml"
    settings.write_text(settings.read_text().replace("landing: landing", f"landing: {landing}"))
    pipeline = type(pipeline)(pipeline.folder, pipeline.folder / "storage", {})
    pipeline.land("landing/1.json", [leg("A", "B", 5, 1), leg("B", "A", 7, 1), leg("A", "C", 1, 2)])
    assert pipeline.run().state is UpdateState.COMPLETED
    return pipeline


@pytest.fixture
def changed(pipeline):
    """The project with some texts in place of others, as pairs of the old one and the new one, for one test."""
    file = pipeline.folder / "transformations" / "project.py"
    before = file.read_text()

    def change(*pairs):
        text = before
        for old, new in pairs:
            assert old in text
            text = text.replace(old, new)
        file.write_text(text)
        return pipeline

    yield change
    file.write_text(before)


REFUSED = {
    "grouping key": (
        'groupBy("origin").agg',
        'groupBy("dest").agg',
        '"aggregate by origin: count(*), sum(delay)" is now "aggregate by dest: count(*), sum(delay)"',
    ),
    "function": (
        'F.sum("delay")',
        'F.max("delay")',
        '"aggregate by origin: count(*), sum(delay)" is now "aggregate by origin: count(*), max(delay)"',
    ),
    "order of functions": (
        'F.count("*").alias("n"), F.sum("delay").alias("d")',
        'F.sum("delay").alias("d"), F.count("*").alias("n")',
        '"aggregate by origin: count(*), sum(delay)" is now "aggregate by origin: sum(delay), count(*)"',
    ),
    "length of the window": (
        'F.window("at", "1 hour"), "origin"',
        'F.window("at", "30 minutes"), "origin"',
        (
            '"aggregate by window(at, 1 hour), origin: count(*)" is now '
            '"aggregate by window(at, 30 minutes), origin: count(*)"'
        ),
    ),
    "type of a key": (
        'dropDuplicates(["origin", "at"])',
        'withColumn("origin", F.ascii("origin")).dropDuplicates(["origin", "at"])',
        (
            '"deduplicate by origin, at (origin string, at timestamp)" is now '
            '"deduplicate by origin, at (origin int, at timestamp)"'
        ),
    ),
    "columns kept by a join": (
        'select("origin", "late")',
        'select("origin", "late", "dest")',
        (
            '"inner join on origin = o; keeps origin, at and o, then, late" is now '
            '"inner join on origin = o; keeps origin, dest, at and o, then, late"'
        ),
    ),
    "another operator": (
        'timed().where("delay > 0")',
        'timed().dropDuplicates(["origin"]).where("delay > 0")',
        '"deduplicate by origin" was added and has no state',
    ),
    "no operator": (
        '.dropDuplicates(["origin", "at"])',
        "",
        '"deduplicate by origin, at" was removed',
    ),
}


# Changes of different flows, which are refused together.
TOGETHER = (
    ("grouping key", "length of the window", "type of a key", "columns kept by a join", "another operator"),
    ("function", "no operator"),
    ("order of functions",),
)


@pytest.mark.parametrize("cases", TOGETHER, ids=", ".join)
def test_an_incompatible_state_change_is_rejected_and_names_the_operator(changed, cases):
    with pytest.raises(Problems) as found:
        changed(*(REFUSED[case][:2] for case in cases)).plan()

    blocked = [change for change in found.value.plan.changes if change.change_class is ChangeClass.BLOCKED]
    assert {id(change.error) for change in blocked} == set(map(id, found.value))
    state = [error for error in found.value if error.code == "FLOW.STATE_CHANGED"]
    assert sorted(error.params["changes"] for error in state) == sorted(REFUSED[case][2] for case in cases)
    for error in state:
        flow = error.params["flow"]
        assert f"headrace run --full-refresh {flow}" in error.hint
        # A flow in complete mode has no progress that could be dropped while its table is kept.
        assert (f"headrace run --reset-checkpoint {flow}" in error.hint) is (flow != "totals")


def test_a_change_between_append_and_complete_mode_is_rejected(changed):
    with pytest.raises(Problems) as found:
        changed(("return timed().groupBy(F.window", 'return spark.readStream.table("legs").groupBy(F.window')).plan()

    assert [error.params["changes"] for error in found.value] == [
        "the old query adds rows to the table in each batch, the new query replaces the table"
    ]


def test_a_filter_before_a_stateful_operator_can_change_without_losing_state(changed):
    pipeline = changed(('table("legs").groupBy("origin")', 'table("legs").where("delay < 100").groupBy("origin")'))
    pipeline.land("landing/2.json", [leg("A", "B", 3, 1), leg("A", "B", 500, 1)])

    result = pipeline.run("totals", "legs")

    assert result.flow("totals").state is FlowState.COMPLETED
    assert {row["origin"]: (row["n"], row["d"]) for row in result.rows("totals")} == {"A": (3, 9), "B": (1, 7)}


def test_the_plan_accepts_changed_watermarks_and_filters(changed):
    pipeline = changed(('withWatermark("at", "1 hour")', 'withWatermark("at", "2 hours").where("delay < 1000")'))

    plan = pipeline.plan()
    changed_flows = ("hourly", "firsts", "pairs", "plain")
    assert {plan.step_for(flow).reason for flow in changed_flows} == {"its code, settings or input columns changed"}


@pytest.mark.long(
    guard="tests/spark/test_state_change.py::test_an_incompatible_state_change_is_rejected_and_names_the_operator"
)
def test_spark_mixes_old_and_new_state_when_the_grouping_key_changes(pipeline, headrace_session, tmp_path):
    """Why another grouping key of the same type is refused: Spark takes it and the result is neither."""
    shutil.copytree(pipeline.folder / "storage" / "checkpoints" / "default" / "totals" / "totals" / "0", tmp_path / "c")
    pipeline.land("landing/9.json", [leg("X", "Y", 1, 1)])
    pipeline.run("legs")
    found = []
    path = str(pipeline.folder / "storage" / "tables" / "default" / "legs")
    legs = headrace_session.readStream.format("delta").load(path)
    stream = legs.groupBy("dest").agg(F.count("*"), F.sum("delay"))
    query = stream.writeStream.outputMode("complete").option("checkpointLocation", str(tmp_path / "c"))
    started = query.foreachBatch(lambda frame, _: found.extend(frame.collect())).trigger(availableNow=True).start()
    started.awaitTermination()

    assert sorted(row["dest"] for row in found) == ["A", "B", "Y"]


@pytest.mark.long(
    guard="tests/spark/test_state_change.py::test_an_incompatible_state_change_is_rejected_and_names_the_operator"
)
def test_spark_fails_when_a_stateful_operator_is_added(pipeline, headrace_session, tmp_path):
    """Why an operator that is added is refused."""
    shutil.copytree(pipeline.folder / "storage" / "checkpoints" / "default" / "plain" / "plain" / "0", tmp_path / "c")
    path = str(pipeline.folder / "storage" / "tables" / "default" / "legs")
    pipeline.land("landing/8.json", [leg("X", "Y", 1, 1)])
    pipeline.run("legs")
    stream = headrace_session.readStream.format("delta").load(path).dropDuplicates(["origin"])
    query = stream.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "c"))
    with pytest.raises(Exception, match="STREAM_FAILED"):
        query.trigger(availableNow=True).start(str(tmp_path / "t")).awaitTermination()
