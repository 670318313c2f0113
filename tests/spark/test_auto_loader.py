"""Auto Loader in pipelines, with Spark and Delta: rows, schemas that grow within an update, what is rescued."""

from __future__ import annotations

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import StreamingQueryException
from tests.crashed_updates import die_in_turn

from headrace.errors import Problems
from headrace.metrics import catalogue
from headrace.spark.errors.spark_errors import full_text
from headrace.testing import Crashed, Failpoint, assert_rows

pytestmark = pytest.mark.spark

ALONE = pytest.mark.long(guard="its other cases")

BRONZE = """
    @dp.table
    def bronze():
        return (
            spark.readStream.format("cloudFiles")
            .option("cloudFiles.format", "json")
            .option("cloudFiles.inferColumnTypes", "true")
            .load("{data}")
        )
"""
SILVER = """
    @dp.table
    def silver():
        return spark.readStream.table("bronze").withColumn("twice", F.col("id") * 2)
"""


@pytest.fixture
def data(tmp_path):
    folder = tmp_path / "landing"
    folder.mkdir()
    return folder


def landing(folder):
    """What makes files that have been there for a while."""

    def landed(name, *records):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("".join(json.dumps(record) + "\n" for record in records))
        os.utime(file, (1_700_000_000, 1_700_000_000))

    return landed


@pytest.fixture
def land(data):
    return landing(data)


@pytest.fixture(scope="module")
def updated(shared_project, tmp_path_factory):
    """A pipeline after three updates, their results, and its folder of files.

    The second update found nothing new, the third one two files with a new field each. An option has no effect,
    and the folder has the name that it has elsewhere.
    """
    data = tmp_path_factory.mktemp("landing")
    land = landing(data)
    land("a.json", {"id": 1, "name": "x"}, {"id": 2})
    bronze = BRONZE.replace(".load(", '.option("cloudFiles.listOnStart", "true").load(')
    paths = {"dbfs:/": str(data.parent)}
    pipeline = shared_project(bronze.format(data=f"dbfs:/{data.name}") + SILVER, paths=paths)
    results = [pipeline.run(), pipeline.run()]
    land("b.json", {"id": 3, "extra": "new"})
    land("c.json", {"id": 4, "other": {"deep": 1}})
    return pipeline, [*results, pipeline.run()], data


def test_small_batches_of_files_and_of_tables_are_committed_without_spark(updated):
    pipeline, _, _ = updated

    writers = [
        action["commitInfo"]["engineInfo"]
        for name in ("bronze", "silver")
        for file in (pipeline.folder / "storage/tables/default" / name / "_delta_log").glob("*.json")
        for actions in [[json.loads(line) for line in file.read_text().splitlines()]]
        for action in actions
        if "commitInfo" in action and any("add" in other for other in actions)
    ]
    assert writers == ["headrace"] * 4


def test_files_are_ingested_once_and_a_flow_without_new_files_is_up_to_date(updated):
    pipeline, results, data = updated

    assert [result.states["bronze"].value for result in results] == ["COMPLETED", "UP_TO_DATE", "COMPLETED"]
    assert [result.counts("bronze").rows_written for result in results] == [2, 0, 2]
    assert results[-1].outcome.to_json()["flows"][0]["backlog"] == [
        {"source": str(data), "files": 0, "bytes": 0, "oldest_unread_at": None}
    ]
    assert pipeline.project.metrics().of(catalogue.LAG_SECONDS)["bronze", str(data)] == 0
    seen = pipeline.project.files("bronze").to_json()
    assert [(row["path"][-6:], row["flow_name"], row["ingestion_state"]) for row in seen] == [
        (name, "bronze", "INGESTED") for name in ("a.json", "b.json", "c.json")
    ]
    assert sorted(row["id"] for row in results[-1].rows("bronze")) == [1, 2, 3, 4]


def test_new_fields_reach_the_table_and_its_readers_within_one_update(updated):
    _, (_, _, result), _ = updated

    assert {flow: state.value for flow, state in result.states.items()} == {
        "bronze": "COMPLETED",
        "silver": "COMPLETED",
    }
    rows = [(row["id"], row["extra"], row["other"], row["twice"]) for row in result.rows("silver")]
    assert sorted(rows, key=lambda row: row[0]) == [
        *((1, None, None, 2), (2, None, None, 4), (3, "new", None, 6), (4, None, {"deep": 1}, 8))
    ]


def test_schema_evolution_logs_one_event_per_schema_version(updated):
    pipeline, (_, _, result), _ = updated

    warned = pipeline.project.events().warnings(result.outcome.update_id)

    (said,) = (one for one in warned if "cloudFiles.listOnStart" not in one.message)
    assert said.code == "AUTO_LOADER.SCHEMA_GREW"
    assert "version 1 of the schema of its files has extra" in said.message


