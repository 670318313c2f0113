"""Rules that a row cannot tell by itself: keys, references, late rows, how many rows there are."""

from __future__ import annotations

from collections import Counter

import pytest

from headrace.model.outcome import UpdateState
from headrace.runtime.failpoints import Failpoint
from headrace.testing import Crashed

pytestmark = pytest.mark.spark

SOURCE = """
    @dp.table(schema="id INT, shop STRING, at TIMESTAMP")
    def source():
        return spark.readStream.schema("id INT, shop STRING, at TIMESTAMP").json("unused")
    """


def orders(rule, action="quarantine"):
    return f"""
    {SOURCE}

    @dp.table
    @dp.expect_or_{action}("rule", {rule})
    def orders():
        return spark.readStream.option("maxFilesPerTrigger", 1).table("source")
    """


def ids(rows):
    return [row["id"] for row in rows]


def set_aside(result, name="orders"):
    return ids(row["row"] for row in result.rows(f"{name}_quarantine"))


def batch(*numbers):
    return [{"id": number} for number in numbers]


TWO_FLOWS = f"""
    {SOURCE}

    dp.create_streaming_table("orders", expect_all_or_drop={{"rule": dp.unique("id")}})

    @dp.append_flow(target="orders")
    def one():
        return spark.readStream.table("source")

    @dp.append_flow(target="orders")
    def two():
        return spark.readStream.table("source")
    """
SEVERAL = f"""
    {SOURCE}

    @dp.table
    @dp.expect_or_drop("named", "shop <> ''")
    @dp.expect_or_quarantine("one of each", dp.unique("ID"))
    @dp.expect_or_drop("one a shop", dp.unique(["shop"]))
    def orders():
        return spark.readStream.option("maxFilesPerTrigger", 1).table("source")
    """
ODD = """
    @dp.table
    @dp.expect_or_drop("rule", dp.primary_key("Odd.`Name", "shop"))
    def orders():
        rows = spark.readStream.option("maxFilesPerTrigger", 1).table("source")
        return rows.selectExpr("id AS `odd.``name`", "shop")
    """
COMPLETE = f"""
    {SOURCE}

    @dp.table
    @dp.expect_or_drop("rule", dp.unique("most"))
    @dp.expect("few", dp.row_count(at_most=1))
    def orders():
        rows = spark.readStream.option("maxFilesPerTrigger", 1).table("source")
        return rows.groupBy("shop").agg(F.max("id").alias("most"))
    """
SHOPS = f"""
    {orders('dp.foreign_key("shop", references="shops", referenced="name")')}

    @dp.materialized_view
    def shops():
        return spark.read.json("{{folder}}/shops", schema="name STRING")
    """


def at(*times):
    return [{"id": int(time.replace(":", "")), "at": f"2024-01-01T{time}:00Z"} for time in times]


ON_TIME = orders('dp.on_time("at", within="10 minutes")')
WINDOWS = """
    @dp.table
    def windows():
        rows = spark.readStream.option("maxFilesPerTrigger", 1).table("orders").withWatermark("at", "10 minutes")
        return rows.groupBy(F.window("at", "5 minutes")).count().select("window.start", "count")
    """
FAR = """
    @dp.table(schema="seconds BIGINT")
    def source():
        return spark.readStream.schema("seconds BIGINT").json("unused")

    @dp.table
    @dp.expect_or_drop("rule", dp.on_time("at", within="10 minutes"))
    def orders():
        rows = spark.readStream.option("maxFilesPerTrigger", 1).table("source")
        return rows.selectExpr("seconds AS id", "timestamp_seconds(seconds) AS at")
    """
VIEW = """
    @dp.materialized_view
    @dp.expect_or_fail("some", dp.row_count(at_least=2))
    @dp.expect("few", dp.row_count(at_most=2))
    def orders():
        return spark.read.schema("id INT").json("{file}")
    """
KEYED_VIEW = f"""
    {SOURCE}

    @dp.materialized_view
    @dp.expect_or_drop("rule", dp.unique("id"))
    def orders():
        return spark.read.table("source")
    """
