"""Delta tables as sources of streams: options that say where and how much, and what is said when one was changed."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from headrace.errors import Problems
from headrace.model.outcome import UpdateState

pytestmark = pytest.mark.spark

COPY = """
    @dp.table
    def copy():
        return spark.readStream.format("delta"){options}.load("{path}")
"""


@pytest.fixture
def source(headrace_session, tmp_path):
    """A table outside of the pipeline, of three commits of a row each; called, it runs SQL on it."""
    path = str(tmp_path / "source")

    def execute(*statements):
        for statement in statements:
            headrace_session.sql(statement.format(t=f"delta.`{path}`"))

    execute(
        "CREATE TABLE {t} (id INT, part STRING) USING delta PARTITIONED BY (part) "
        "TBLPROPERTIES (delta.enableChangeDataFeed = true)",
        *(f"INSERT INTO {{t}} VALUES ({number}, 'p{number}')" for number in (1, 2, 3)),
    )
    execute.path = path
    return execute


@pytest.fixture
def copying(project, source):
    """A pipeline that copies the source as a stream with options."""

    def make(**options):
        said = "".join(f".option({key!r}, {value!r})" for key, value in options.items())
        return project(COPY.format(options=said, path=source.path))

    return make


def ids(result):
    return sorted(row["id"] for row in result.rows("copy"))


def test_an_option_that_delta_would_pass_over_is_refused_with_its_line_and_the_nearest_name(project, source):
    pipeline = project(f"""
        @dp.table
        def copy():
            return spark.readStream.format("delta").option("maxFilePerTrigger", 1).load("{source.path}")

        @dp.materialized_view
        def old():
            return spark.read.load("{source.path}", "delta", version_as_of=1)
    """)

    with pytest.raises(Problems) as refused:
        pipeline.project.validate()

    said = {error.params["option"]: error.params["near"] for error in refused.value}
    assert said == {"maxFilePerTrigger": "maxFilesPerTrigger", "version_as_of": "versionAsOf"}
    assert all(error.location.file == "transformations/project.py" for error in refused.value)


@pytest.mark.parametrize(
    ("statement", "operation"),
    [
        ("DELETE FROM {t} WHERE id = 1", "DELETE"),
        ("UPDATE {t} SET id = 20 WHERE id = 2", "UPDATE"),
        ("INSERT OVERWRITE {t} VALUES (9, 'p9')", "WRITE (Overwrite)"),
        (
            "MERGE INTO {t} AS t USING (SELECT 2 AS id) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET part = 'q'",
            "MERGE",
        ),
    ],
)
def test_a_source_that_was_changed_is_named_with_commit_operation_and_the_ways_on(
    copying, source, statement, operation
):
    pipeline = copying()
    pipeline.run()
    source("INSERT INTO {t} VALUES (4, 'p4')", statement)

    error = pipeline.project.run().error

    assert error["code"] == "FLOW.INPUT_CHANGED", error
    assert {key: error["params"][key] for key in ("table", "version", "operation")} == {
        "table": source.path,
        "version": "5",
        "operation": operation,
    }
    assert "--full-refresh copy" in error["hint"]
    assert error["location"]["file"] == "transformations/project.py"


def test_a_changed_table_of_the_pipeline_is_named_as_the_pipeline_names_it(project):
    pipeline = project(
        """
        @dp.table(schema="id INT")
        def source():
            return spark.readStream.schema("id INT").json("unused")

        @dp.table
        def copy():
            return spark.readStream.table("source")
        """
    ).given("source", [{"id": 1}, {"id": 2}])
    pipeline.run("copy")
    DeltaTable(f"{pipeline.folder}/storage/tables/default/source").delete("id = 1")

    error = pipeline.project.run(["copy"]).error

    assert (error["code"], error["params"]["table"], error["params"]["version"]) == (
        "FLOW.INPUT_CHANGED",
        "source",
        "1",
    )


def test_the_ways_on_lead_on(copying, source):
    pipeline = copying()
    pipeline.run()
    source("DELETE FROM {t} WHERE id = 1", "INSERT INTO {t} VALUES (4, 'p4')")
    assert pipeline.run().state is UpdateState.FAILED
    file = pipeline.folder / "transformations" / "project.py"

    file.write_text(file.read_text().replace('"delta")', '"delta").option("skipChangeCommits", "true")'))
    skipped = ids(pipeline.run())
    anew = ids(pipeline.run(full_refresh=["copy"], accept_data_loss=True))

    assert (skipped, anew) == ([1, 2, 3, 4], [2, 3, 4])


def test_a_stream_begins_where_its_options_say(copying, source, headrace_session):
    commits = headrace_session.sql(f"DESCRIBE HISTORY delta.`{source.path}`").orderBy("version").collect()

    by_version = copying(startingVersion="3").run()
    by_time = copying(startingTimestamp=str(commits[2].timestamp)).run()

    assert (ids(by_version), ids(by_time)) == ([3], [2, 3])


def test_limits_divide_what_is_read_into_batches(copying):
    def batches(pipeline):
        assert ids(pipeline.run()) == [1, 2, 3]
        return len(list((pipeline.folder / "storage").glob("checkpoints/*/copy/*/*/commits/[0-9]*")))

    assert batches(copying(maxFilesPerTrigger="1")) == 3
    assert batches(copying(maxBytesPerTrigger="1")) == 3
    assert batches(copying()) == 1


def test_deletes_and_changes_can_be_passed_over_or_read_again(copying, source):
    deletes, changes = copying(ignoreDeletes="true"), copying(ignoreChanges="true")
    deletes.run()
    changes.run()
    source("DELETE FROM {t} WHERE part = 'p1'", "INSERT INTO {t} VALUES (4, 'p4'), (5, 'p4')")
    assert ids(deletes.run()) == [1, 2, 3, 4, 5]
    changes.run()
    source("UPDATE {t} SET id = 50 WHERE id = 5")

    # The rows of a file that was written anew come once more.
    assert set(ids(changes.run())) == {1, 2, 3, 4, 5, 50}
    assert deletes.project.run().error["code"] == "FLOW.INPUT_CHANGED"


def test_the_feed_of_changes_is_rows_with_what_happened(copying, source):
    pipeline = copying(readChangeFeed="true", startingVersion="0")
    pipeline.run()
    source("UPDATE {t} SET id = 20 WHERE id = 2", "DELETE FROM {t} WHERE id = 1")

    rows = pipeline.run().rows("copy")

    found = sorted((row["_commit_version"], row["_change_type"], row["id"]) for row in rows)
    assert found == [
        *((1, "insert", 1), (2, "insert", 2), (3, "insert", 3)),
        *((4, "update_postimage", 20), (4, "update_preimage", 2), (5, "delete", 1)),
    ]


def test_columns_that_are_added_come_with_the_next_update(copying, source):
    pipeline = copying()
    pipeline.run()
    source("ALTER TABLE {t} ADD COLUMNS (more STRING)", "INSERT INTO {t} VALUES (4, 'p4', 'x')")

    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert [row["more"] for row in result.rows("copy") if row["id"] == 4] == ["x"]


MAPPED = "ALTER TABLE {t} SET TBLPROPERTIES (delta.columnMapping.mode = 'name')"


def test_a_source_whose_columns_were_renamed_is_named_with_the_commit(copying, source):
    source(MAPPED)
    pipeline = copying()
    pipeline.run()
    source("ALTER TABLE {t} RENAME COLUMN part TO piece", "INSERT INTO {t} VALUES (4, 'p4')")

    error = pipeline.project.run().error

    assert error["code"] == "FLOW.INPUT_SCHEMA_CHANGED", error
    assert (error["params"]["table"], error["params"]["version"]) == (source.path, "5")
    assert error["params"]["operation"] == "RENAME COLUMN"


def test_a_tracked_schema_lets_a_stream_follow_a_renamed_column(copying, source, tmp_path):
    source(MAPPED)
    location = str(tmp_path / "tracked")
    pipeline = copying(schemaTrackingLocation=location, allowSourceColumnRename="always")
    pipeline.run()
    source("INSERT INTO {t} VALUES (4, 'p4')", "ALTER TABLE {t} RENAME COLUMN part TO piece")
    source("INSERT INTO {t} VALUES (5, 'p5')")

    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert {row["id"]: row["piece"] for row in result.rows("copy") if row["id"] > 4} == {5: "p5"}
    warnings = pipeline.project.events().warnings(result.outcome.update_id)
    assert "FLOW.TRACKED_SCHEMA_CHANGED" in {said.code for said in warnings}
    assert ids(result) == [1, 2, 3, 4, 5]
