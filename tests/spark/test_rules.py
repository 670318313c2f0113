"""Expectations in the engine: precedence, rules that raise, counts, every kind of dataset."""

from __future__ import annotations

import pytest

from headrace.errors import Problems
from headrace.events.types import FlowStateChanged
from headrace.model.outcome import FlowState, UpdateState

pytestmark = pytest.mark.spark

PROJECT = '''
    from datetime import date

    @dp.materialized_view
    def numbers():
        return spark.sql("SELECT id FROM VALUES (1), (2), (3), (4) AS t(id)")

    @dp.materialized_view
    def texts():
        return spark.sql("""
            SELECT * FROM VALUES
                (1, '5', '2024-02-29', 2, array(1, 2, 3)),
                (2147483647, 'five', '2024-02-30', 0, array(1)),
                (NULL, NULL, NULL, NULL, NULL)
            AS t(id, text, day, divisor, items)
            """)

    @dp.table
    @dp.expect("warned", "id NOT IN (1, 2, 3)")
    @dp.expect_or_drop("dropped", "id NOT IN (2, 3)")
    @dp.expect_or_quarantine("set aside", "id <> 3")
    def ordered():
        return spark.readStream.table("numbers")

    @dp.table
    @dp.expect_or_drop("dropped", "id <> 3")
    @dp.expect_or_quarantine("set aside", "id <> 3")
    @dp.expect_or_fail("never three", "id <> 3")
    def failing():
        return spark.readStream.table("numbers")

    @dp.table
    @dp.expect_all({
        "cast": "CAST(text AS INT) < 100",
        "same cast": "CAST(text AS INT) > 0",
        "division": "10 / divisor > 1",
        "remainder": "10 % divisor = 0",
        "index": "items[2] = 3",
        "element": "element_at(items, 3) = 3",
        "date": "CAST(day AS DATE) > DATE'2000-01-01'",
        "format": "to_date(day, 'yyyy-MM-dd') > DATE'2000-01-01'",
        "overflow": "id + 1 > 0",
        "raised": "IF(id = 1, TRUE, raise_error('no'))",
    })
    @dp.expect_or_drop("readable", "CAST(text AS INT) IS NOT NULL")
    def raising():
        return spark.readStream.table("texts")

    @dp.materialized_view
    @dp.expect_all({f"not {number}": f"id <> {number}" for number in range(69)})
    @dp.expect_or_quarantine("not 69", "id <> 69")
    @dp.expect_or_drop("not 70", "id <> 70")
    def many():
        return spark.range(71).selectExpr("CAST(id AS INT) AS id")

    @dp.materialized_view(spark_conf={"headrace.broken_rows.samples": "0"})
    @dp.expect_or_drop("column", F.col("id") > 1)
    @dp.expect_or_quarantine("two columns", (F.col("id") % 2 == 0) | F.col("id").isNull())
    def columns():
        return spark.read.table("numbers")

    @dp.temporary_view
    @dp.expect_or_drop("small", "id < 3")
    def small():
        return spark.read.table("numbers")

    @dp.materialized_view
    def from_view():
        return spark.read.table("small")

    @dp.temporary_view
    @dp.expect_or_fail("never three", "id <> 3")
    def guarded():
        return spark.readStream.table("numbers")

    @dp.table
    def from_guarded():
        return spark.readStream.table("guarded")
    '''


# Every way to break thirteen rules.
BITS = {f"bit {bit}": f"id & {1 << bit} = 0" for bit in range(13)}
# How many samples of rows to keep, and one more rule.
SAMPLED = """
    @dp.materialized_view(spark_conf={{"headrace.broken_rows.samples": "{most}"}})
    @dp.expect("warned", "id <> 1")
    @dp.expect_or_drop("dropped", "id < 5")
    @dp.expect_or_drop("kept", "id >= 0")
    {more}
    def {name}():
        return spark.range(8).selectExpr("CAST(id AS INT) AS id", "'x' AS name")
    """
MORE = '@dp.expect_or_quarantine("set aside", "id <> 2")'


@pytest.fixture(scope="module")
def pipeline(shared_project):
    return shared_project(PROJECT + SAMPLED.format(name="sampled", most=2, more=""))


@pytest.fixture(scope="module")
def result(pipeline):
    return pipeline.run()


@pytest.fixture(scope="module")
def rest(shared_project):
    """A pipeline of what only the long tests look at."""
    bits = f"""
    @dp.materialized_view
    @dp.expect_all({BITS})
    def bits():
        return spark.range(0, 3 * 2**13, 1, 7)
    """
    pipeline = shared_project(bits + SAMPLED.format(name="sampled_and_quarantined", most=2, more=MORE))
    pipeline.run("sampled_and_quarantined")
    return pipeline


