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
def test_a_key_with_a_null_is_like_no_other_and_no_primary_key(result, rule, kept):
    counts = result.counts(f"{rule}_with_nulls")

    assert (counts.rows_written, counts.rows_dropped) == (kept, 4 - kept)


def test_a_key_is_in_the_table_once_when_two_flows_bring_it(pipeline, result):
    assert ids(result.rows("two_flows")) == [1, 2, 3, 4, 5]
    assert ids(pipeline.recomputed("two_flows")) == [1, 2, 3, 4, 5]


def test_a_row_that_another_rule_keeps_out_does_not_stand_in_the_way_of_its_key(result):
    assert [(row["id"], row["shop"]) for row in result.rows("several")] == [(1, "a"), (2, "b")]
    assert set_aside(result, "several") == [1]
    assert result.failed("several") == {"named": 1, "one of each": 1, "one a shop": 1}


def test_columns_with_odd_names_are_keys_too(result):
    assert result.rows("primary_key_with_nulls") == [{"odd.`name": 1, "shop": "a"}]


@pytest.mark.long(
    guard=(
        "tests/spark/test_table_rules.py::test_a_key_is_in_a_materialized_view_once_however_often_it_is_computed",
        "tests/spark/test_rules.py::test_the_quarantine_is_replaced_with_a_table_that_is_replaced",
    )
)
def test_a_table_that_is_replaced_is_judged_by_what_replaces_it(rest):
    _, result = rest

    assert sorted(row["most"] for row in result.rows("complete")) == [1, 2]
    assert result.failed("complete") == {"rule": 1, "few": 1}


def test_a_foreign_key_is_looked_for_in_the_other_table_which_comes_first(result):
    assert ids(result.rows("referring")) == [1, 3]
    assert set_aside(result, "referring") == [2]


def test_a_row_is_late_by_the_batches_before_its_own_and_waits_in_quarantine(result):
    # A watermark of ten minutes drops what is ten minutes late.
    assert ids(result.rows("late")) == [1100, 1151, 1200, 1221, 1230, 1330]
    assert sorted(set_aside(result, "late")) == [1, 1150, 1220]


def test_an_operator_downstream_passes_over_none_of_the_rows_that_are_on_time(rest):
    pipeline, result = rest

    counted = pipeline.sql("SELECT sum(count) AS rows FROM windows").to_json()

    closed = [row for row in result.rows("windowed") if row["id"] < 1330]
    assert counted == [{"rows": len(closed)}]


def test_a_time_beyond_the_year_9999_is_a_time(result):
    counts = result.counts("far")

    assert (counts.rows_written, counts.rows_dropped) == (2, 1)


def test_a_row_without_a_time_is_late(result):
    assert 1 in set_aside(result, "late")
    assert 1 not in ids(result.rows("late"))


def test_what_is_counted_of_a_table_is_in_the_event_log(result):
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
def test_a_key_is_in_the_table_once_whichever_batches_it_comes_in_when_the_update_dies_beside_a_commit(
    project, point, skip
):
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


def test_a_broken_key_that_is_to_fail_names_the_row_and_nothing_is_written(project):
    pipeline = project(orders('dp.primary_key("id")', "fail"))
    pipeline.given("source", batch(7, 7))

    result = pipeline.run()

    assert result.outcome.error["code"] == "EXPECTATION.FAILED"
    assert result.outcome.error["detail"] == 'Row: {"id":7}'
    assert result.rows("orders") == []


def test_a_key_is_in_a_materialized_view_once_however_often_it_is_computed(pipeline, result):
    assert ids(result.rows("keyed")) == [1, 2]

    again = pipeline.given("keyed_source", batch(2, 3)).run("keyed")

    assert ids(again.rows("keyed")) == [1, 2, 3]
    assert ids(pipeline.recomputed("keyed")) == [1, 2, 3]


@pytest.mark.long(
    guard="tests/spark/test_table_rules.py::test_a_key_is_in_the_table_once_whichever_batches_it_comes_in_when_the_update_dies_beside_a_commit"
)
@pytest.mark.parametrize("point", [Failpoint.BEFORE_WRITE, Failpoint.WRITTEN])
def test_rows_that_are_dropped_are_counted_once_when_the_update_dies_beside_a_commit(project, point):
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
        "tests/spark/test_table_rules.py::test_a_foreign_key_is_looked_for_in_the_other_table_which_comes_first",
        "tests/spark/test_replay.py::test_rows_that_pass_a_changed_rule_are_in_the_table_once",
    )
)
def test_rows_are_replayed_once_the_table_that_they_refer_to_has_their_key(project, tmp_path):
    (tmp_path / "shops").mkdir()
    (tmp_path / "shops" / "1.json").write_text('{"name": "a"}')
    pipeline = project(SHOPS.format(folder=tmp_path))
    pipeline.given("source", [{"id": 1, "shop": "a"}, {"id": 2, "shop": "b"}, {"id": 3, "shop": "c"}])
    pipeline.run()
    (tmp_path / "shops" / "2.json").write_text('{"name": "b"}')
    pipeline.run("shops")

    result = pipeline.replay("orders")

    assert ids(result.rows("orders")) == [1, 2]


def test_a_view_keeps_its_rows_when_there_would_be_too_few(project, tmp_path):
    file = tmp_path / "in.json"
    file.write_text('{"id": 1}\n{"id": 2}')
    pipeline = project(VIEW.format(file=file))
    pipeline.run()
    file.write_text('{"id": 1}')

    result = pipeline.run()

    assert result.state is UpdateState.FAILED
    assert result.outcome.error["code"] == "EXPECTATION.ROW_COUNT"
    assert ids(result.rows("orders")) == [1, 2]


def test_rows_of_a_table_are_counted_with_those_that_a_batch_brings(project):
    pipeline = project(orders("dp.row_count(at_most=3)", "fail"))
    pipeline.given("source", batch(1, 2), batch(3), batch(4))

    result = pipeline.run()

    assert 'would leave 4 rows in "orders"' in result.outcome.error["message"]
    assert ids(result.rows("orders")) == [1, 2, 3]


@pytest.mark.long(
    guard=(
        "tests/spark/test_table_rules.py::test_a_key_is_in_the_table_once_whichever_batches_it_comes_in_when_the_update_dies_beside_a_commit",
        "tests/spark/test_table_rules.py::test_what_is_counted_of_a_table_is_in_the_event_log",
    )
)
def test_a_count_is_in_the_event_log_when_the_update_dies_before_it_is_told(project):
    pipeline = project(orders("dp.row_count(at_most=3)", "fail").replace("expect_or_fail", "expect"))
    pipeline.given("source", batch(1, 2), batch(3, 4)).crash_at(Failpoint.WRITTEN, skip=1)
    with pytest.raises(Crashed):
        pipeline.run()

    pipeline.restart().run()

    counted = pipeline.sql("SELECT sum(passed) AS passed, sum(failed) AS failed FROM event_log_expectations").to_json()
    assert counted == [{"passed": 1, "failed": 1}]


def test_a_preview_judges_what_it_shows(project):
    pipeline = project(orders('dp.unique("id")', "drop"))
    pipeline.given("source", batch(1, 1, 2)).run("source")

    preview = pipeline.project.preview("orders")

    assert sorted(row[0] for row in preview.rows.rows) == [1, 2]
