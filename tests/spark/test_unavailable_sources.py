"""Sources that are away when an update begins: their flows fail, what reads from them is skipped, the others run."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.conftest import as_files

from headrace.errors import PipelineError, Problems
from headrace.model.outcome import FlowState, UpdateState

pytestmark = pytest.mark.spark

SHOP = """
    @dp.table
    def orders():
        reader = spark.readStream.format("jdbc_incremental").options(url="{url}", dbtable="orders", cursorColumn="id")
        return reader{schema}.load()

    @dp.materialized_view
    def newest():
        return spark.read.table("orders").agg(F.max("id").alias("id"))

    dp.create_streaming_table("both")

    @dp.append_flow(target="both")
    def copied():
        return spark.readStream.format("delta").load("{folder}/delta")

    @dp.append_flow(target="both")
    def landed():
        reader = spark.readStream.format("cloudFiles").option("cloudFiles.format", "json")
        return reader.load("{folder}/landing")

    @dp.materialized_view
    def apart():
        return spark.range(3).withColumn("drawn", F.rand())
"""


def filled(folder, session):
    """A folder with a database, a Delta table and a landing folder, each of one row."""
    import sqlite3  # noqa: PLC0415 - for this function alone

    with sqlite3.connect(folder / "shop.db") as connection:
        connection.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT)")
        connection.execute("INSERT INTO orders VALUES (1, 'x')")
    connection.close()
    session.range(1).selectExpr("id AS event_id").write.format("delta").save(str(folder / "delta"))
    (folder / "landing").mkdir()
    (folder / "landing" / "1.json").write_text('{"id": 1}\n')
    return folder


@pytest.fixture
def outside(tmp_path, headrace_session):
    return filled(tmp_path, headrace_session)


def text_of_shop(folder, schema=""):
    # Read only, so that a file that is not there is not made.
    url = f"sqlite:///file:{folder}/shop.db?mode=ro&uri=true"
    return SHOP.format(url=url, folder=folder, schema=schema)


@pytest.fixture(scope="module")
def shop_after_one_update(prepared, headrace_session):
    def set_up(shared_project):
        pipeline = shared_project(files={"transformations/none.py": ""})
        outside = pipeline.folder / "outside"
        outside.mkdir()
        text = text_of_shop(filled(outside, headrace_session))
        pipeline.write("transformations/project.py", as_files(text)["transformations/project.py"])
        assert pipeline.run().state is UpdateState.COMPLETED
        return pipeline

    return prepared(set_up)


@pytest.fixture
def shop(shop_after_one_update):
    """A shop after an update; what it reads is in the folder "outside" of the project."""
    return shop_after_one_update.restored()


def states(outcome):
    return {flow.flow: flow.state for flow in outcome.flows}


def test_an_unavailable_source_fails_its_flow_and_skips_dependents_while_others_run(shop):
    pipeline, outside = shop, shop.folder / "outside"
    for name in ("shop.db", "delta"):
        (outside / name).rename(outside / f"{name}.away")
    (outside / "landing" / "2.json").write_text('{"id": 2}\n')

    plan = pipeline.plan()
    outcome = pipeline.project.run()

    assert states(outcome) == {
        "apart": FlowState.COMPLETED,
        "orders": FlowState.FAILED,
        "newest": FlowState.SKIPPED,
        "copied": FlowState.FAILED,
        "landed": FlowState.COMPLETED,
    }
    assert outcome.error["code"] == "JDBC.UNREACHABLE"
    assert outcome.error["location"]["file"] == "transformations/project.py"
    assert "fail       orders: database" in plan.describe()
    assert 'skip       newest: input "orders" was not updated' in plan.describe()
    assert (plan.inactive, plan.empty) == ((), False)
    alone = pipeline.project.run(["newest"])
    assert (alone.state, alone.error["code"]) == (UpdateState.FAILED, "JDBC.UNREACHABLE")
    with pytest.raises(Problems) as found:
        pipeline.project.validate()
    assert [error.code for error in found.value] == ["JDBC.UNREACHABLE", "FLOW.ANALYSIS"]
    with pytest.raises(Problems, match="cannot be reached"):
        pipeline.project.preview("newest")

    for name in ("shop.db", "delta"):
        (outside / f"{name}.away").rename(outside / name)
    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert [row["id"] for row in result.rows("newest")] == [1]
    assert len(result.rows("both")) == 3


@pytest.mark.long(
    guard=(
        "tests/unit/runtime/test_loop.py::test_an_unavailable_source_fails_only_its_flows_and_skips_their_readers",
        "tests/spark/test_unavailable_sources.py::test_a_missing_folder_fails_only_its_flow_and_the_error_has_a_hint",
    )
)
def test_a_first_update_fails_only_the_flows_whose_sources_are_unavailable(project, outside):
    for name in ("shop.db", "delta", "landing"):
        path: Path = outside / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    outcome = project(text_of_shop(outside)).project.run()

    found = states(outcome)
    assert found.pop("apart") is FlowState.COMPLETED
    assert found.pop("newest") is FlowState.SKIPPED
    assert set(found.values()) == {FlowState.FAILED}


def test_a_missing_folder_fails_only_its_flow_and_the_error_has_a_hint(project, tmp_path):
    pipeline = project(f"""
        @dp.materialized_view
        def prices():
            return spark.read.parquet("{tmp_path}/prices")

        @dp.materialized_view
        def apart():
            return spark.range(3)
    """)

    with pytest.raises(Problems) as found:
        pipeline.project.validate()
    outcome = pipeline.project.run()

    (error,) = found.value
    assert error.hint.startswith("Correct the path, or create the folder")
    assert states(outcome) == {"prices": FlowState.FAILED, "apart": FlowState.COMPLETED}
    assert outcome.error["params"]["condition"] == "PATH_NOT_FOUND"


def test_a_failed_schema_inference_fails_only_its_flow(project, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1}\n')
    (tmp_path / "in" / "b.json.xz").write_bytes(b"xz")
    pipeline = project(f"""
        @dp.table
        def landed():
            return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load("{tmp_path}/in")

        @dp.materialized_view
        def apart():
            return spark.range(3)
    """)

    outcome = pipeline.project.run()

    assert states(outcome) == {"landed": FlowState.FAILED, "apart": FlowState.COMPLETED}
    assert outcome.error["code"] == "AUTO_LOADER.SAMPLE"


@pytest.mark.long(
    guard=(
        "tests/unit/sources/test_jdbc.py::test_a_given_schema_resolves_a_query_but_starts_no_stream_without_the_database",
        "tests/spark/test_unavailable_sources.py::test_an_unavailable_source_fails_its_flow_and_skips_dependents_while_others_run",
    )
)
def test_a_flow_with_a_given_schema_is_retried_when_its_database_is_unavailable(project, outside):
    pipeline = project(text_of_shop(outside, schema='.schema("id BIGINT, name STRING")'))
    pipeline.run("orders")
    (outside / "shop.db").rename(outside / "shop.db.away")

    outcome = pipeline.project.run(["orders"])

    (orders,) = (flow for flow in outcome.flows if flow.flow == "orders")
    assert (orders.state, outcome.error["code"]) == (FlowState.FAILED, "JDBC.UNREACHABLE")
    assert orders.attempts > 1


VIEWS = """
    @dp.table
    def apart():
        return spark.readStream.format("synthetic").options(numRows=3, schema="event_id BIGINT").load()

    @dp.materialized_view
    def prices():
        return spark.read.parquet("{folder}/prices")

    dp.persisted_view("direct", "SELECT * FROM parquet.`{folder}/prices`")
    dp.persisted_view("below", "SELECT * FROM prices")

    @dp.temporary_view
    def passing():
        return spark.read.parquet("{folder}/prices")