@pytest.mark.long(
    guard=(
        "tests/unit/autoloader/test_stream.py::test_a_stream_that_starts_after_given_files_reads_only_changed_or_later_files",
        "tests/spark/test_refresh.py::test_a_checkpoint_reset_to_the_end_skips_existing_files",
        "tests/spark/test_refresh.py::test_a_checkpoint_reset_starts_at_the_requested_version_timestamp_or_end",
    )
)
def test_a_checkpoint_reset_skips_existing_files_or_reads_them_again(project, data, land):
    land("a.json", {"id": 1})
    pipeline = project(BRONZE.format(data=data))
    pipeline.run()
    land("missed.json", {"id": 2})

    plan = pipeline.plan(reset_checkpoint=("bronze=latest",))
    behind = pipeline.run(reset_checkpoint=["bronze=latest"])
    land("new.json", {"id": 3})
    pipeline.run()

    assert "new files only, 2 files skipped" in plan.describe()
    assert behind.written == 0
    assert sorted(row["id"] for row in pipeline.rows("bronze")) == [1, 3]

    pipeline.run(reset_checkpoint=["bronze"])

    assert sorted(row["id"] for row in pipeline.rows("bronze")) == [1, 1, 2, 3, 3]
    assert pipeline.plan().empty


@pytest.mark.long(
    guard="tests/spark/test_auto_loader.py::test_the_update_after_a_crashed_full_refresh_infers_the_schema_again"
)
def test_a_full_refresh_infers_the_schema_again(project, data, land):
    land("a.json", {"id": 1, "old": "x"})
    pipeline = project(BRONZE.format(data=data))
    pipeline.run()
    land("a.json", {"id": "one"})

    plan_without = pipeline.plan()
    refreshed = pipeline.run(full_refresh=["bronze"], accept_data_loss=True)

    assert plan_without.tables == ()
    assert list(refreshed.rows("bronze")) == [{"id": "one", "_rescued_data": None}]
    assert pipeline.plan().empty
    land("b.json", {"id": "two", "new": 2})
    pipeline.run()
    assert [(row["id"], row["new"]) for row in pipeline.rows("bronze")] == [("one", None), ("two", 2)]


@pytest.mark.parametrize(
    "points",
    [
        # The schema of before is still stored then.
        (Failpoint.RESET_STARTED,),
        *(
            pytest.param(points, marks=ALONE)
            for points in (
                (Failpoint.RESET_CLEARED,),
                (Failpoint.RESET_DONE,),
                (Failpoint.RESET_STARTED, Failpoint.RESET_CLEARED, Failpoint.RESET_DONE),
            )
        ),
    ],
    ids=lambda points: " ".join(point.value for point in points),
)
def test_the_update_after_a_crashed_full_refresh_infers_the_schema_again(project, data, land, points):
    land("a.json", {"id": 1, "old": "x"})
    pipeline = project(BRONZE.format(data=data))
    pipeline.run()
    land("a.json", {"id": "one"})
    with pytest.raises(Crashed):
        pipeline.crash_at(points[0]).run(full_refresh=["bronze"], accept_data_loss=True)

    previewed = pipeline.restart().project.preview("bronze")
    die_in_turn(pipeline.run, pipeline, *points[1:])
    finished = pipeline.run()

    assert list(previewed.rows.columns) == ["id", "_rescued_data"]
    assert list(finished.rows("bronze")) == [{"id": "one", "_rescued_data": None}]
    assert pipeline.plan().empty
    land("a.json", {"id": 2.5})
    assert pipeline.plan().tables == ()


def test_file_metadata_and_input_file_functions_match_sparks_file_source(headrace_session, project, data, land):
    land("x/a b.json", {"id": 1})
    fields = ("file_path", "file_name", "file_size", "file_block_start", "file_block_length", "file_modification_time")
    functions = ("input_file_name", "input_file_block_start", "input_file_block_length")
    own = (
        headrace_session.read.schema("id STRING")
        .json(f"{data}/x")
        .selectExpr(
            *(f"CAST(_metadata.{field} AS STRING) AS {field}" for field in fields),
            *(f"{name}() AS {name}" for name in functions),
        )
    )
    pipeline = project(
        f"""
        @dp.table
        def bronze():
            frame = spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load("{data}")
            fields = [F.col(f"_metadata.{{name}}").cast("string").alias(name) for name in {fields}]
            return frame.filter("id > 0").select(
                "*",
                *fields,
                F.input_file_name().alias("input_file_name"),
                F.input_file_block_start().alias("input_file_block_start"),
                F.input_file_block_length().alias("input_file_block_length"),
            )
        """
    )

    result = pipeline.run()

    assert list(result.rows("bronze")) == [{"id": "1", "_rescued_data": None, **own.first().asDict()}]