def ids(rows):
    return [row["id"] for row in rows]


def test_the_strictest_violated_expectation_decides(result):
    counts = result.counts("ordered")

    assert ids(result.rows("ordered")) == [1, 4]
    assert (counts.rows_written, counts.rows_dropped, counts.rows_quarantined) == (2, 1, 1)
    assert result.failed("ordered") == {"warned": 3, "dropped": 2, "set aside": 1}


def test_passed_and_failed_counts_add_up_to_the_rows_read(result):
    assert [count.passed + count.failed for count in result.counts("ordered").expectations] == [4, 4, 4]


def test_a_quarantined_row_names_its_violated_expectations_and_its_origin(result):
    (row,) = result.rows("ordered_quarantine")

    assert row["row"] == {"id": 3}
    assert row["broken"] == ["warned", "dropped", "set aside"]
    assert (row["flow"], row["epoch"], row["batch_id"], row["status"]) == ("ordered", 0, 0, "open")
    assert row["update_id"] == result.outcome.update_id


def test_a_violated_fail_expectation_fails_the_flow_and_nothing_is_written(result):
    error = result.outcome.error

    assert result.state is UpdateState.FAILED
    assert result.flow("failing").state is FlowState.FAILED
    assert error["code"] == "EXPECTATION.FAILED"
    assert (result.rows("failing"), result.rows("failing_quarantine")) == ([], [])


def test_the_reason_of_a_failed_flow_names_the_expectation(result):
    assert "never three" in result.flow("failing").reason
    assert result.flow("failing").attempts == 1


def test_null_results_and_errors_of_expectations_count_as_failed(result):
    failed = result.failed("raising")

    assert failed == dict.fromkeys(failed, 2)
    assert len(failed) == 11


def test_a_drop_expectation_that_raises_an_error_drops_the_row(result):
    assert ids(result.rows("raising")) == [1]


def test_more_expectations_than_fit_into_one_mask_are_counted_individually(result):
    failed = result.failed("many")

    assert failed == dict.fromkeys(failed, 1)
    assert len(failed) == 71
    assert ids(result.rows("many")) == list(range(69))
    assert result.rows("many_quarantine")[0]["broken"] == ["not 69"]


@pytest.mark.long(
    guard=(
        "tests/spark/test_rules.py::test_more_expectations_than_fit_into_one_mask_are_counted_individually",
        "tests/spark/test_rules.py::test_the_strictest_violated_expectation_decides",
    )
)
def test_every_combination_of_violated_expectations_is_counted_exactly(rest):
    counts = rest.run("bits").counts("bits")

    assert {count.name: count.failed for count in counts.expectations} == dict.fromkeys(BITS, 3 * 2**12)


def test_expectations_can_be_column_expressions(result):
    assert ids(result.rows("columns")) == [2, 4]
    assert result.failed("columns") == {"column": 1, "two columns": 2}


def test_a_drop_expectation_of_a_view_drops_rows_for_its_readers(result):
    assert ids(result.rows("from_view")) == [1, 2]


def test_a_fail_expectation_of_a_view_fails_its_readers(result):
    assert result.flow("from_guarded").state is FlowState.FAILED
    assert result.rows("from_guarded") == []


SUMS = """
    @dp.table(schema="word STRING, n INT")
    def source():
        return spark.readStream.schema("word STRING, n INT").json("unused")

    @dp.materialized_view
    @dp.expect_or_quarantine("small", "total < 10")
    def view():
        return spark.read.table("source").groupBy("word").agg(F.sum("n").alias("total"))

    @dp.table
    @dp.expect_or_quarantine("small", "total < 10")
    def complete():
        return spark.readStream.table("source").groupBy("word").agg(F.sum("n").alias("total"))
    """


@pytest.mark.parametrize("name", ["complete", pytest.param("view", marks=pytest.mark.long(guard="its other cases"))])
def test_the_quarantine_is_replaced_when_its_table_is_recomputed(project, name):
    pipeline = project(SUMS).given("source", [{"word": "a", "n": 50}, {"word": "b", "n": 1}])
    pipeline.run(name)

    result = pipeline.given("source", [{"word": "a", "n": -49}, {"word": "b", "n": 60}]).run(name)

    assert result.rows(name) == [{"word": "a", "total": 1}]
    assert [row["row"] for row in result.rows(f"{name}_quarantine")] == [{"word": "b", "total": 61}]
    assert (result.counts(name).rows_written, result.counts(name).rows_quarantined) == (1, 1)


