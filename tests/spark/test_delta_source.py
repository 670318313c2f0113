"""Delta tables as sources of streams: options that say where and how much, and what is said when one was changed."""

from __future__ import annotations

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.recorded_updates import heard

from headrace.errors import Problems
from headrace.events.types import FlowStateChanged
from headrace.model.outcome import FlowState, UpdateState

pytestmark = pytest.mark.spark

COPY = """
    @dp.table
    def {name}():
        return spark.readStream.format("delta"){options}.load("{path}")
"""
SCHEMA = pa.schema({"id": pa.int32(), "part": pa.string()})


def add(path, *rows):
    """A commit of rows, as pairs of an id and a part."""
    write_deltalake(path, pa.table(list(zip(*rows, strict=True)), schema=SCHEMA), mode="append")


def lay(path):
    """A table outside of the pipeline: it is made, and has three commits of a row each."""
    DeltaTable.create(path, SCHEMA, partition_by=["part"], configuration={"delta.enableChangeDataFeed": "true"})
    for number in (1, 2, 3):
        add(path, (number, f"p{number}"))
    return path


@pytest.fixture
def change(headrace_session):
    """Runs SQL on a table, which it calls ``{t}``."""

    def execute(path, *statements):
        for statement in statements:
            headrace_session.sql(statement.format(t=f"delta.`{path}`"))

    return execute


@pytest.fixture
def source(change, tmp_path):
    """A table outside of the pipeline; called, it runs SQL on it."""
    path = lay(str(tmp_path / "source"))

    def execute(*statements):
        change(path, *statements)

    execute.path = path
    return execute


def copy(name, path, **options):
    """A table that copies another one as a stream with options."""
    said = "".join(f".option({key!r}, {value!r})" for key, value in options.items())
    return COPY.format(name=name, options=said, path=path)


@pytest.fixture
def copying(project, source):
    """A pipeline that copies the source as a stream with options."""
    return lambda **options: project(copy("copy", source.path, **options))


def ids(result, name="copy"):
    return sorted(row["id"] for row in result.rows(name))


def failures(events):
    """The errors that flows failed with, by flow."""
    return {
        event.flow: event.error for event in events if isinstance(event, FlowStateChanged) and event.error is not None
    }


def test_an_option_that_delta_would_ignore_is_refused_with_the_nearest_name(project, source):
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


CHANGES = {"DELETE": "DELETE FROM {t} WHERE id = 1"}
OTHERS = {
    "WRITE (Overwrite)": "INSERT OVERWRITE {t} VALUES (9, 'p9')",
    "UPDATE": "UPDATE {t} SET id = 20 WHERE id = 2",
    "MERGE": ("MERGE INTO {t} AS t USING (SELECT 2 AS id) AS s ON t.id = s.id WHEN MATCHED THEN UPDATE SET part = 'q'"),
}


@pytest.mark.parametrize(
    "changes",
    [
        CHANGES,
        pytest.param(
            OTHERS,
            marks=pytest.mark.long(guard="its other cases"),
        ),
    ],
    ids=", ".join,
)
def test_a_changed_source_is_reported_with_its_commit_and_operation_and_a_hint(project, change, tmp_path, changes):
    sources = {f"copy{number}": lay(str(tmp_path / f"source{number}")) for number in range(len(changes))}
    pipeline = project("".join(copy(name, path) for name, path in sources.items()))
    pipeline.run()
    for path, statement in zip(sources.values(), changes.values(), strict=True):
        add(path, (4, "p4"))
        change(path, statement)

    result, events = heard(pipeline)

    errors = failures(events)
    assert result.states == dict.fromkeys(sources, FlowState.FAILED)
    assert {flow: error["code"] for flow, error in errors.items()} == dict.fromkeys(sources, "FLOW.INPUT_CHANGED")
    keys = "table", "version", "operation"
    assert {flow: tuple(error["params"][key] for key in keys) for flow, error in errors.items()} == {
        name: (path, "5", operation) for (name, path), operation in zip(sources.items(), changes, strict=True)
    }
    assert {flow: f"--full-refresh {flow}" in error["hint"] for flow, error in errors.items()} == dict.fromkeys(
        sources, True
    )
    assert {error["location"]["file"] for error in errors.values()} == {"transformations/project.py"}


def test_a_changed_table_of_the_pipeline_is_reported_by_its_dataset_name(project):
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


@pytest.mark.long(
    guard=(
        "tests/spark/test_delta_source.py::test_a_changed_source_is_reported_with_its_commit_and_operation_and_a_hint",
        "tests/spark/test_refresh.py::test_a_checkpoint_reset_starts_at_the_requested_version_timestamp_or_end",
    )
)
def test_skipping_changes_or_a_full_refresh_recovers_from_a_changed_source(copying, source):
    pipeline = copying()
    pipeline.run()
    DeltaTable(source.path).delete("id = 1")
    add(source.path, (4, "p4"))
    assert pipeline.run().state is UpdateState.FAILED
    file = pipeline.folder / "transformations" / "project.py"

    file.write_text(file.read_text().replace('"delta")', '"delta").option("skipChangeCommits", "true")'))
    skipped = ids(pipeline.run())
    anew = ids(pipeline.run(full_refresh=["copy"], accept_data_loss=True))

    assert (skipped, anew) == ([1, 2, 3, 4], [2, 3, 4])


