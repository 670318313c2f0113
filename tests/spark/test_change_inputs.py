"""Change feeds of Delta tables as the source of change events, also of tables that events were merged into."""

from __future__ import annotations

import pytest

from headrace.errors import Problems

pytestmark = pytest.mark.spark

TEXT = """
    @dp.temporary_view
    def feed():
        return spark.readStream.format("delta").option("readChangeFeed", "true").load("{path}")

    @dp.temporary_view
    def small():
        return spark.readStream.table("feed").filter("size < 50")

    def apply(target, source, sequence_by="version", **more):
        dp.create_streaming_table(target)
        dp.create_auto_cdc_flow(target=target, source=source, keys=["id"], sequence_by=sequence_by, **more)

    apply("users", "feed")
    apply("versions", "small", "_commit_version", stored_as_scd_type=2, except_column_list=["version", "_change_type"])
    """
SQL = """
    CREATE STREAMING TABLE histories;
    CREATE FLOW histories_of_users AS AUTO CDC INTO histories FROM STREAM(users) KEYS (id) SEQUENCE BY _commit_version
      COLUMNS * EXCEPT (version) STORED AS SCD TYPE 2;
    """


def outside(session, path):
    def execute(*statements):
        for statement in statements:
            session.sql(statement.format(t=f"delta.`{path}`"))

    execute(
        "CREATE TABLE {t} (id INT, size INT, version INT) USING delta TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    )
    execute.path = path
    return execute


@pytest.fixture(scope="module")
def source(headrace_session, tmp_path_factory):
    """A table outside of the pipeline that keeps its changes; called, it runs SQL on it."""
    return outside(headrace_session, str(tmp_path_factory.mktemp("change_inputs") / "source"))


FIRST = ("INSERT INTO {t} VALUES (1, 10, 1), (2, 20, 1), (3, 30, 1), (4, 40, 1), (5, 45, 1)",)
LATER = (
    *("UPDATE {t} SET size = 11 WHERE id = 1", "DELETE FROM {t} WHERE id = 2"),
    *("UPDATE {t} SET id = 30 WHERE id = 3", "UPDATE {t} SET size = 60 WHERE id = 5"),
    "INSERT OVERWRITE {t} SELECT id, size + 1 AS size, version FROM {t}",
)


@pytest.fixture(scope="module")
def changed(shared_project, source):
    """A pipeline that has seen rows, and then what has become of them."""
    pipeline = shared_project(TEXT.format(path=source.path), {"transformations/histories.sql": SQL})
    source(*FIRST)
    pipeline.run("users", "histories")
    source(*LATER)
    return pipeline, pipeline.run("users", "histories")


def rows(result, name):
    return sorted(tuple(row.values()) for row in result.rows(name))


NOW = [(1, 12, 1), (4, 41, 1), (5, 61, 1), (30, 31, 1)]


def test_the_table_follows_updates_key_changes_and_deletes_of_its_source(changed):
    _, result = changed

    assert rows(result, "users") == NOW


@pytest.mark.long(
    guard=(
        "tests/spark/test_change_inputs.py::test_a_table_records_a_change_data_feed_for_a_flow_that_reads_it",
        "tests/spark/test_change_inputs.py::test_the_table_follows_updates_key_changes_and_deletes_of_its_source",
    )
)
def test_row_versions_start_and_end_at_commit_versions(project, headrace_session, tmp_path):
    source = outside(headrace_session, str(tmp_path / "source"))
    pipeline = project(TEXT.format(path=source.path))
    source(*FIRST)
    pipeline.run("versions")
    source(*LATER)

    result = pipeline.run("versions")

    assert sorted(rows(result, "versions"), key=str) == [
        *((1, 10, 1, 2), (1, 11, 2, 6), (1, 12, 6, None), (2, 20, 1, 3), (3, 30, 1, 4), (30, 30, 4, 6)),
        # The view lets the last one through no more.
        *((30, 31, 6, None), (4, 40, 1, 6), (4, 41, 6, None), (5, 45, 1, 5)),
    ]


def test_update_preimages_are_not_applied_as_events(changed):
    _, result = changed

    counts = result.counts("users")

    # One update of a row each, a delete, the old and the new key, and the four rows that were written once more.
    assert (counts.rows_written, counts.rows_upserted, counts.rows_deleted) == (9, 4, 2)


def test_a_table_records_a_change_data_feed_for_a_flow_that_reads_it(changed):
    pipeline, result = changed

    histories = [(row["id"], row["size"], row["__END_AT"]) for row in result.rows("histories")]

    ended = {found[:2] for found in histories if found[2] is not None}
    assert {found[:2] for found in histories if found[2] is None} == {found[:2] for found in NOW}
    assert ended == {(1, 10), (2, 20), (3, 30), (4, 40), (5, 45)}
    assert pipeline.plan("histories").empty


@pytest.fixture
def newly_read(project, source, changed):
    """A pipeline with a table that does not keep its changes, and now with a flow that applies them."""
    assert rows(changed[1], "users") == NOW
    pipeline = project(TEXT.format(path=source.path).partition('    apply("versions"')[0])
    pipeline.run()
    file = pipeline.folder / "transformations" / "project.py"
    file.write_text(file.read_text() + '\napply("copies", "users")\n')
    return pipeline


def test_a_missing_change_data_feed_is_reported_and_its_activation_is_planned(newly_read):
    with pytest.raises(Problems) as refused:
        newly_read.plan("copies")
    planned = newly_read.plan().table_step_for(newly_read.settings.naming.canonical("users"))

    assert [problem.code for problem in refused.value] == ["PLAN.FEED_MISSING"]
    assert planned.reason == 'sets property "delta.enableChangeDataFeed"'


@pytest.mark.long(
    guard=(
        "tests/spark/test_change_inputs.py::test_a_missing_change_data_feed_is_reported_and_its_activation_is_planned",
        "tests/spark/test_change_inputs.py::test_a_table_records_a_change_data_feed_for_a_flow_that_reads_it",
    )
)
def test_the_next_update_enables_the_change_data_feed_of_an_existing_table(newly_read):
    result = newly_read.run()

    assert rows(result, "copies") == rows(result, "users") == NOW


PARTS = """
    @dp.temporary_view
    def feed():
        options = {{"readChangeFeed": "true", "startingVersion": "0", "maxFilesPerTrigger": "1"}}
        return spark.readStream.format("delta").options(**options).load("{path}")

    def apply(target, **more):
        dp.create_streaming_table(target)
        dp.create_auto_cdc_flow(target=target, source="feed", keys=["id"], sequence_by="_commit_version", **more)

    apply("told", column_list=["id", "size", "_commit_version"])
    apply("versions", column_list=["id", "size"], stored_as_scd_type=2)
    """


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("told", [(1, 11, 2)]),
        pytest.param(
            "versions",
            [(1, 10, 1, 2), (1, 11, 2, None)],
            marks=pytest.mark.long(guard="its other cases"),
        ),
    ],
)
def test_a_commit_that_is_split_over_two_batches_is_applied_as_an_update(
    project, headrace_session, tmp_path, name, expected
):
    source = outside(headrace_session, str(tmp_path / "source"))
    source("INSERT INTO {t} VALUES (1, 10, 1)", "INSERT OVERWRITE {t} VALUES (1, 11, 1)")

    result = project(PARTS.format(path=source.path)).run(name)

    assert rows(result, name) == expected