"""


@pytest.mark.long(
    guard=(
        "tests/spark/test_unavailable_sources.py::test_an_unavailable_source_fails_its_flow_and_skips_dependents_while_others_run",
        "tests/spark/test_pipeline_features.py::test_a_persisted_view_can_be_queried_without_files_and_follows_its_definition",
    )
)
def test_a_persisted_view_with_an_unavailable_source_fails_alone_and_keeps_its_definition(project, outside):
    (outside / "delta").rename(outside / "prices")
    pipeline = project(VIEWS.format(folder=outside))
    assert pipeline.run().state is UpdateState.COMPLETED
    (outside / "prices").rename(outside / "prices.away")

    plan = pipeline.plan()
    outcome = pipeline.project.run()

    assert plan.inactive == ()
    assert 'skip       below: input "prices" was not updated' in plan.describe()
    assert states(outcome) == {
        "apart": FlowState.COMPLETED,
        "prices": FlowState.FAILED,
        "direct": FlowState.FAILED,
        "below": FlowState.SKIPPED,
    }
    assert [said for said in pipeline.project.events().warnings(outcome.update_id) if "INACTIVE" in said.code] == []
    alone = pipeline.project.run(["direct"])
    assert (alone.state, states(alone)["direct"]) == (UpdateState.FAILED, FlowState.FAILED)
    assert pipeline.project.status().error["params"]["condition"] == "PATH_NOT_FOUND"
    assert pipeline.sql("SELECT * FROM below").to_json() == [{"event_id": 0}]
    for ask in (pipeline.project.preview, pipeline.project.explain):
        with pytest.raises(Problems) as found:
            ask("passing")
        assert len(found.value.errors) == 1

    (outside / "prices.away").rename(outside / "prices")
    assert pipeline.run().state is UpdateState.COMPLETED
    assert pipeline.sql("SELECT * FROM direct").to_json() == [{"event_id": 0}]


KEPT = """
    @dp.table
    def orders():
        return spark.readStream.schema("id INT").json("{folder}/in")

    @dp.table(table_properties={{"pipelines.reset.allowed": "{resettable}"}})
    def priced():
        return spark.readStream.table("orders").join(spark.read.format("delta").load("{folder}/delta"))

    @dp.table
    def apart():
        return spark.readStream.schema("id INT").json("{folder}/in")
