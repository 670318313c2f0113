"""Flows into tables: several, once, full refresh; tables that change; declared properties."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.errors import Problems
from headrace.model.outcome import FlowState, UpdateState

pytestmark = pytest.mark.spark

ORDERS = """
    @dp.table(schema="id INT")
    def north_raw():
        return spark.readStream.schema("id INT").json("unused")

    @dp.table(schema="id INT")
    def south_raw():
        return spark.readStream.schema("id INT").json("unused")

    dp.create_streaming_table("orders", expect_all_or_quarantine={"positive": "id > 0"})

    @dp.append_flow(target="orders", comment="from the north")
    def north():
        return spark.readStream.table("north_raw")

    @dp.append_flow(target="orders")
    def south():
        return spark.readStream.table("south_raw")

    @dp.append_flow(target="orders", once=True)
    def history():
        return spark.sql("SELECT id FROM VALUES (100), (-100) AS t(id)")
    """


def rows(*numbers):
    return [{"id": number} for number in numbers]


def ids(found):
    return sorted(row["id"] for row in found)


def aside(pipeline):
    return sorted((row["row"]["id"], row["flow"], row["epoch"]) for row in pipeline.rows("orders_quarantine"))


def test_flows_into_one_table_are_independent_and_fully_refreshed_together(project):
    pipeline = project(ORDERS).given("north_raw", rows(1, -1)).given("south_raw", rows(2, -2))
    pipeline.run()
    second = pipeline.given("north_raw", rows(3)).run()

    assert ids(second.rows("orders")) == [1, 2, 3, 100]
    assert second.states == {
        "north": FlowState.COMPLETED,
        "south": FlowState.UP_TO_DATE,
        "history": FlowState.UP_TO_DATE,
        "north_raw": FlowState.EXCLUDED,
        "south_raw": FlowState.EXCLUDED,
    }
    assert aside(pipeline) == [(-100, "history", 0), (-2, "south", 0), (-1, "north", 0)]

    again = pipeline.run(full_refresh=["orders"])

    assert ids(again.rows("orders")) == [1, 2, 3, 100]
    assert (again.counts("orders").rows_written, again.counts("orders").rows_quarantined) == (4, 3)
    assert aside(pipeline) == [(-100, "history", 1), (-2, "south", 1), (-1, "north", 1)]
    checkpoints = pipeline.folder / "storage" / "checkpoints" / "default" / "orders"
    assert {folder.name for folder in (checkpoints / "north").iterdir() if folder.is_dir()} == {"0", "1"}
    assert pipeline.plan().empty
    events = pipeline.project.events().events(update_id=again.outcome.update_id)
    said = [json.loads(event["details"]) for event in events if event["event_type"] == "flow_definition"]
    into_orders = [body["flow_definition"] for body in said if body["flow_definition"]["output_dataset"] == "orders"]
    assert [flow["comment"] for flow in into_orders] == ["from the north", None, None]


CHAIN = """
    @dp.table
    def first():
        return spark.readStream.schema("id INT").json(spark.conf.get("landing"))

    @dp.table(table_properties={"pipelines.reset.allowed": "false"})
    def second():
        return spark.readStream.table("first")

    @dp.table
    def third():
        return spark.readStream.table("second")
    """


def test_a_refresh_excludes_upstream_tables_and_a_protected_table_is_not_reset(project, tmp_path):
    pipeline = project(CHAIN, configuration={"landing": str(tmp_path / "project" / "landing")})
    pipeline.land("landing/1.json", rows(1))
    pipeline.run()
    pipeline.land("landing/2.json", rows(2))

    only_third = pipeline.project.run(refresh=["third"])
    assert {flow.flow: flow.state.value for flow in only_third.flows} == {
        "first": "EXCLUDED",
        "second": "EXCLUDED",
        "third": "UP_TO_DATE",
    }

    with pytest.raises(Problems) as found:
        pipeline.project.run(full_refresh=["second"])
    assert [error.code for error in found.value] == ["SELECTION.NOT_RESETTABLE"]


def test_a_new_column_is_added_and_a_changed_type_is_rejected(project):
    text = """
        @dp.table(schema="id INT")
        def source():
            return spark.readStream.schema("id INT").json("unused")

        @dp.table
        @dp.expect_or_quarantine("positive", "id > 0")
        def target():
            return spark.readStream.table("source").selectExpr({columns})
        """
    pipeline = project(text.format(columns='"id"')).given("source", rows(1, -1))
    file = pipeline.folder / "transformations" / "project.py"
    pipeline.run()

    file.write_text(file.read_text().replace('"id")', '"id", "id * 2 AS twice")'))
    result = pipeline.given("source", rows(2, -2)).run()

    assert result.rows("target") == [{"id": 1, "twice": None}, {"id": 2, "twice": 4}]
    assert [row["row"] for row in result.rows("target_quarantine")] == [
        {"id": -1, "twice": None},
        {"id": -2, "twice": -4},
    ]
    file.write_text(file.read_text().replace("id * 2 AS twice", "'two' AS twice"))
    with pytest.raises(Problems) as found:
        pipeline.run()
    assert [error.code for error in found.value] == ["TABLE.TYPE_CHANGED"]


DECLARED = """
    @dp.table(
        comment="Orders; it's all of them",
        schema="id INT COMMENT 'the order''s number', day DATE, region STRING",
        table_properties={"delta.appendOnly": "true", "quality": "gold"},
        partition_cols=["region"],
    )
    def partitioned():
        return spark.readStream.table("source")

    @dp.materialized_view(comment="Clustered", cluster_by=["id", "day"])
    @dp.expect_or_drop("any", "id IS NOT NULL")
    def clustered():
        return spark.read.table("source")

    @dp.materialized_view
    def source():
        return spark.sql("SELECT 1 AS id, DATE'2024-01-01' AS day, 'north' AS region")
    """


@pytest.fixture(scope="module")
def declared(shared_project):
    pipeline = shared_project(DECLARED)
    assert pipeline.run().state is UpdateState.COMPLETED
    return pipeline


def table(pipeline, name):
    return DeltaTable(str(pipeline.folder / "storage" / "tables" / "default" / name))


def test_declared_table_metadata_is_written_to_the_table(declared):
    metadata = table(declared, "partitioned").metadata()

    assert metadata.description == "Orders; it's all of them"
    assert metadata.partition_columns == ["region"]
    assert metadata.configuration["delta.appendOnly"] == "true"
    assert metadata.configuration["quality"] == "gold"
    columns = {field.name: field.metadata for field in table(declared, "partitioned").schema().fields}
    assert columns["id"] == {"comment": "the order's number"}


COMMENTED = """
    @dp.table(comment="{table}", schema="id INT COMMENT '{column}'")
    def commented():
        return spark.readStream.table("numbers")

    @dp.materialized_view
    def numbers():
        return spark.sql("SELECT 1 AS id")
    """


def test_changed_comments_are_applied_to_an_existing_table(project):
    pipeline = project(COMMENTED.format(table="first", column="it is one"))
    pipeline.run()
    file = pipeline.folder / "transformations" / "project.py"

    file.write_text(file.read_text().replace("it is one", "it''s another").replace("first", ""))
    assert [step.reason for step in pipeline.plan().tables] == ['sets the comment, sets the comment of "id"']
    result = pipeline.run()

    assert result.rows("commented") == [{"id": 1}]
    assert table(pipeline, "commented").metadata().description in (None, "")
    assert [field.metadata for field in table(pipeline, "commented").schema().fields] == [{"comment": "it's another"}]
    assert pipeline.plan().empty


def test_cluster_columns_are_kept_when_a_materialized_view_is_computed(declared):
    detail = declared.project.sql("DESCRIBE DETAIL clustered").to_json()[0]

    assert detail["clusteringColumns"] == ["id", "day"]
    assert detail["description"] == "Clustered"


def test_a_table_written_by_a_script_is_readable_and_stays_unchanged(project):
    pipeline = project(
        """
        @dp.table
        def events():
            return spark.readStream.table("raw.events").join(spark.read.table("plain"), "id")
        """
    )
    tables = pipeline.folder / "storage" / "tables"
    for name in ("raw/events", "default/plain"):
        write_deltalake(tables / name, pa.table({"id": [1, 2]}))
    pipeline.run()
    write_deltalake(tables / "raw" / "events", pa.table({"id": [2]}), mode="append")

    pipeline.run()

    assert [row["id"] for row in pipeline.rows("events")] == [1, 2, 2]
    assert DeltaTable(tables / "default" / "plain").version() == 0


def test_columns_can_have_names_that_parquet_rejects(project):
    pipeline = project(
        """
        @dp.table(schema="id INT, amount INT")
        def source():
            return spark.readStream.schema("id INT, amount INT").json("unused")

        @dp.materialized_view
        def sums():
            return spark.read.table("source").groupBy("id").agg(F.sum("amount"))

        @dp.table
        @dp.expect_or_quarantine("positive", "`the amount` > 0")
        def spaced():
            return spark.readStream.table("source").withColumnRenamed("amount", "the amount")
        """
    )
    pipeline.given("source", [{"id": 1, "amount": 2}, {"id": 1, "amount": 3}, {"id": 2, "amount": -1}])

    result = pipeline.run()

    assert result.rows("sums") == [{"id": 1, "sum(amount)": 5}, {"id": 2, "sum(amount)": -1}]
    assert [row["the amount"] for row in result.rows("spaced")] == [2, 3]
    assert [row["row"]["the amount"] for row in result.rows("spaced_quarantine")] == [-1]
    assert pipeline.plan().empty
