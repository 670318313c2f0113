"""All spellings of dataset names, views over views, functions from modules of the project."""

from __future__ import annotations

import pytest

from headrace.errors import PipelineError, Problems
from headrace.model.outcome import UpdateState

pytestmark = pytest.mark.spark


@pytest.fixture
def lookup(headrace_session):
    """A table and a view of somebody who shares the session."""
    headrace_session.range(3).write.saveAsTable("lookup")
    headrace_session.range(2).createOrReplaceTempView("mine")
    yield
    headrace_session.sql("DROP TABLE IF EXISTS lookup")
    headrace_session.catalog.dropTempView("mine")


@pytest.mark.usefixtures("lookup")
def test_an_update_keeps_tables_and_views_of_others_in_the_session(project, headrace_session):
    pipeline = project("""
        @dp.materialized_view
        def both():
            return spark.sql("SELECT id FROM lookup UNION ALL SELECT id FROM mine")
        """)

    pipeline.run()
    again = pipeline.run()

    assert sorted(row["id"] for row in again.rows("both")) == [0, 0, 1, 1, 2]
    assert (headrace_session.table("lookup").count(), headrace_session.table("mine").count()) == (3, 2)


@pytest.mark.usefixtures("lookup")
def test_a_dataset_does_not_replace_a_table_from_another_writer(project, headrace_session):
    pipeline = project("""
        @dp.materialized_view
        def lookup():
            return spark.range(1)
        """)

    with pytest.raises((PipelineError, Problems), match="no pipeline created"):
        pipeline.run()

    assert headrace_session.table("lookup").count() == 3


def test_a_query_reads_the_pipelines_view_instead_of_a_session_view_with_that_name(project, headrace_session):
    headrace_session.range(1).write.saveAsTable("soon_gone")
    headrace_session.sql("CREATE TEMPORARY VIEW Seen AS SELECT * FROM soon_gone")
    headrace_session.sql("DROP TABLE soon_gone")
    pipeline = project("""
        @dp.materialized_view
        def first():
            return spark.read.table("seen")

        @dp.temporary_view
        def seen():
            return spark.range(2)
        """)

    result = pipeline.run()

    assert sorted(row["id"] for row in result.rows("first")) == [0, 1]


PYTHON = """
    import dlt
    from cleaning import clean

    cleaned = F.udf(clean)

    @dp.materialized_view(name="orders")
    def some_orders():
        return spark.sql("SELECT id, name FROM VALUES (1, ' A'), (2, 'b ') AS t(id, name)")

    @dp.materialized_view
    def by_three_parts():
        return spark.read.table("main.shop.orders")

    @dp.materialized_view
    def by_live():
        return dlt.read("LIVE.orders")

    @dp.materialized_view
    def by_sql():
        return spark.sql("SELECT o.id FROM main.shop.orders AS o JOIN live.ORDERS USING (id)")

    @dp.table(name="second.streamed")
    def streamed():
        return spark.readStream.table("`main`.`shop`.`Orders`")

    @dp.temporary_view
    def lower():
        return spark.read.table("orders").select("id", cleaned("name").alias("name"))

    @dp.temporary_view
    def lower_ones():
        return spark.read.table("lower").where("id = 1")

    @dp.materialized_view
    def ones():
        return spark.read.table("lower_ones")
    """
SQL = """
    CREATE MATERIALIZED VIEW archive.old.orders AS SELECT * FROM orders;
    CREATE MATERIALIZED VIEW from_archive AS SELECT * FROM archive.old.orders;
    USE SCHEMA second;
    CREATE MATERIALIZED VIEW counted AS
      WITH streamed_ids AS (SELECT id FROM streamed)
      SELECT count(*) AS n FROM streamed_ids JOIN shop.orders USING (id);
    """
CLEANING = """
    def clean(text):
        return text.strip().lower()
    """


@pytest.fixture(scope="module")
def pipeline(shared_project):
    files = {"transformations/more.sql": SQL, "cleaning.py": CLEANING}
    pipeline = shared_project(PYTHON, files, catalog="main", schema="shop")
    result = pipeline.run()
    assert result.state is UpdateState.COMPLETED, result.outcome.error
    return pipeline


ORDERS = [{"id": 1, "name": " A"}, {"id": 2, "name": "b "}]


@pytest.mark.parametrize("name", ["by_three_parts", "by_live", "second.streamed", "archive.old.orders", "from_archive"])
def test_every_spelling_of_a_name_finds_the_table(pipeline, name):
    assert pipeline.rows(name) == ORDERS


def test_a_query_can_mix_spellings_of_a_name(pipeline):
    assert pipeline.rows("by_sql") == [{"id": 1}, {"id": 2}]


def test_use_applies_to_later_statements_and_a_common_table_expression_is_no_dataset(pipeline):
    assert pipeline.rows("second.counted") == [{"n": 2}]


def test_a_view_reads_a_view_and_python_workers_run_functions_of_project_modules(pipeline):
    assert pipeline.rows("ones") == [{"id": 1, "name": "a"}]


def test_an_update_runs_the_changed_version_of_a_module(pipeline):
    pipeline.write("cleaning.py", "def clean(text):\n    return 'changed'\n")

    assert pipeline.run("ones").rows("ones") == [{"id": 1, "name": "changed"}]


def test_a_deleted_module_is_not_imported_from_the_archive_for_workers(pipeline):
    module = pipeline.folder / "cleaning.py"
    text = module.read_text()
    module.unlink()

    with pytest.raises(Problems) as found:
        pipeline.plan()
    assert "No module named 'cleaning'" in "".join(error.render() for error in found.value)
    pipeline.write("cleaning.py", text)


def test_tables_are_stored_at_the_documented_paths(pipeline):
    tables = {path.split("/tables/")[1] for _, path, _ in pipeline.project.tables()}

    assert {"shop/orders", "second/streamed", "archive/old/orders"} <= tables


def test_a_sql_query_reads_a_table_by_its_full_name(pipeline):
    assert pipeline.sql("SELECT count(*) AS n FROM main.second.streamed").to_json() == [{"n": 2}]