"""


@pytest.mark.long(
    guard=(
        "tests/unit/plan/test_plan.py::test_table_is_not_cleared_if_the_source_of_its_reader_is_unavailable",
        "tests/spark/test_unavailable_sources.py::test_an_unavailable_source_fails_its_flow_and_skips_dependents_while_others_run",
    )
)
@pytest.mark.parametrize("resettable", ["true", "false"])
def test_a_full_refresh_is_refused_when_a_dependent_flow_has_an_unavailable_source(project, outside, resettable):
    pipeline = project(KEPT.format(folder=outside, resettable=resettable))
    (outside / "in").mkdir()
    (outside / "in" / "1.json").write_text('{"id": 1}\n')
    assert pipeline.run().state is UpdateState.COMPLETED
    (outside / "delta").rename(outside / "delta.away")

    for full_refresh in ({"full_refresh_all": True}, {"full_refresh": ["orders"]}):
        with pytest.raises(Problems) as found:
            pipeline.run(**full_refresh)
        assert [error.params["condition"] for error in found.value] == ["PATH_NOT_FOUND"]
    # What nobody needs that is away can be cleared.
    others = pipeline.project.run(full_refresh=["apart"])

    assert states(others)["apart"] is FlowState.COMPLETED
    (outside / "delta.away").rename(outside / "delta")
    (outside / "in" / "2.json").write_text('{"id": 2}\n')
    result = pipeline.run()
    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert [row["id"] for row in result.rows("priced")] == [1, 2]


def test_preview_and_recompute_fail_if_a_flow_of_the_dataset_has_an_unavailable_source(shop):
    pipeline, outside = shop, shop.folder / "outside"
    (outside / "delta").rename(outside / "delta.away")

    for compute in (pipeline.project.preview, pipeline.project.recompute):
        with pytest.raises(Problems) as found:
            compute("both")
        assert [error.params.get("condition") for error in found.value] == ["DELTA_SCHEMA_NOT_SET"]
    with pytest.raises(PipelineError) as unknown:
        pipeline.project.preview("bth")
    assert (unknown.value.code, unknown.value.hint) == ("DATASET.UNKNOWN", 'Did you mean "both"?')
    assert len(pipeline.recomputed("orders")) == 1
    explained = pipeline.project.explain("both")
    assert [flow.flow.name for flow in explained.flows] == ["landed"]
    assert [said.partition(":")[0] for said in explained.problems] == ['flow "copied" cannot run now']
