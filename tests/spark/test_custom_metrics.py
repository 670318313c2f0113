"""Metrics of users: those of the rows that a batch writes, and those that functions of sinks record."""

from __future__ import annotations

import pytest
from tests.crashed_updates import die_in_turn

from headrace.errors import Problems
from headrace.metrics import catalogue
from headrace.model.outcome import UpdateState
from headrace.testing import Failpoint

pytestmark = pytest.mark.spark

ORDERS = [[{"id": n, "amount": f"{n}.5", "at": f"2026-11-27 10:00:0{n}Z"} for n in ns] for ns in ((0, 1, 2, 3), (4, 5))]
PROJECT = """
    from headrace import delivery

    @dp.table(schema="id INT, amount STRING, at TIMESTAMP")
    def source():
        return spark.readStream.schema("id INT, amount STRING, at TIMESTAMP").json("unused")

    def stream():
        return spark.readStream.option("maxFilesPerTrigger", 1).table("source")

    @dp.table
    @dp.metric("rows", "count(*)")
    @dp.metric("value", "sum(CAST(amount AS DOUBLE))")
    @dp.metric("newest", "max(at)")
    def plain():
        return stream()

    @dp.table
    @dp.expect_or_quarantine("not first", "id <> 0")
    @dp.expect_or_drop("not second", "id <> 1")
    @dp.metric("ids", "sum(id)")
    @dp.metric("odd", "count(*) FILTER (WHERE id % 2 = 1)")
    # Errors in single rows, which have a common part that the optimizer would compute once.
    @dp.metric("divided", "max(10 / CAST(id - 4 AS INT))")
    @dp.metric("divided_too", "sum(1 + 10 / CAST(id - 4 AS INT))")
    def checked():
        return stream()

    @dp.materialized_view
    @dp.metric("rows", "count_if(id > 0)")
    def view():
        return spark.read.table("source")

    @dp.foreach_batch_sink
    def enriched(df, batch_id):
        delivery.record_metric("enriched", df.count())
        delivery.record_metric("enriched", 100)
        delivery.record_metric("batch", batch_id, total=False)

    @dp.append_flow(target="enriched")
    def deliver():
        return stream()
    """


SQL_FILE = "transformations/in_sql.sql"
IN_SQL = """
    CREATE MATERIALIZED VIEW in_sql
    TBLPROPERTIES (headrace.metric.ids = 'sum(id)', 'headrace.metric.odd' = "count_if(id % 2 = 1)")
    AS SELECT * FROM source
"""


def metrics(pipeline, flow):
    samples = pipeline.project.metrics()
    return {
        labels[-1]: value
        for metric in (catalogue.CUSTOM_TOTAL, catalogue.CUSTOM_VALUE)
        for labels, value in samples.of(metric).items()
        if labels[0] == flow
    }


PLAIN = {"rows": 6, "value": 18.0, "newest": 1795773605.0}
ENRICHED = {"enriched": 206, "batch": 1}


@pytest.fixture(scope="module")
def kept(prepared):
    return prepared(lambda shared_project: shared_project(PROJECT, {SQL_FILE: IN_SQL}).given("source", *ORDERS))


@pytest.fixture
def pipeline(kept):
    return kept.restored()


def test_metrics_are_those_of_the_rows_that_were_written(pipeline):
    result = pipeline.run("checked", "view", "in_sql")

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert metrics(pipeline, "checked") == {"ids": 14, "odd": 2, "divided": 10.0, "divided_too": -2.0}
    assert (metrics(pipeline, "view"), metrics(pipeline, "in_sql")) == ({"rows": 5}, {"ids": 15, "odd": 3})
    query = (
        "SELECT batch_id, value, kind FROM event_log_metrics WHERE flow = 'checked' AND metric IN ('ids', 'divided')"
    )
    assert pipeline.sql(f"{query} ORDER BY 1, 2").rows == (
        (0, -5.0, "last"),
        (0, 5.0, "total"),
        (1, 9.0, "total"),
        (1, 10.0, "last"),
    )


@pytest.mark.parametrize(
    ("target", "flow", "deaths", "expected"),
    [
        # Counted from the commit, as of the version of its batch.
        ("plain", "plain", (Failpoint.WRITTEN, (Failpoint.COUNTED, 1)), PLAIN),
        # The function is not called again for a batch that is recorded as delivered.
        ("enriched", "deliver", (Failpoint.WRITTEN, Failpoint.DELIVERY_RECORDED, (Failpoint.COUNTED, 1)), ENRICHED),
    ],
)
def test_a_batch_that_a_crash_repeats_counts_once(pipeline, target, flow, deaths, expected):
    die_in_turn(lambda: pipeline.run(target), pipeline, *deaths)
    result = pipeline.run(target)

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert metrics(pipeline, flow) == expected


REFUSED = {
    "sum(amount": "NOT_SQL",
    "sum(id) / count(*)": "NOT_AN_AGGREGATE",
    "count(DISTINCT id)": "NOT_AN_AGGREGATE",
    "sum(id) OVER ()": "NOT_AN_AGGREGATE",
    "sum(price)": "UNKNOWN_COLUMN",
    "sum((SELECT 1))": "REFUSED",
    "sum(max(id))": "REFUSED",
    "sum(amount)": "NOT_A_NUMBER",
    "max(amount)": "NOT_A_NUMBER",
}


def test_expressions_that_are_no_aggregate_of_rows_are_problems_of_the_project_at_their_places(project):
    declared = {f"m{number}": expression for number, expression in enumerate(REFUSED)}
    pipeline = project(f"""
    dp.create_streaming_table("orders", schema="id INT, amount STRING", metrics={declared})

    @dp.append_flow(target="orders")
    def more():
        return spark.readStream.format("rate").load().selectExpr("CAST(value AS INT) AS id", "'x' AS amount")
    """)

    with pytest.raises(Problems) as raised:
        pipeline.project.validate()

    found = {problem.params["name"]: problem for problem in raised.value}
    assert {declared[name]: problem.code for name, problem in found.items()} == {
        expression: f"METRICS.{code}" for expression, code in REFUSED.items()
    }
    assert {problem.location.line for problem in found.values()} == {found["m0"].location.line}
