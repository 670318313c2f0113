"""Rows that a query fails on become dead letters one by one, and the stream continues with the others."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable
from pyspark.sql import functions as F
from tests.crashed_updates import die_in_turn, in_turn_or_alone

from headrace.model.outcome import UpdateState
from headrace.spark.deadletter.batch_plan import BatchPlan
from headrace.spark.deadletter.numbered_rows import numbered
from headrace.testing import Crashed, Failpoint

pytestmark = pytest.mark.spark

ALONE = pytest.mark.long(guard="its other cases")

CASTS = """
    @dp.table(schema="id INT, text STRING")
    def source():
        return spark.readStream.schema("id INT, text STRING").json("unused")

    @dp.table(spark_conf={"headrace.failing_rows": "quarantine"})
    def numbers():
        rows = spark.readStream.table("source").where("id >= 0")
        return rows.select("id", F.col("text").cast("int").alias("number"))
    """
SINKS = """
    @dp.table(schema="id INT, text STRING")
    def source():
        return spark.readStream.schema("id INT, text STRING").json("unused")

    for name in ("first", "second"):
        dp.create_sink(name, "delta", {{"path": "{folder}/" + name}})

    @dp.append_flow(target=["first", "second"], spark_conf={{"headrace.failing_rows": "quarantine"}})
    def numbers():
        return spark.readStream.table("source").select("id", F.col("text").cast("int").alias("number"))
    """


def texts(count, bad=()):
    return [{"id": number, "text": "x" if number in bad else str(number)} for number in range(count)]


def ids(pipeline, name="numbers"):
    return sorted(row["id"] for row in pipeline.rows(name))


def delivered(folder):
    tables = [DeltaTable(folder / name).to_pyarrow_table().to_pylist() for name in ("first", "second")]
    return [sorted(row["id"] for row in rows) for rows in tables]


def aside(pipeline, dataset="numbers", flow=None):
    """The rows that were set aside, as their source has them, by their ids."""
    place = pipeline.folder / "storage" / "checkpoints" / "default" / dataset / (flow or dataset) / "failing_rows"
    if not place.exists():
        return {}
    rows = DeltaTable(place).to_pyarrow_table().to_pylist()
    assert len({json.loads(row["row"])["id"] for row in rows}) == len(rows)
    return {json.loads(row["row"])["id"]: row for row in rows}


def test_rows_that_fail_a_cast_become_dead_letters_and_the_others_are_written(project):
    pipeline = project(CASTS).given("source", texts(50, bad={7, 31}))

    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED
    assert ids(pipeline) == [number for number in range(50) if number not in {7, 31}]
    assert {key: row["condition"] for key, row in aside(pipeline).items()} == dict.fromkeys(
        (7, 31), "CAST_INVALID_INPUT"
    )
    counts = result.flow("numbers").counts
    assert (counts.rows_written, counts.rows_quarantined) == (48, 2)


@pytest.mark.parametrize(
    "deaths",
    in_turn_or_alone(
        ALONE,
        *(Failpoint.QUARANTINED, Failpoint.WRITTEN, Failpoint.COUNTED),
        alone=(
            Failpoint.BEFORE_QUARANTINE,
            Failpoint.QUARANTINED,
            Failpoint.BEFORE_WRITE,
            Failpoint.WRITTEN,
            Failpoint.COUNTED,
        ),
    ),
)
def test_each_row_is_either_written_or_a_dead_letter_when_an_update_crashes(project, deaths):
    pipeline = project(CASTS).given("source", texts(20, bad={4}))

    die_in_turn(lambda: pipeline.run("numbers"), pipeline, *deaths)
    result = pipeline.run("numbers")

    assert result.state is UpdateState.COMPLETED
    assert ids(pipeline) == [number for number in range(20) if number != 4]
    assert list(aside(pipeline)) == [4]
    counts = pipeline.project.events().flow_totals()["numbers"]
    assert (counts.rows_written, counts.rows_quarantined) == (19, 1)


def test_a_dead_letter_is_removed_when_its_row_no_longer_fails(project):
    pipeline = project(CASTS).given("source", texts(5, bad={2}))
    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.QUARANTINED).run("numbers")
    assert list(aside(pipeline)) == [2]
    file = pipeline.folder / "transformations" / "project.py"
    file.write_text(file.read_text().replace('.cast("int")', '.try_cast("int")'))

    pipeline.restart().run("numbers")

    assert (ids(pipeline), aside(pipeline)) == ([0, 1, 2, 3, 4], {})


@pytest.fixture(scope="module")
def ruled(shared_project):
    """A pipeline whose rows a query fails with, and a rule takes out, and what came of its update."""
    text = CASTS.replace("    def numbers", '    @dp.expect_or_quarantine("small", "number < 8")\n    def numbers')
    pipeline = shared_project(text).given("source", texts(10, bad={3}))
    return pipeline, pipeline.run()


def test_expectations_are_evaluated_on_the_remaining_rows(ruled):
    pipeline, result = ruled

    assert ids(pipeline) == [0, 1, 2, 4, 5, 6, 7]
    assert [row["row"]["id"] for row in pipeline.rows("numbers_quarantine")] == [8, 9]
    counts = result.flow("numbers").counts
    assert (counts.rows_written, counts.rows_quarantined) == (7, 3)


def test_dead_letters_are_listed_with_quarantined_rows(ruled):
    pipeline, _ = ruled

    listed = pipeline.project.quarantine_list()
    shown = pipeline.project.quarantine_show("numbers")

    assert listed == (("numbers", 3, {"query.failed": 1, "small": 2}),)
    assert shown.columns[:3] == ("broken", "error", "row")
    assert [row[shown.columns.index("broken")] for row in shown.rows].count(["query.failed"]) == 1


def test_rows_that_fail_in_a_python_function_become_dead_letters_with_its_error(project):
    pipeline = project(
        """
        @dp.table(schema="id INT, text STRING")
        def source():
            return spark.readStream.schema("id INT, text STRING").json("unused")

        @F.udf("int")
        def parsed(text):
            if text == "x":
                raise KeyError("no such text")
            return int(text)

        @dp.table(spark_conf={"headrace.failing_rows": "quarantine"})
        def numbers():
            rows = spark.readStream.table("source").join(spark.range(0, 4), "id")
            return rows.select("id", parsed("text").alias("number"))
        """
    ).given("source", texts(6, bad={1, 5}))

    pipeline.run()

    assert ids(pipeline) == [0, 2, 3]
    found = aside(pipeline)
    assert sorted(found) == [1]
    assert "no such text" in found[1]["error"]


@pytest.mark.long(
    guard=(
        "tests/spark/test_dead_letters.py::test_rows_on_which_expressions_raise_errors_are_found_directly",
        "tests/spark/test_dead_letters.py::test_rows_that_fail_a_cast_become_dead_letters_and_the_others_are_written",
    )
)
def test_dead_letters_support_common_table_expressions(project):
    sql = """
        CREATE STREAMING TABLE numbers AS
        WITH known AS (SELECT * FROM STREAM source WHERE id >= 0)
        SELECT id, CAST(text AS INT) AS number FROM known WHERE id < 3
        UNION ALL SELECT id, CAST(text AS INT) FROM known WHERE id >= 3
        """
    source = CASTS.partition("@dp.table(spark_conf")[0]
    settings = {"configuration": {"headrace.failing_rows": "quarantine"}}
    pipeline = project(source, {"transformations/numbers.sql": sql}, **settings).given("source", texts(6, bad={1, 4}))

    result = pipeline.run()

    assert (ids(pipeline), sorted(aside(pipeline))) == ([0, 2, 3, 5], [1, 4]), result.outcome.error


def test_a_flow_fails_when_too_many_rows_fail(project):
    pipeline = project(CASTS).given("source", texts(24, bad=range(0, 24, 2)))

    result = pipeline.run()

    assert result.error == "ROWS.TOO_MANY_FAIL"
    assert (pipeline.rows("numbers"), aside(pipeline)) == ([], {})


def test_a_failed_stateful_flow_reports_the_offsets_of_its_batch(project):
    text = CASTS.replace(
        'rows.select("id", F.col("text").cast("int").alias("number"))',
        'rows.select("id", F.col("text").cast("int").alias("number")).dropDuplicates(["id"])',
    )
    pipeline = project(text).given("source", texts(5, bad={2}))

    result = pipeline.run()

    assert result.error == "ROWS.STATEFUL"
    assert "reservoirVersion" in result.outcome.error["params"]["after"]


@pytest.mark.parametrize(
    "query",
    ['rows.dropDuplicates(["id"])', pytest.param('rows.withColumn("name", F.expr("uuid()"))', marks=ALONE)],
)
def test_a_transient_failure_is_retried_when_failing_rows_cannot_be_found(project, tmp_path, query):
    pipeline = project(
        f"""
        import os

        @dp.table(schema="id INT, text STRING")
        def source():
            return spark.readStream.schema("id INT, text STRING").json("unused")

        @dp.foreach_batch_sink
        def out(batch, batch_id):
            if not os.path.exists({str(tmp_path / "tried")!r}):
                open({str(tmp_path / "tried")!r}, "w").close()
                batch.sparkSession._jvm.java.io.FileReader("/no/such/file")
            batch.write.mode("append").json({str(tmp_path / "out")!r})

        @dp.append_flow(target="out", spark_conf={{"headrace.failing_rows": "quarantine"}})
        def numbers():
            rows = spark.readStream.table("source")
            return {query}
        """,
        max_flow_retries=2,
    ).given("source", texts(5))

    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED, result.outcome.error


def test_a_stateful_flow_reports_a_violated_fail_expectation(project):
    text = CASTS.replace("    def numbers", '    @dp.expect_or_fail("small", "id < 3")\n    def numbers')
    text = text.replace('"number"))\n', '"number")).dropDuplicates(["id"])\n')
    pipeline = project(text).given("source", texts(5))

    assert pipeline.run().error == "EXPECTATION.FAILED"


def test_a_sink_failure_makes_no_dead_letters(project):
    pipeline = project(
        """
        @dp.table(schema="id INT, text STRING")
        def source():
            return spark.readStream.schema("id INT, text STRING").json("unused")

        @dp.foreach_batch_sink
        def out(batch, batch_id):
            batch.select(F.raise_error(F.lit("no room"))).collect()

        @dp.append_flow(target="out", spark_conf={"headrace.failing_rows": "quarantine"})
        def numbers():
            return spark.readStream.table("source")
        """
    ).given("source", texts(5))

    result = pipeline.run()

    assert "no room" in str(result.outcome.error)
    assert aside(pipeline, "out", "numbers") == {}


def test_sinks_receive_only_successful_rows_and_no_duplicates_after_a_crash(project, tmp_path):
    pipeline = project(SINKS.format(folder=tmp_path)).given("source", texts(8, bad={5}))

    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.DELIVERY_RECORDED).run("numbers_targets")
    result = pipeline.restart().run("numbers_targets")

    assert delivered(tmp_path) == [[0, 1, 2, 3, 4, 6, 7]] * 2
    assert list(aside(pipeline, "numbers_targets", "numbers")) == [5]
    counts = result.flow("numbers").counts
    assert (counts.rows_written, counts.rows_quarantined) == (7, 1)


def mended(pipeline, old='.cast("int")', new='.try_cast("int")'):
    file = pipeline.folder / "transformations" / "project.py"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return pipeline


def statuses(pipeline, *place):
    return {key: row["status"] for key, row in aside(pipeline, *place).items()}


@pytest.fixture(scope="module")
def casts_after_one_update(prepared):
    def set_up(shared_project):
        pipeline = shared_project(CASTS).given("source", [*texts(6, bad={1}), {"id": 9, "text": "nine"}])
        pipeline.run()
        assert statuses(pipeline) == {1: "open", 9: "open"}
        return pipeline

    return prepared(set_up)


@pytest.fixture
def casts(casts_after_one_update):
    """Numbers 0 to 5 without 1, which was set aside, as was 9."""
    return casts_after_one_update.restored()


def test_a_full_refresh_clears_the_dead_letters(casts):
    mended(casts)

    casts.run(full_refresh=["numbers"])

    assert (ids(casts), aside(casts)) == ([0, 1, 2, 3, 4, 5, 9], {})


def test_a_replay_writes_rows_that_the_fixed_query_accepts_and_keeps_the_others(casts):
    pipeline = casts

    unchanged = pipeline.replay("numbers")
    before = statuses(pipeline), pipeline.run().state
    mended(pipeline, 'F.col("text").cast("int")', "F.expr(\"CAST(replace(text, 'x', '0') AS INT)\")")
    result = pipeline.replay("numbers")

    assert (unchanged.error, before) == ("REPLAY.STILL_FAIL", ({1: "open", 9: "open"}, UpdateState.COMPLETED))
    assert ids(pipeline) == [0, 1, 2, 3, 4, 5]
    assert statuses(pipeline) == {1: "replayed", 9: "open"}
    assert result.flow("numbers").counts.rows_written == 1


def test_a_replay_can_change_the_values_of_dead_letters(casts):
    casts.replay("numbers", rules=["query.failed"], changes=["text=CAST(id * 10 AS STRING)"])

    found = {row["id"]: row["number"] for row in casts.rows("numbers")}
    assert found == {0: 0, 1: 10, 2: 2, 3: 3, 4: 4, 5: 5, 9: 90}


@pytest.mark.long(
    guard=(
        "tests/spark/test_replay.py::test_no_row_is_lost_or_duplicated_when_an_update_finishes_a_crashed_replay",
        "tests/spark/test_dead_letters.py::test_a_replay_writes_rows_that_the_fixed_query_accepts_and_keeps_the_others",
    )
)
@pytest.mark.parametrize(
    "deaths",
    in_turn_or_alone(
        ALONE,
        *(Failpoint.BEFORE_WRITE, Failpoint.WRITTEN, Failpoint.COUNTED, Failpoint.MARKED_REPLAYED),
    ),
)
def test_each_row_is_replayed_once_when_an_update_finishes_a_crashed_replay(casts, deaths):
    pipeline = mended(casts)

    die_in_turn(lambda: pipeline.replay("numbers"), pipeline, deaths[0])
    die_in_turn(lambda: pipeline.run("numbers"), pipeline, *deaths[1:])
    pipeline.run("numbers")

    assert ids(pipeline) == [0, 1, 2, 3, 4, 5, 9]
    assert statuses(pipeline) == {1: "replayed", 9: "replayed"}


@pytest.mark.long(
    guard=(
        "tests/spark/test_dead_letters.py::test_a_replay_writes_rows_that_the_fixed_query_accepts_and_keeps_the_others",
        "tests/spark/test_rejected_rows.py::test_a_replay_sends_rejected_rows_to_their_sink_again",
    )
)
def test_sinks_receive_replayed_rows_once(project, tmp_path):
    pipeline = project(SINKS.format(folder=tmp_path)).given("source", texts(4, bad={2}))
    pipeline.run()
    mended(pipeline)
    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.MARKED_REPLAYED).replay("numbers_targets")

    pipeline.restart().run("numbers_targets")

    assert delivered(tmp_path) == [[0, 1, 2, 3]] * 2
    assert statuses(pipeline, "numbers_targets", "numbers") == {2: "replayed"}


@pytest.mark.parametrize(
    "files",
    [
        'spark.readStream.format("json")',
        pytest.param('spark.readStream.format("cloudFiles").option("cloudFiles.format", "json")', marks=ALONE),
    ],
    ids=["of spark", "of auto loader"],
)
def test_file_sources_and_cdc_flows_support_dead_letters(project, files):
    pipeline = project(
        """
        from pathlib import Path

        FAILING = {"headrace.failing_rows": "quarantine"}

        @dp.table(spark_conf=FAILING)
        def numbers():
            landing = str(Path(__file__).parents[1] / "landing")
            files = {files}
            return files.schema("id INT, text STRING").load(landing).withColumn("number", F.col("text").cast("int"))

        @dp.temporary_view
        def events():
            return spark.readStream.table("numbers").withColumn("halved", F.expr("100 / (number - 3)"))

        dp.create_streaming_table("newest")
        dp.create_auto_cdc_flow("newest", "events", keys=["id"], sequence_by="number", name="newest")
        """.replace("{files}", files),
        configuration={"headrace.failing_rows": "quarantine"},
    )
    pipeline.land("landing/1.json", texts(6, bad={1}))

    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert (ids(pipeline), list(aside(pipeline))) == ([0, 2, 3, 4, 5], [1])
    assert (ids(pipeline, "newest"), list(aside(pipeline, "newest"))) == ([0, 2, 4, 5], [3])


QUERIES = {
    "a projection": (lambda rows: rows.where("id > 0").select("id", F.col("text").cast("int")), [3, 5]),
    "a filter": (lambda rows: rows.where("CAST(text AS INT) > 0"), [3, 5]),
    "steps with something in common": (
        lambda rows: rows.where("CAST(text AS INT) > 0").selectExpr("id + text"),
        [3, 5],
    ),
    "a union": (lambda rows: rows.where("id < 4").union(rows.selectExpr("CAST(text AS INT)", "text")), [3, 5]),
    "a function of Python": (lambda rows: rows.select(F.udf(lambda text: int(text, 10))("text")), []),
}


@pytest.mark.parametrize(("query", "expected"), QUERIES.values(), ids=QUERIES)
def test_rows_on_which_expressions_raise_errors_are_found_directly(headrace_session, tmp_path, query, expected):
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "rows.json").write_text("".join(json.dumps(row) + "\n" for row in texts(6, bad={3, 5})))
    stream = headrace_session.readStream.schema("id INT, text STRING").json(str(tmp_path / "landing"))
    found = []

    def look(frame, _):
        plan = BatchPlan.of(frame, headrace_session)
        with numbered(plan, plan.sources(), {}) as rows:
            found.extend(rows.suspects(10))

    writer = query(stream).writeStream.foreachBatch(look).option("checkpointLocation", str(tmp_path / "checkpoint"))
    writer.trigger(availableNow=True).start().awaitTermination()

    assert found == expected


def other_code(pipeline):
    """The query takes what it failed with, and fails with row 3 instead."""
    mended(pipeline, 'F.col("text").cast("int")', "F.expr(\"IF(id = 3, raise_error('three'), try_cast(text AS INT))\")")


def test_changed_code_keeps_the_dead_letters_of_a_batch_written_before_a_crash(project):
    pipeline = project(CASTS).given("source", texts(5, bad={1}))
    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.WRITTEN).run("numbers")
    other_code(pipeline)

    pipeline.restart().run("numbers")

    assert (ids(pipeline), statuses(pipeline)) == ([0, 2, 3, 4], {1: "open"})
    counts = pipeline.project.events().flow_totals()["numbers"]
    assert (counts.rows_written, counts.rows_quarantined) == (4, 1)


@pytest.mark.long(guard="tests/spark/test_dead_letters.py::test_a_dead_letter_is_removed_when_its_row_no_longer_fails")
def test_a_dead_letter_is_removed_when_its_row_is_written_with_the_setting_turned_off(project):
    pipeline = project(CASTS).given("source", texts(5, bad={1}))
    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.QUARANTINED).run("numbers")
    mended(mended(pipeline), '"quarantine"', '"fail"')

    pipeline.restart().run("numbers")

    assert (ids(pipeline), aside(pipeline)) == ([0, 1, 2, 3, 4], {})


@pytest.mark.long(
    guard=(
        "tests/spark/test_dead_letters.py::test_changed_code_keeps_the_dead_letters_of_a_batch_written_before_a_crash",
        "tests/spark/test_dead_letters.py::test_sinks_receive_only_successful_rows_and_no_duplicates_after_a_crash",
    )
)
def test_sinks_do_not_receive_dead_letters_when_changed_code_retries_the_batch(project, tmp_path):
    pipeline = project(SINKS.format(folder=tmp_path)).given("source", texts(5, bad={1}))
    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.DELIVERY_RECORDED).run("numbers_targets")
    mended(pipeline)

    pipeline.restart().run("numbers_targets")

    assert delivered(tmp_path) == [[0, 2, 3, 4]] * 2
    assert statuses(pipeline, "numbers_targets", "numbers") == {1: "open"}


def test_a_failure_that_does_not_depend_on_the_rows_makes_no_dead_letters(project):
    text = CASTS.replace(
        "return rows.select(",
        'known = spark.createDataFrame([(1, "x")], "id INT, other STRING")\n'
        '        rows = rows.join(known.select("id", F.col("other").cast("int").alias("other")), "id", "left")\n'
        '        return rows.select("other", ',
    )
    pipeline = project(text).given("source", texts(5))

    result = pipeline.run()

    assert result.outcome.error["params"]["condition"] == "CAST_INVALID_INPUT"
    assert aside(pipeline) == {}


def test_a_row_of_a_query_with_the_current_time_becomes_a_dead_letter(project):
    text = CASTS.replace('rows.select("id"', 'rows.select(F.date_trunc("day", F.current_timestamp()).alias("at"), "id"')
    pipeline = project(text).given("source", texts(5, bad={2}))

    pipeline.run()

    assert (ids(pipeline), list(aside(pipeline))) == ([0, 1, 3, 4], [2])
    assert len({row["at"] for row in pipeline.rows("numbers")}) == 1


def test_a_flow_with_a_nondeterministic_query_fails_when_a_row_fails(project):
    text = CASTS.replace('rows.select("id"', 'rows.select(F.expr("uuid()").alias("key"), "id"')
    pipeline = project(text).given("source", texts(5, bad={1}))

    assert pipeline.run().error == "ROWS.NOT_REPEATABLE"


@pytest.mark.long(
    guard=(
        "tests/spark/test_dead_letters.py::test_a_flow_fails_when_too_many_rows_fail",
        "tests/unit/test_failing_batches.py::test_failed_batches_among_the_most_recent_ones_reach_the_limit",
    )
)
def test_a_flow_fails_when_a_few_rows_fail_in_each_of_many_batches(project):
    text = CASTS.replace("spark.readStream.table", 'spark.readStream.option("maxFilesPerTrigger", 1).table')
    batches = [[{"id": 10 * batch + row, "text": "x"} for row in range(4)] for batch in range(4)]
    pipeline = project(text).given("source", *batches)

    result = pipeline.run()

    assert result.error == "ROWS.TOO_MANY_FAIL"
    assert len(aside(pipeline)) == 8


def test_a_replay_returns_dead_letters_of_two_sources_to_their_own_source(project):
    pipeline = project(
        """
        def texts(name, column):
            @dp.table(name=name, schema=f"id INT, {column} STRING")
            def source():
                return spark.readStream.schema(f"id INT, {column} STRING").json("unused")

        texts("source", "text")
        texts("second", "other")

        @dp.table(spark_conf={"headrace.failing_rows": "quarantine"})
        def numbers():
            first = spark.readStream.table("source").select("id", F.col("text").cast("int").alias("number"))
            second = spark.readStream.table("second").select("id", F.col("other").cast("int").alias("number"))
            return first.union(second)
        """
    )
    pipeline.given("source", texts(3, bad={1}))
    pipeline.given("second", [{"id": 10, "other": "10"}, {"id": 11, "other": "x"}])
    pipeline.run()
    assert (ids(pipeline), sorted(aside(pipeline))) == ([0, 2, 10], [1, 11])
    mended(pipeline)

    pipeline.replay("numbers")

    assert ids(pipeline) == [0, 1, 2, 10, 11]