WITH_NULLS = [{"id": 1, "shop": "a"}, {"id": 1}], [{"id": 1}, {"id": 1, "shop": "a"}]
# Each is a pipeline of a table called "orders" and its source, with batches of the source.
CASES = {
    "unique_with_nulls": (orders('dp.unique("id", "shop")', "drop"), WITH_NULLS),
    "primary_key_with_nulls": (SOURCE + ODD, WITH_NULLS),
    "two_flows": (TWO_FLOWS, (batch(1, 2, 3), batch(3, 4), batch(5, 5))),
    "several": (
        SEVERAL,
        (
            [{"id": 1, "shop": ""}, {"id": 1, "shop": "a"}, {"id": 2, "shop": "a"}],
            [{"id": 1, "shop": "b"}, {"id": 2, "shop": "b"}],
        ),
    ),
    "complete": (
        COMPLETE,
        ([{"id": 1, "shop": "a"}], [{"id": 2, "shop": "b"}, {"id": 2, "shop": "c"}]),
    ),
    "referring": (SHOPS, ([{"id": 1, "shop": "a"}, {"id": 2, "shop": "b"}, {"id": 3}],)),
    "late": (
        ON_TIME,
        ([*at("12:00", "11:00"), {"id": 1}], at("12:30", "11:50", "11:51"), at("12:20", "12:21", "13:30")),
    ),
    "windowed": (
        ON_TIME.replace("quarantine", "drop") + WINDOWS,
        (at("12:00", "11:55"), at("12:30", "11:40", "11:51"), at("12:25", "12:01", "13:30")),
    ),
    "far": (FAR, ([{"seconds": 1_700_000_000_000}], [{"seconds": 1_700_000_000_001}, {"seconds": 5}])),
    "counted": (VIEW, ()),
    "keyed": (KEYED_VIEW, (batch(1, 1, 2),)),
}


# What only the long tests look at.
REST = ("complete", "windowed")


def made(shared_project, folder, names):
    (folder / "shops").mkdir()
    (folder / "shops" / "1.json").write_text('{"name": "a"}')
    (folder / "in.json").write_text('{"id": 1}\n{"id": 2}\n{"id": 3}')
    texts = [CASES[name][0].replace("source", f"{name}_source").replace("orders", name) for name in names]
    text = "".join(texts).replace("{folder}", str(folder)).replace("{file}", str(folder / "in.json"))
    pipeline = shared_project(text)
    for name in names:
        if CASES[name][1]:
            pipeline.given(f"{name}_source", *CASES[name][1])
    return pipeline


@pytest.fixture(scope="module")
def pipeline(shared_project, tmp_path_factory):
    return made(shared_project, tmp_path_factory.mktemp("shops"), [name for name in CASES if name not in REST])


@pytest.fixture(scope="module")
def rest(shared_project, tmp_path_factory):
    pipeline = made(shared_project, tmp_path_factory.mktemp("rest"), REST)
    return pipeline, pipeline.run()


@pytest.fixture(scope="module")
def result(pipeline):
    result = pipeline.run()
    assert result.state is UpdateState.COMPLETED, result.outcome.error
    return result


@pytest.mark.parametrize(("rule", "kept"), [("unique", 3), ("primary_key", 1)])
def test_a_key_with_a_null_is_unique_but_violates_a_primary_key(result, rule, kept):
    counts = result.counts(f"{rule}_with_nulls")

    assert (counts.rows_written, counts.rows_dropped) == (kept, 4 - kept)


def test_a_unique_key_is_written_once_when_two_flows_deliver_it(pipeline, result):
    assert ids(result.rows("two_flows")) == [1, 2, 3, 4, 5]
    assert ids(pipeline.recomputed("two_flows")) == [1, 2, 3, 4, 5]


def test_a_row_dropped_by_another_expectation_does_not_block_its_unique_key(result):
    assert [(row["id"], row["shop"]) for row in result.rows("several")] == [(1, "a"), (2, "b")]
    assert set_aside(result, "several") == [1]
    assert result.failed("several") == {"named": 1, "one of each": 1, "one a shop": 1}