READERS = """
    apply("copies", "users")

    @dp.table
    def rows_of_users():
        return spark.readStream.table("users")

    @dp.temporary_view
    def seen():
        return spark.readStream.table("copies")

    @dp.table
    def rows_of_seen():
        return spark.readStream.table("seen")

    @dp.table
    def added():
        return spark.readStream.option("skipChangeCommits", "true").table("users")

    @dp.table
    def changes_of_copies():
        return spark.readStream.option("readChangeFeed", "true").table("copies").select("id", "_change_type")

    apply("empty_versions", "users", stored_as_scd_type=2)

    dp.create_streaming_table("silent", table_properties={{"delta.enableChangeDataFeed": "false"}})
    dp.create_auto_cdc_flow(target="silent", source="feed", keys=["id"], sequence_by="version")
    apply("deaf", "silent")
    """


def test_all_invalid_readers_of_merged_tables_are_refused_together(project, source):
    pipeline = project((TEXT + READERS).format(path=source.path))

    with pytest.raises(Problems) as refused:
        pipeline.project.validate()

    said = {(problem.code, problem.params["flow"].rpartition(".")[2]) for problem in refused.value}
    assert said == {
        ("CDC.READ_AS_ROWS", "rows_of_users"),
        ("CDC.READ_AS_ROWS", "seen"),
        ("CDC.BAD_ARGUMENT", "empty_versions"),
        ("CDC.NO_FEED", "deaf"),
    }
    (reason,) = [problem.params["reason"] for problem in refused.value if problem.code == "CDC.BAD_ARGUMENT"]
    assert 'sequence_by="struct(version, _commit_version)"' in reason
