"""Tables keep their declared schema, whatever a query returns and however it changes."""

from __future__ import annotations

import textwrap

import pytest
from deltalake import DeltaTable
from tests.tiers import EVERYTHING

from headrace.errors import Problems
from headrace.model.outcome import UpdateState

pytestmark = pytest.mark.spark


def table(pipeline, name):
    return DeltaTable(str(pipeline.folder / "storage" / "tables" / "default" / name))


def change(pipeline, before, after):
    file = pipeline.folder / "transformations" / "project.py"
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))


VIEW = """
    @dp.materialized_view(schema="id BIGINT COMMENT 'the number', later STRING COMMENT 'not yet', k INT")
    @dp.expect_or_quarantine("small", "id < 2 AND later IS NULL")
    def view():
        return spark.range(3).selectExpr("CAST(id % 2 AS INT) AS K", "ID")
    """


def test_a_view_keeps_its_declared_schema_when_it_is_recomputed(project):
    pipeline = project(VIEW)

    result = pipeline.run()

    assert result.rows("view") == [{"id": 0, "later": None, "k": 0}, {"id": 1, "later": None, "k": 1}]
    fields = table(pipeline, "view").schema().fields
    assert [field.metadata for field in fields] == [{"comment": "the number"}, {"comment": "not yet"}, {}]
    assert pipeline.project.preview("view").to_json() == [dict(row) for row in result.rows("view")]

    change(pipeline, "id BIGINT", "id STRING")
    change(pipeline, '"ID"', '"CAST(ID AS STRING) AS id"')
    assert pipeline.run().state is UpdateState.COMPLETED
    assert [row["row"]["id"] for row in pipeline.rows("view_quarantine")] == ["2"]


# The layout that a view has, and the one that is declared next.
LAYOUTS = {
    "partitioned_otherwise": ("partition_cols=['k']", "partition_cols=['later']"),
    "clustered": ("partition_cols=['k']", "cluster_by=['k']"),
    "clustered_otherwise": ("cluster_by=['k']", "cluster_by=['id']"),
    "partitioned": ("cluster_by=['id']", "partition_cols=['k']"),
    "neither": ("partition_cols=['k']", ""),
}
if not EVERYTHING:
    LAYOUTS = {name: LAYOUTS[name] for name in ("clustered", "partitioned")}
LAID_OUT_SO = {
    "partitioned_otherwise": (["later"], []),
    "clustered": ([], ["k"]),
    "clustered_otherwise": ([], ["id"]),
    "partitioned": (["k"], []),
    "neither": ([], []),
}


LAID_OUT = """
    @dp.materialized_view(schema="id BIGINT, later STRING, k INT", {layout})
    def {name}():
        return spark.range(3).selectExpr("CAST(id % 2 AS INT) AS K", "ID")
    """


def test_an_update_applies_the_changed_layout_of_a_view(project):
    def declare(version):
        views = (LAID_OUT.format(name=name, layout=layouts[version]) for name, layouts in LAYOUTS.items())
        return "from headrace import pipelines as dp\n" + textwrap.dedent("".join(views))

    pipeline = project(files={"transformations/project.py": declare(0)})
    pipeline.run()

    pipeline.write("transformations/project.py", declare(1))
    assert pipeline.run().state is UpdateState.COMPLETED

    assert pipeline.plan().tables == ()
    details = {name: pipeline.sql(f"DESCRIBE DETAIL {name}").to_json()[0] for name in LAYOUTS}
    found = {name: (detail["partitionColumns"], detail["clusteringColumns"]) for name, detail in details.items()}
    assert found == {name: LAID_OUT_SO[name] for name in LAYOUTS}


STREAMS = """
    @dp.table(schema="id INT")
    def source():
        return spark.readStream.schema("id INT").json("unused")

    @dp.table
    def totals():
        return spark.readStream.table("source").groupBy().agg(F.sum("id").alias("total"))

    dp.create_streaming_table("both", expect_all_or_drop={"b is small": "b IS NULL OR b < 10"})

    @dp.append_flow(target="both")
    def narrow():
        return spark.readStream.table("source")

    @dp.append_flow(target="both")
    def wide():
        return spark.readStream.table("source").selectExpr("id", "id * 10 AS b")
    """


def test_expectations_of_a_table_apply_to_flows_with_different_columns(project):
    result = project(STREAMS).given("source", [{"id": 0}, {"id": 1}]).run("both")

    assert sorted(map(str, result.rows("both"))) == sorted(
        map(str, [{"id": 0, "b": None}, {"id": 1, "b": None}, {"id": 0, "b": 0}])
    )


def test_a_complete_mode_stream_accepts_a_new_column(project):
    pipeline = project(STREAMS).given("source", [{"id": 1}, {"id": 2}])
    pipeline.run("totals")
    change(pipeline, '.alias("total"))', '.alias("total")).withColumn("unit", F.lit("pieces"))')

    result = pipeline.given("source", [{"id": 3}]).run("totals")

    assert result.rows("totals") == [{"total": 6, "unit": "pieces"}]


CHAIN = """
    @dp.table
    def bronze():
        return spark.readStream.schema("id INT").json(spark.conf.get("landing"))

    @dp.table
    def silver():
        return spark.readStream.table("bronze")
    """


def test_a_reader_of_a_rebuilt_table_fails_with_a_hint_to_refresh_it(project, tmp_path):
    pipeline = project(CHAIN, configuration={"landing": str(tmp_path / "project" / "landing")})
    pipeline.land("landing/1.json", [{"id": 1}])
    with pytest.raises(Problems) as found:
        pipeline.project.run(refresh=["silver"])
    assert [error.code for error in found.value] == ["PLAN.INPUT_MISSING"]
    pipeline.run()

    outcome = pipeline.project.run(full_refresh=["bronze"])
    assert outcome.state is UpdateState.COMPLETED
    outcome = pipeline.project.run()

    error = outcome.error
    assert error["code"] == "FLOW.INPUT_REBUILT"
    assert "headrace run --full-refresh silver" in error["hint"]
    assert pipeline.run(full_refresh=["silver"]).rows("silver") == [{"id": 1}]


def test_a_preview_maps_the_columns_of_an_insert_as_an_update_does(project):
    text = {
        "transformations/b.sql": """
            CREATE STREAMING TABLE target (id INT, name STRING);
            CREATE FLOW fill AS INSERT INTO ONCE target SELECT 1, 'one';
            """
    }
    assert project("", text).project.preview("target").to_json() == [{"id": 1, "name": "one"}]