def test_key_columns_can_have_special_names(result):
    assert result.rows("primary_key_with_nulls") == [{"odd.`name": 1, "shop": "a"}]


@pytest.mark.long(
    guard=(
        "tests/spark/test_table_rules.py::test_a_unique_key_is_in_a_materialized_view_once_after_each_recomputation",
        "tests/spark/test_rules.py::test_the_quarantine_is_replaced_when_its_table_is_recomputed",
    )
)
def test_table_rules_of_a_recomputed_table_are_evaluated_on_its_new_rows(rest):
    _, result = rest

    assert sorted(row["most"] for row in result.rows("complete")) == [1, 2]
    assert result.failed("complete") == {"rule": 1, "few": 1}


def test_a_foreign_key_is_checked_against_the_referenced_table_which_updates_first(result):
    assert ids(result.rows("referring")) == [1, 3]
    assert set_aside(result, "referring") == [2]


def test_a_row_is_late_relative_to_earlier_batches_and_is_quarantined(result):
    # A watermark of ten minutes drops what is ten minutes late.
    assert ids(result.rows("late")) == [1100, 1151, 1200, 1221, 1230, 1330]
    assert sorted(set_aside(result, "late")) == [1, 1150, 1220]


def test_a_downstream_window_drops_none_of_the_rows_that_are_on_time(rest):
    pipeline, result = rest

    counted = pipeline.sql("SELECT sum(count) AS rows FROM windows").to_json()

    closed = [row for row in result.rows("windowed") if row["id"] < 1330]
    assert counted == [{"rows": len(closed)}]


def test_a_timestamp_after_the_year_9999_is_valid(result):
    counts = result.counts("far")

    assert (counts.rows_written, counts.rows_dropped) == (2, 1)


def test_a_row_without_a_time_is_late(result):
    assert 1 in set_aside(result, "late")
    assert 1 not in ids(result.rows("late"))


def test_row_count_results_are_in_the_event_log(result):
    assert result.failed("counted") == {"some": 0, "few": 1}
    assert ids(result.rows("counted")) == [1, 2, 3]


@pytest.mark.parametrize(
    ("point", "skip"),
    [
        (Failpoint.WRITTEN, 0),
        *(
            pytest.param(point, skip, marks=pytest.mark.long(guard="its other cases"))
            for point, skip in (
                (Failpoint.QUARANTINED, 0),
                (Failpoint.BEFORE_WRITE, 1),
                (Failpoint.WRITTEN, 1),
                (Failpoint.COUNTED, 1),
            )
        ),
    ],
)
def test_a_unique_key_is_written_once_when_an_update_crashes_around_a_commit(project, point, skip):
    pipeline = project(orders('dp.unique("id")'))
    pipeline.given("source", batch(1, 1, 2), batch(2, 3, 3))
    pipeline.crash_at(point, skip=skip)
    with pytest.raises(Crashed):
        pipeline.run()

    result = pipeline.restart().run()

    assert ids(result.rows("orders")) == [1, 2, 3]
    assert Counter(set_aside(result)) == {1: 1, 2: 1, 3: 1}
    totals = pipeline.sql("""
        SELECT sum(passed) AS passed, sum(failed) AS failed FROM event_log_expectations WHERE dataset = 'orders'
        """)
    assert totals.to_json() == [{"passed": 3, "failed": 3}]


def test_a_violated_primary_key_fails_the_update_names_the_row_and_writes_nothing(project):
    pipeline = project(orders('dp.primary_key("id")', "fail"))
    pipeline.given("source", batch(7, 7))

    result = pipeline.run()

    assert result.outcome.error["code"] == "EXPECTATION.FAILED"
    assert result.outcome.error["detail"] == 'Row: {"id":7}'
    assert result.rows("orders") == []


def test_a_unique_key_is_in_a_materialized_view_once_after_each_recomputation(pipeline, result):
    assert ids(result.rows("keyed")) == [1, 2]

    again = pipeline.given("keyed_source", batch(2, 3)).run("keyed")

    assert ids(again.rows("keyed")) == [1, 2, 3]
    assert ids(pipeline.recomputed("keyed")) == [1, 2, 3]