def test_an_input_file_function_that_would_return_an_empty_value_is_refused(project, data, land):
    land("a.json", {"id": 1})
    pipeline = project(
        BRONZE.format(data=data)
        + """
    @dp.table
    def told():
        wide = [f"id AS c{place}" for place in range(60)]
        return spark.readStream.table("files").selectExpr(*wide, "upper(input_file_name()) AS file")

    @dp.view
    def files():
        return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").load("{data}")
    """.replace("{data}", str(data))
    )

    with pytest.raises(Problems) as refused:
        pipeline.run()

    assert [problem.code for problem in refused.value] == ["AUTO_LOADER.INPUT_FILE"]


def test_validate_stores_no_schema(project, data, land):
    land("a.json", {"id": 1})
    pipeline = project(BRONZE.format(data=data))

    pipeline.project.validate()

    assert not list(pipeline.folder.rglob("_schemas"))


def test_sql_reads_files_as_streams_and_as_batches(project, tmp_path, land):
    land("x/a.json", {"id": 1, "name": "x"})
    land("x/b.json", {"id": 2})
    pipeline = project(
        files={
            "transformations/files.sql": """
            CREATE OR REFRESH STREAMING TABLE bronze AS
            SELECT id, name, _metadata.file_name AS file
            FROM STREAM read_files('/mnt/landing', format => 'json', maxFilesPerTrigger => 10);

            CREATE OR REFRESH STREAMING TABLE older AS
            SELECT *, input_file_name() AS file
            FROM STREAM(cloud_files('/mnt/landing', 'json', map('cloudFiles.schemaHints', 'id INT')));

            CREATE OR REFRESH MATERIALIZED VIEW counted AS
            SELECT count(*) AS n FROM read_files('/mnt/landing', format => 'json', schema => 'id INT');
            """
        },
        paths={"/mnt/": str(tmp_path)},
    )

    result = pipeline.run()

    assert [(row["id"], row["name"], row["file"]) for row in result.rows("bronze")] == [
        *((1, "x", "a.json"), (2, None, "b.json"))
    ]
    older = sorted(result.rows("older"), key=lambda row: row["id"])
    assert list(older[0]) == ["id", "name", "_rescued_data", "file"]
    assert [(row["id"], row["file"]) for row in older] == [
        *((1, (tmp_path / "landing/x/a.json").as_uri()), (2, (tmp_path / "landing/x/b.json").as_uri()))
    ]
    assert list(result.rows("counted")) == [{"n": 2}]


def test_a_script_fails_once_on_a_new_field_and_then_continues(headrace_session, tmp_path, data, land):
    def run():
        frame = (
            headrace_session.readStream.format("cloudFiles")
            .option("cloudFiles.format", "json")
            .option("cloudFiles.schemaLocation", str(tmp_path / "checkpoint"))
            .load(str(data))
        )
        writer = frame.writeStream.format("delta").option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.option("mergeSchema", "true").trigger(availableNow=True).start(str(tmp_path / "table"))
        query.awaitTermination()

    land("a.json", {"id": 1})
    run()
    land("b.json", {"id": 2, "extra": "x"})

    with pytest.raises(StreamingQueryException) as raised:
        run()
    assert "UNKNOWN_FIELD_EXCEPTION.NEW_FIELDS_IN_RECORD_WITH_FILE_PATH" in full_text(raised.value)
    run()
    run()

    rows = headrace_session.read.format("delta").load(str(tmp_path / "table")).select("id", "extra").collect()
    assert sorted(map(tuple, rows)) == [("1", None), ("2", "x")]


@pytest.mark.long(guard="tests/spark/test_auto_loader_format_parity.py::test_auto_loader_loads_each_format")
def test_csv_and_parquet_files_are_streamed(project, data):
    (data / "csv").mkdir()
    (data / "csv" / "a.csv").write_text('name,id\n"a, b",1\nc,x\n')
    (data / "parquet").mkdir()
    pq.write_table(pa.table({"id": [1, 2], "name": ["x", None]}), data / "parquet" / "a.parquet")
    pipeline = project(
        f"""
        @dp.table
        def lines():
            reader = spark.readStream.format("cloudFiles").option("cloudFiles.format", "csv")
            return reader.option("cloudFiles.schemaHints", "id INT").load("{data}/csv")

        @dp.table
        def columns():
            return spark.readStream.format("cloudFiles").option("cloudFiles.format", "parquet").load("{data}/parquet")
        """
    )

    result = pipeline.run()

    assert [(row["name"], row["id"]) for row in result.rows("lines")] == [("a, b", 1), ("c", None)]
    assert [(row["id"], row["name"]) for row in result.rows("columns")] == [(1, "x"), (2, None)]


