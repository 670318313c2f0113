"""Declarations that Spark checks: names, NOT NULL columns, settings of views, reads of files."""

from __future__ import annotations

import pytest

from headrace.errors import PipelineError, Problems
from headrace.model.outcome import FlowState, UpdateState

pytestmark = pytest.mark.spark

TEXT = """
    from pathlib import Path

    @dp.table
    def events():
        schema = "id INT, at TIMESTAMP"
        return spark.readStream.schema(schema).json(str(Path(__file__).parents[1] / "landing"))

    @dp.materialized_view(schema="id INT NOT NULL COMMENT 'whose', n BIGINT")
    def known():
        return spark.read.table("events").groupBy("id").agg(F.count("*").alias("n"))

    @dp.table
    def all_of():
        return spark.readStream.table("events").withColumn("both", F.struct("id", "at"))

    @dp.temporary_view(spark_conf={"spark.sql.ansi.enabled": False})
    def lenient():
        return spark.sql("SELECT CAST('x' AS INT) AS n")

    @dp.materialized_view
    def numbers():
        return spark.read.table("lenient")

    dp.create_sink("nobody", "console")
    """


@pytest.fixture(scope="module")
def pipeline(shared_project):
    pipeline = shared_project(TEXT)
    pipeline.land("landing/1.json", [{"id": 1, "at": "2024-01-01T00:00:00Z"}])
    return pipeline


def test_a_not_null_column_is_checked_in_each_update(pipeline):
    first = pipeline.run()
    again = pipeline.plan()
    pipeline.land("landing/2.json", [{"at": "2024-01-02T00:00:00Z"}])
    second = pipeline.run()

    failed = next(flow for flow in second.outcome.flows if flow.flow == "known")
    assert (first.state, again.empty) == (UpdateState.COMPLETED, True)
    assert (failed.state, second.states["all_of"]) == (FlowState.FAILED, FlowState.COMPLETED)
    assert 'column "id" of "known" is declared NOT NULL' in str(failed.reason) + str(second.outcome.error)
    assert second.rows("known") == [{"id": 1, "n": 1}]
    assert first.rows("numbers") == [{"n": None}]


def test_recomputed_rows_equal_streamed_rows_after_a_column_is_added(pipeline):
    file = pipeline.folder / "transformations" / "project.py"
    file.write_text(file.read_text().replace('"id INT, at TIMESTAMP"', '"id INT, at TIMESTAMP, extra STRING"'))
    pipeline.land("landing/3.json", [{"id": 2, "at": "2024-01-01T05:00:00Z", "extra": "x"}])

    result = pipeline.run("events", "all_of")

    assert {row["extra"] for row in result.rows("all_of")} == {None, "x"}
    assert pipeline.rows("all_of") == pipeline.recomputed("all_of")


def test_endless_recursion_in_a_query_is_reported_with_sparks_error(pipeline):
    with pytest.raises(PipelineError) as raised:
        pipeline.sql("WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT * FROM t")

    assert raised.value.code == "SQL.FAILED"
    assert "RECURSION_LEVEL_LIMIT_EXCEEDED" in str(raised.value.params["reason"])


def test_names_that_sparks_catalog_rejects_are_refused(project):
    pipeline = project("""
        dp.create_sink("to-nobody", "console")

        @dp.table(name="my-table")
        def a():
            return spark.range(2)

        @dp.temporary_view(name="my view")
        def b():
            return spark.range(2)

        @dp.materialized_view(name="gr\\u00f6\\u00dfe")
        def c():
            return spark.range(2)
        """)

    with pytest.raises(Problems) as raised:
        pipeline.project.validate()

    assert [(p.code, str(p.params["name"])) for p in raised.value] == [
        ("NAME.INVALID", name) for name in ("my-table", "my view", "gr\u00f6\u00dfe")
    ]


def test_a_dataset_read_outside_a_query_and_a_pipeline_of_only_views_are_refused(project):
    reading = project("early = spark.read.table('later')\n\n@dp.table\ndef later():\n    return spark.range(1)\n")
    views = project("@dp.temporary_view\ndef v():\n    return spark.range(1)\n")

    with pytest.raises(Problems) as early:
        reading.project.validate()
    with pytest.raises(PipelineError) as alone:
        views.plan()

    assert [(p.code, p.params["table"]) for p in early.value] == [("FILE.TABLE_UNKNOWN", "later")]
    assert alone.value.code == "GRAPH.ONLY_VIEWS"