@pytest.mark.long(
    guard="tests/spark/test_table_rules.py::test_a_unique_key_is_written_once_when_an_update_crashes_around_a_commit"
)
@pytest.mark.parametrize("point", [Failpoint.BEFORE_WRITE, Failpoint.WRITTEN])
def test_dropped_rows_are_counted_once_when_an_update_crashes_around_a_commit(project, point):
    pipeline = project(orders('dp.unique("id")', "drop"))
    pipeline.given("source", batch(1, 1), batch(1, 2, 2))
    pipeline.crash_at(point, skip=1)
    with pytest.raises(Crashed):
        pipeline.run()

    result = pipeline.restart().run()

    assert ids(result.rows("orders")) == [1, 2]
    totals = pipeline.project.events().flow_totals()["orders"]
    assert (totals.rows_written, totals.rows_dropped) == (2, 3)


@pytest.mark.long(
    guard=(
        "tests/spark/test_table_rules.py::test_a_foreign_key_is_checked_against_the_referenced_table_which_updates_first",
        "tests/spark/test_replay.py::test_replayed_rows_that_pass_a_changed_expectation_are_written_once",
    )
)
def test_rows_can_be_replayed_after_the_referenced_table_has_their_key(project, tmp_path):
    (tmp_path / "shops").mkdir()
    (tmp_path / "shops" / "1.json").write_text('{"name": "a"}')
    pipeline = project(SHOPS.format(folder=tmp_path))
    pipeline.given("source", [{"id": 1, "shop": "a"}, {"id": 2, "shop": "b"}, {"id": 3, "shop": "c"}])
    pipeline.run()
    (tmp_path / "shops" / "2.json").write_text('{"name": "b"}')
    pipeline.run("shops")

    result = pipeline.replay("orders")

    assert ids(result.rows("orders")) == [1, 2]


def test_a_materialized_view_keeps_its_rows_when_it_would_have_too_few(project, tmp_path):
    file = tmp_path / "in.json"
    file.write_text('{"id": 1}\n{"id": 2}')
    pipeline = project(VIEW.format(file=file))
    pipeline.run()
    file.write_text('{"id": 1}')

    result = pipeline.run()

    assert result.state is UpdateState.FAILED
    assert result.outcome.error["code"] == "EXPECTATION.ROW_COUNT"
    assert ids(result.rows("orders")) == [1, 2]


def test_the_row_count_includes_existing_rows_and_those_of_the_batch(project):
    pipeline = project(orders("dp.row_count(at_most=3)", "fail"))
    pipeline.given("source", batch(1, 2), batch(3), batch(4))

    result = pipeline.run()

    assert 'would leave 4 rows in "orders"' in result.outcome.error["message"]
    assert ids(result.rows("orders")) == [1, 2, 3]


@pytest.mark.long(
    guard=(
        "tests/spark/test_table_rules.py::test_a_unique_key_is_written_once_when_an_update_crashes_around_a_commit",
        "tests/spark/test_table_rules.py::test_row_count_results_are_in_the_event_log",
    )
)
def test_a_row_count_result_is_logged_when_an_update_crashes_before_reporting_it(project):
    pipeline = project(orders("dp.row_count(at_most=3)", "fail").replace("expect_or_fail", "expect"))
    pipeline.given("source", batch(1, 2), batch(3, 4)).crash_at(Failpoint.WRITTEN, skip=1)
    with pytest.raises(Crashed):
        pipeline.run()

    pipeline.restart().run()

    counted = pipeline.sql("SELECT sum(passed) AS passed, sum(failed) AS failed FROM event_log_expectations").to_json()
    assert counted == [{"passed": 1, "failed": 1}]


def test_a_preview_evaluates_table_rules_on_the_rows_that_it_shows(project):
    pipeline = project(orders('dp.unique("id")', "drop"))
    pipeline.given("source", batch(1, 1, 2)).run("source")

    preview = pipeline.project.preview("orders")

    assert sorted(row[0] for row in preview.rows.rows) == [1, 2]