REFUSED = """
    from pyspark.sql.types import BooleanType

    @F.udf(BooleanType())
    def fine(value):
        return True

    @dp.materialized_view
    def numbers():
        return spark.range(3)

    @dp.materialized_view
    @dp.expect("python", fine("id"))
    @dp.expect("subquery", "id IN (SELECT id FROM numbers)")
    @dp.expect("aggregate", "sum(id) > 1")
    @dp.expect("window", "row_number() OVER (ORDER BY id) > 1")
    @dp.expect("no boolean", "id + 1")
    @dp.expect("no column", "ids > 1")
    @dp.expect("no SQL", "id >")
    @dp.expect("a statement", "id > 1; DROP TABLE numbers")
    def judged():
        return spark.read.table("numbers")

    @dp.temporary_view
    @dp.expect_or_quarantine("aside", "id > 1")
    def view():
        return spark.read.table("numbers")
    """


def test_all_invalid_expectations_are_reported_together(project):
    with pytest.raises(Problems) as found:
        project(REFUSED).project.validate()

    codes = {error.params["name"]: error.code for error in found.value}
    assert codes == {
        "python": "EXPECTATION.REFUSED",
        "subquery": "EXPECTATION.REFUSED",
        "aggregate": "EXPECTATION.REFUSED",
        "window": "EXPECTATION.REFUSED",
        "no boolean": "EXPECTATION.NOT_BOOLEAN",
        "no column": "EXPECTATION.UNKNOWN_COLUMN",
        "no SQL": "EXPECTATION.NOT_SQL",
        "a statement": "EXPECTATION.NOT_SQL",
        "aside": "EXPECTATION.VIEW_QUARANTINE",
    }


def test_concurrent_flows_quarantine_every_violating_row(project, tmp_path):
    landing = tmp_path / "project" / "landing"
    pipeline = project(
        """
        dp.create_streaming_table("orders", expect_all_or_quarantine={"positive": "id > 0"})

        def landed(side):
            files = spark.readStream.schema("id int").option("maxFilesPerTrigger", 1)
            return files.json(spark.conf.get("landing") + "/" + side)

        @dp.append_flow(target="orders")
        def east():
            return landed("east")

        @dp.append_flow(target="orders")
        def west():
            return landed("west")
        """,
        configuration={"landing": str(landing)},
    )
    for number in range(1, 3):
        for side in ("east", "west"):
            pipeline.land(f"landing/{side}/{number}.json", [{"id": number}, {"id": -number}])

    result = pipeline.run()

    assert (result.written, result.quarantined) == (4, 4)
    assert len(result.rows("orders_quarantine")) == 4


@pytest.mark.usefixtures("result")
@pytest.mark.parametrize(
    ("of", "name"),
    [
        ("pipeline", "sampled"),
        pytest.param("rest", "sampled_and_quarantined", marks=pytest.mark.long(guard="its other cases")),
    ],
)
def test_the_event_log_has_samples_of_warned_and_dropped_rows(of, name, request):
    pipeline = request.getfixturevalue(of)
    sampled = f"SELECT expectation, row FROM event_log_broken_rows WHERE dataset = '{name}' ORDER BY ALL"

    found = pipeline.sql(sampled).to_json()

    assert [row for row in found if row["expectation"] == "warned"] == [
        {"expectation": "warned", "row": '{"id":1,"name":"x"}'}
    ]
    dropped = {row["row"] for row in found if row["expectation"] == "dropped"}
    assert len(dropped) == 2
    assert dropped < {f'{{"id":{number},"name":"x"}}' for number in (5, 6, 7)}


@pytest.mark.usefixtures("result")
def test_no_samples_of_violating_rows_are_kept_unless_configured(pipeline):
    kept = pipeline.sql("SELECT DISTINCT dataset FROM event_log_broken_rows ORDER BY ALL").to_json()

    assert [row["dataset"] for row in kept] == ["sampled"]


def test_the_sample_setting_of_one_flow_does_not_apply_to_a_concurrent_flow(project, headrace_session):
    text = SAMPLED.format(name="numbers", most=2, more="")
    pipeline = project(text.replace('(spark_conf={"headrace.broken_rows.samples": "2"})', ""))

    def other_flow(event):
        """As the settings of another flow are in force in the session while its query is called."""
        if isinstance(event, FlowStateChanged) and event.state is FlowState.STARTING:
            headrace_session.conf.set("headrace.broken_rows.samples", "2")

    result = pipeline.run(on_event=other_flow)

    assert (result.state, result.dropped) == (UpdateState.COMPLETED, 3)
    assert pipeline.sql("SELECT * FROM event_log_broken_rows").to_json() == []


def test_an_invalid_number_of_samples_fails_the_flow(project):
    result = project(SAMPLED.format(name="numbers", most="all", more="")).run()

    assert result.outcome.error["code"] == "ROWS.BAD_CONF"
    assert '"all" is not a whole number' in result.outcome.error["detail"]