def test_a_stream_starts_at_the_version_or_timestamp_of_its_options(project, source, headrace_session):
    commits = headrace_session.sql(f"DESCRIBE HISTORY delta.`{source.path}`").orderBy("version").collect()
    second = str(commits[2].timestamp)
    by_version, by_time = (
        copy("by_version", source.path, startingVersion="3"),
        copy("by_time", source.path, startingTimestamp=second),
    )

    result = project(by_version + by_time).run()

    assert {name: ids(result, name) for name in ("by_version", "by_time")} == {"by_version": [3], "by_time": [2, 3]}


@pytest.mark.long(
    guard="tests/spark/test_continuous.py::test_flows_with_a_one_time_trigger_process_the_available_input_once"
)
def test_rate_limits_divide_the_input_into_batches(project, source):
    limits = {"files": {"maxFilesPerTrigger": "1"}, "bytes": {"maxBytesPerTrigger": "1"}, "none": {}}
    pipeline = project("".join(copy(f"by_{name}", source.path, **options) for name, options in limits.items()))

    result = pipeline.run()

    assert {name: ids(result, f"by_{name}") for name in limits} == {name: [1, 2, 3] for name in limits}
    checkpoints = pipeline.folder / "storage" / "checkpoints"
    batches = {name: len(list(checkpoints.glob(f"*/by_{name}/*/*/commits/[0-9]*"))) for name in limits}
    assert batches == {"files": 3, "bytes": 3, "none": 1}


@pytest.mark.long(
    guard=(
        "tests/unit/sources/test_delta_options.py::test_known_delta_file_system_and_table_options_are_accepted_in_any_case",
        "tests/unit/plan/test_starts_and_losses.py::test_removals_before_the_first_version_of_the_delta_log_are_unknown",
        "tests/spark/test_delta_source.py::test_a_changed_source_is_reported_with_its_commit_and_operation_and_a_hint",
    )
)
def test_a_stream_can_ignore_deletes_or_read_changed_files_again(project, source):
    ignoring = {"deletes": {"ignoreDeletes": "true"}, "changes": {"ignoreChanges": "true"}}
    pipeline = project("".join(copy(name, source.path, **options) for name, options in ignoring.items()))
    pipeline.run()
    DeltaTable(source.path).delete("part = 'p1'")
    add(source.path, (4, "p4"), (5, "p4"))
    assert ids(pipeline.run(), "deletes") == [1, 2, 3, 4, 5]
    DeltaTable(source.path).update(updates={"id": "50"}, predicate="id = 5")

    result, events = heard(pipeline)

    # The rows of a file that was written anew come once more.
    assert set(ids(result, "changes")) == {1, 2, 3, 4, 5, 50}
    assert {flow: error["code"] for flow, error in failures(events).items()} == {"deletes": "FLOW.INPUT_CHANGED"}


@pytest.mark.long(
    guard="tests/spark/test_change_inputs.py::test_the_table_follows_updates_key_changes_and_deletes_of_its_source"
)
def test_the_change_data_feed_is_read_with_change_types(copying, source):
    pipeline = copying(readChangeFeed="true", startingVersion="0")
    pipeline.run()
    source("UPDATE {t} SET id = 20 WHERE id = 2", "DELETE FROM {t} WHERE id = 1")

    rows = pipeline.run().rows("copy")

    found = sorted((row["_commit_version"], row["_change_type"], row["id"]) for row in rows)
    assert found == [
        *((1, "insert", 1), (2, "insert", 2), (3, "insert", 3)),
        *((4, "update_postimage", 20), (4, "update_preimage", 2), (5, "delete", 1)),
    ]


@pytest.mark.long(
    guard="tests/spark/test_schema_change.py::test_wider_types_and_new_columns_reach_every_table_in_one_update"
)
def test_columns_added_to_the_source_arrive_with_the_next_update(copying, source):
    pipeline = copying()
    pipeline.run()
    source("ALTER TABLE {t} ADD COLUMNS (more STRING)", "INSERT INTO {t} VALUES (4, 'p4', 'x')")

    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED, result.outcome.error
    assert [row["more"] for row in result.rows("copy") if row["id"] == 4] == ["x"]


MAPPED = "ALTER TABLE {t} SET TBLPROPERTIES (delta.columnMapping.mode = 'name')"


def test_a_source_with_a_renamed_column_is_reported_with_its_commit(copying, source):
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