def test_a_file_stream_is_recomputed_as_a_batch_over_all_files(updated):
    pipeline, results, _ = updated

    with pytest.warns(UserWarning, match="cloudFiles.listOnStart"):
        recomputed = pipeline.recomputed("bronze")

    assert sorted(row["id"] for row in recomputed) == [1, 2, 3, 4]
    assert_rows(recomputed, results[-1].rows("bronze"))


def test_an_ignored_option_is_reported_in_each_update_and_in_a_script(headrace_session, updated):
    pipeline, results, data = updated

    for result in results:
        said = [warned.message for warned in pipeline.project.events().warnings(result.outcome.update_id)]
        assert [text for text in said if "cloudFiles.listOnStart" in text and "has no effect" in text]
    reader = headrace_session.readStream.format("cloudFiles").schema("id INT").option("cloudFiles.format", "json")
    with pytest.warns(UserWarning, match="cloudFiles.listOnStart"):
        reader.option("cloudFiles.listOnStart", value=True).load(str(data))


def test_dbfs_paths_are_mapped_to_local_folders(updated):
    pipeline, results, data = updated

    assert '.load("dbfs:/' in (pipeline.folder / "transformations" / "project.py").read_text()
    assert results[0].states["bronze"].value == "COMPLETED"
    taken = [row["path"] for row in pipeline.project.files("bronze").to_json()]
    assert sorted(taken) == [str(data / name) for name in ("a.json", "b.json", "c.json")]


@pytest.fixture(scope="module")
def rescued(shared_project, tmp_path_factory):
    """The update of flows that read two records which do not fit."""
    data = tmp_path_factory.mktemp("misfits")
    land = landing(data)
    land("a.json", {"id": 1}, {"id": "none"}, {"id": 2})
    (data / "b.json").write_text("{broken\n")
    pipeline = shared_project(
        f"""
        def read():
            reader = spark.readStream.format("cloudFiles").option("cloudFiles.format", "json")
            return reader.option("cloudFiles.schemaHints", "id BIGINT").load("{data}")

        @dp.table
        def plain():
            return read()

        @dp.table
        @dp.expect_or_quarantine("no word", "NOT coalesce(_rescued_data, '') LIKE '%none%'")
        def ruled():
            return read()

        @dp.table
        def without():
            return read().drop("_rescued_data")
        """
    )
    return pipeline.run()


def test_mismatched_values_are_rescued_and_an_expectation_can_quarantine_them(rescued):
    counts = rescued.counts("ruled")
    assert (counts.rows_written, counts.rows_quarantined) == (3, 1)
    (aside,) = rescued.rows("ruled_quarantine")
    assert '"id":"none"' in aside["row"]["_rescued_data"]
    assert "{broken" in " ".join(row["_rescued_data"] or "" for row in rescued.rows("ruled"))
    assert sorted(row["id"] for row in rescued.rows("plain") if row["id"] is not None) == [1, 2]


def test_rescued_rows_are_counted_with_and_without_expectations(rescued):
    assert [rescued.counts(name).rows_rescued for name in ("plain", "ruled", "without")] == [2, 1, None]


@pytest.mark.long(
    guard=(
        "tests/unit/autoloader/test_widening.py::test_a_wider_type_stops_the_stream_once_and_the_restart_reads_the_same_files",
        "tests/spark/test_auto_loader.py::test_new_fields_reach_the_table_and_its_readers_within_one_update",
        "tests/spark/test_schema_change.py::test_wider_types_and_new_columns_reach_every_table_in_one_update",
    )
)
def test_a_wider_type_widens_the_table_within_the_update(project, data):
    def landed(name, kind, value):
        pq.write_table(pa.table({"id": pa.array([value], kind)}), data / name)
        os.utime(data / name, (1_700_000_000, 1_700_000_000))

    landed("a.parquet", pa.int32(), 1)
    pipeline = project(
        f"""
        @dp.table(table_properties={{"delta.enableTypeWidening": "true"}})
        def bronze():
            reader = spark.readStream.format("cloudFiles").option("cloudFiles.format", "parquet")
            return reader.option("cloudFiles.schemaEvolutionMode", "addNewColumnsWithTypeWidening").load("{data}")
        """
    )
    pipeline.run()
    landed("b.parquet", pa.int64(), 2**40)

    result = pipeline.run()

    assert result.states["bronze"].value == "COMPLETED"
    assert sorted(row["id"] for row in result.rows("bronze")) == [1, 2**40]
