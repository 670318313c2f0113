"""What flows deliver, to each kind of sink: every row, once, or told when it comes again, whatever breaks."""

from __future__ import annotations

import csv
import json
import sqlite3
from collections import Counter
from contextlib import closing, redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from tests.delivery_cases import FIRST, FLOW, IDS, SECOND, SOURCE, ids, jdbc, rows_of_delta, sink
from tests.recorded_updates import heard
from tests.servers.receiver import CUT_OFF, running_receiver

from headrace.errors import PipelineError, Problems
from headrace.events.types import BatchDone, SinkDefined, Warned
from headrace.model.outcome import FlowState, UpdateState
from headrace.sinks.database import TableWriter
from headrace.testing import Crashed, Failpoint

pytestmark = pytest.mark.spark


def rows_of_json(path):
    return [json.loads(line) for file in files_in(path, "json") for line in file.read_text().splitlines()]


def files_in(path, suffix):
    """The files that a reader of the folder sees."""
    found = [file for file in Path(path).rglob(f"*.{suffix}") if not file.name.startswith((".", "_"))]
    return [file for file in found if not any(part.startswith(("_", ".")) for part in file.relative_to(path).parts)]


def assert_that_the_second_batch_is_noted_alone(path):
    (journal,) = (path / "_headrace").rglob("journal.json")
    assert json.loads(journal.read_text())["batch"] == 1
    assert list(journal.parent.iterdir()) == [journal]


def die_and_restart(pipeline, point, skip=0):
    with pytest.raises(Crashed):
        pipeline.crash_at(point, skip=skip).run()
    result = pipeline.restart().run()
    assert result.state is UpdateState.COMPLETED, result.outcome.error["detail"]


# A sink of every kind that has no crash of its own, and a flow into each.
EVERYWHERE = """
    import json
    import uuid
    from pathlib import Path
    from pyspark.sql.datasource import DataSource, DataSourceStreamWriter, WriterCommitMessage

    dp.create_sink("lake", "delta", {"path": "{folder}/lake"})
    dp.create_sink("named", "delta", {"tableName": "lake.copies"})
    dp.create_sink(
        "sheets",
        "csv",
        {"path": "landing/out", "partitionBy": "name", "writer.header": True, "writer.sep": ";"},
    )
    dp.create_sink("shown", "console", {"numRows": 2})
    dp.create_sink("posted", "http", {requests})

    @dp.foreach_batch_sink
    def called(df, batch_id):
        rows = sorted(row["id"] for row in df.collect())
        with open("{folder}/calls", "a") as log:
            print(batch_id, rows, file=log)

    @dp.foreach_batch_sink
    def changes(df, batch_id):
        with open("{folder}/changes", "a") as log:
            print(batch_id, sorted((row["odd"], row["count"]) for row in df.collect()), file=log)

    class Notes(DataSource):
        @classmethod
        def name(cls):
            return "notes"

        def streamWriter(self, schema, overwrite):
            return NotesWriter(self.options["place"])

    class NotesWriter(DataSourceStreamWriter):
        def __init__(self, place):
            self.place = place

        def write(self, rows):
            Path(self.place, uuid.uuid4().hex + ".json").write_text(
                "".join(json.dumps({"id": row["id"]}) + "\\n" for row in rows)
            )
            return WriterCommitMessage()

        def commit(self, messages, batch_id):
            pass

        def abort(self, messages, batch_id):
            pass

    spark.dataSource.register(Notes)
    dp.create_sink("noted", "notes", {"place": "{folder}/notes"})

    def deliver(to):
        @dp.append_flow(target=to, name=f"to_{to}")
        def rows():
            return stream().repartition(2)

    for name in ("lake", "named", "sheets", "shown", "called", "noted"):
        deliver(name)

    @dp.append_flow(target="posted")
    def to_posted():
        return stream().selectExpr("-id AS id", "'one' AS name")

    @dp.update_flow(target="changes")
    def counts():
        return stream().where("id < 5").groupBy(F.expr("id % 2 = 1").alias("odd")).count()
    """
REQUESTS = {"method": "PUT", "body": "lines", "rowsPerRequest": 10, "keys": "name", "orderBy": "id"}
REQUESTS |= {"bearerToken": "s3cret", "header.X-Shop": "oslo", "idempotencyHeader": "X-Key"}
REQUESTS |= {"timeout": "20 s", "maxAttempts": 2, "retryBudget": "5 s", "requestsPerSecond": 1000}


@dataclass
class Delivered:
    """An update that has delivered two batches everywhere, and one after it without anything new."""

    pipeline: Any
    folder: Path
    update: tuple[Any, list[Any]]
    idle: tuple[Any, list[Any]]
    shown: str
    requests: list[Any]


@pytest.fixture(scope="module")
def delivered(shared_project, tmp_path_factory):
    folder = tmp_path_factory.mktemp("delivered")
    (folder / "notes").mkdir()
    with running_receiver() as server, redirect_stderr(StringIO()) as shown:
        text = EVERYWHERE.replace("{folder}", str(folder)).replace("{requests}", repr({"url": server.url, **REQUESTS}))
        pipeline = shared_project(SOURCE + text).given("source", FIRST, SECOND)
        update = heard(pipeline)
        assert update[0].state is UpdateState.COMPLETED, update[0].outcome.error
        requests = list(server.requests)
        idle = heard(pipeline)
    return Delivered(pipeline, folder, update, idle, shown.getvalue(), requests)


def test_a_delta_sink_gets_each_batch_and_counts_its_rows(delivered):
    result, events = delivered.update

    assert ids(rows_of_delta(delivered.folder / "lake")) == IDS
    assert result.flow("to_lake").counts.rows_written == 8
    assert [e.batch_id for e in events if isinstance(e, BatchDone) and e.flow == "to_lake"] == [0, 1]
    assert [e.format for e in events if isinstance(e, SinkDefined) and e.dataset == "lake"] == ["delta"]
    assert delivered.idle[0].states["to_lake"] is FlowState.UP_TO_DATE


def test_a_delta_sink_with_a_table_name_writes_into_the_storage_without_warnings(delivered):
    storage = Path(delivered.pipeline.settings.storage)

    assert ids(rows_of_delta(storage / "tables" / "lake" / "copies")) == IDS
    warned = [e for _, events in (delivered.update, delivered.idle) for e in events if isinstance(e, Warned)]
    assert [e.message for e in warned if "copies" in e.message or "named" in e.message] == []
    assert delivered.idle[0].state is UpdateState.COMPLETED


def test_a_file_sink_applies_partition_columns_and_writer_options(delivered):
    folder = delivered.pipeline.folder / "landing" / "out"

    found = {file.parent.name: list(csv.DictReader(file.open(), delimiter=";")) for file in files_in(folder, "csv")}
    assert found == {f"name=n{n}": [{"id": str(n)}] for n in IDS}


def test_a_foreach_batch_sink_gets_each_batch_with_its_number(delivered):
    assert (delivered.folder / "calls").read_text() == "0 [0, 1, 2, 3]\n1 [4, 5, 6, 7]\n"
    assert delivered.update[0].flow("to_called").counts.rows_written == 8


def test_an_update_flow_delivers_the_changed_rows_of_an_aggregate(delivered):
    assert (delivered.folder / "changes").read_text() == "0 [(False, 2), (True, 2)]\n1 [(False, 3)]\n"


def test_a_console_sink_shows_each_batch(delivered):
    assert "shown, batch 0 of flow to_shown: 4 rows" in delivered.shown
    assert "only showing top 2 rows" in delivered.shown


def test_a_python_data_source_can_be_a_sink(delivered):
    assert ids(rows_of_json(delivered.folder / "notes")) == IDS
    assert delivered.update[0].flow("to_noted").counts.rows_written == 8


def test_an_http_sink_sends_requests_as_configured(delivered):
    request, _ = delivered.requests

    sent = {name: request.headers[name] for name in ("authorization", "x-shop", "content-type")}
    assert [row["id"] for row in request.rows] == [-3, -2, -1, 0]
    assert sent == {"authorization": "Bearer s3cret", "x-shop": "oslo", "content-type": "application/x-ndjson"}
    assert (request.method, len(request.headers["x-key"])) == ("PUT", 32)


def test_a_full_refresh_of_a_sink_delivers_all_rows_again_and_deletes_nothing(project, tmp_path):
    pipeline = project(SOURCE + sink("json", path=str(tmp_path / "out")) + FLOW).given("source", FIRST)
    pipeline.run()

    plan = pipeline.plan(full_refresh=["out"])
    pipeline.run(full_refresh=["out"])

    assert ids(rows_of_json(tmp_path / "out")) == [0, 0, 1, 1, 2, 2, 3, 3]
    assert "delivers all rows again" in plan.describe()


@pytest.mark.parametrize(
    "point",
    [
        Failpoint.WRITTEN,
        *(
            pytest.param(point, marks=pytest.mark.long(guard="its other cases"))
            for point in (Failpoint.BEFORE_WRITE, Failpoint.COUNTED)
        ),
    ],
)
def test_no_row_is_lost_or_duplicated_in_a_delta_sink_when_an_update_crashes(project, tmp_path, point):
    pipeline = project(SOURCE + sink("delta", path=str(tmp_path / "out")) + FLOW).given("source", FIRST, SECOND)

    die_and_restart(pipeline, point, skip=1)

    assert ids(rows_of_delta(tmp_path / "out")) == IDS
    assert pipeline.project.events().flow_totals()["deliver"].rows_written == 8


@pytest.mark.long(
    guard="tests/spark/test_sinks.py::test_file_sinks_of_every_format_have_each_row_once_when_an_update_crashes"
)
@pytest.mark.parametrize(
    ("point", "skip"),
    [
        # Of the second batch, whose note takes the place of the first one's.
        (Failpoint.BEFORE_PUBLISH, 3),
        (Failpoint.WRITTEN, 0),
        (Failpoint.BEFORE_WRITE, 1),
        (Failpoint.STAGED, 1),
        (Failpoint.BEFORE_PUBLISH, 0),
        (Failpoint.BEFORE_PUBLISH, 1),
        (Failpoint.PUBLISHED, 1),
        (Failpoint.COUNTED, 0),
    ],
)
def test_no_row_is_lost_or_duplicated_in_a_file_sink_when_an_update_crashes(project, tmp_path, point, skip):
    pipeline = project(SOURCE + sink("json", path=str(tmp_path / "out")) + FLOW).given("source", FIRST, SECOND)

    die_and_restart(pipeline, point, skip)

    assert_that_the_second_batch_is_noted_alone(tmp_path / "out")
    assert ids(rows_of_json(tmp_path / "out")) == IDS
    assert pipeline.project.events().flow_totals()["deliver"].rows_written == 8


def test_a_delta_sink_with_merge_schema_gets_new_columns(project, tmp_path):
    text = SOURCE + sink("delta", path=str(tmp_path / "out"), mergeSchema=True) + FLOW
    pipeline = project(text).given("source", FIRST)
    pipeline.run()
    file = pipeline.folder / "transformations" / "project.py"
    file.write_text(
        file.read_text().replace("return stream().repartition(2)", 'return stream().selectExpr("*", "1 AS more")')
    )

    pipeline.given("source", SECOND).run()

    assert Counter(row["more"] for row in rows_of_delta(tmp_path / "out")) == {None: 4, 1: 4}


def test_the_error_of_a_failing_sink_function_reports_its_location(project):
    text = """
    @dp.foreach_batch_sink(name="out")
    def post(df, batch_id):
        raise ValueError(f"no batch {batch_id}")
    """
    pipeline = project(SOURCE + text + FLOW).given("source", FIRST)

    result = pipeline.run()

    assert result.states["deliver"] is FlowState.FAILED
    assert "ValueError: no batch 0" in result.outcome.error["detail"]
    assert result.outcome.error["location"]["file"] == "transformations/project.py"


def test_a_once_flow_delivers_existing_rows_once(project, tmp_path):
    flow = """
    @dp.append_flow(target="out", once=True)
    def opening():
        return spark.read.table("source")
    """
    pipeline = project(SOURCE + sink("json", path=str(tmp_path / "out")) + flow).given("source", FIRST)
    pipeline.run()

    again = pipeline.given("source", SECOND).run()

    assert ids(rows_of_json(tmp_path / "out")) == [0, 1, 2, 3]
    assert again.states["opening"] is FlowState.UP_TO_DATE


FAN_OUT = """
    dp.create_sink("lake", "delta", {{"path": "{path}/lake"}})
    dp.create_sink("files", "json", {{"path": "{path}/files"}})

    @dp.foreach_batch_sink
    def calls(df, batch_id):
        with open("{path}/calls", "a") as log:
            print(batch_id, df.count(), file=log)
        if batch_id == 1 and not os.path.exists("{path}/mended"):
            raise ValueError("not now")

    @dp.append_flow(target=["lake", "calls", "files"])
    def deliver():
        return stream()
    """


def test_a_failing_sink_does_not_make_the_other_sinks_repeat_a_batch(project, tmp_path):
    text = "\n    import os\n" + SOURCE + FAN_OUT.format(path=tmp_path)
    pipeline = project(text).given("source", FIRST, SECOND)

    failed, events = heard(pipeline)
    (tmp_path / "mended").touch()
    mended = pipeline.run()

    assert failed.states["deliver"] is FlowState.FAILED
    assert [e.message for e in events if isinstance(e, Warned)] == [
        'flow "deliver": sink "calls" has not accepted batch 1; it is in "lake", "files"'
    ]
    assert mended.state is UpdateState.COMPLETED
    assert (tmp_path / "calls").read_text() == "0 4\n1 4\n1 4\n"
    assert (ids(rows_of_delta(tmp_path / "lake")), ids(rows_of_json(tmp_path / "files"))) == (IDS, IDS)
    assert pipeline.project.events().flow_totals()["deliver"].rows_written == 8


def test_a_flow_with_an_added_target_delivers_everything_again(project, tmp_path):
    text = SOURCE + sink("json", path=str(tmp_path / "out")) + FLOW
    pipeline = project(text).given("source", FIRST)
    pipeline.run()
    file = pipeline.folder / "transformations" / "project.py"
    more = f'dp.create_sink("more", "json", {{"path": {str(tmp_path / "more")!r}}})\n\n'
    more += '@dp.append_flow(target=["out", "more"])'
    file.write_text(file.read_text().replace('@dp.append_flow(target="out")', more))

    pipeline.given("source", SECOND).run()

    assert ids(rows_of_json(tmp_path / "more")) == IDS
    assert ids(rows_of_json(tmp_path / "out")) == sorted([*IDS, 0, 1, 2, 3])


def test_two_pipelines_with_the_same_name_can_share_a_delta_sink(project, tmp_path):
    text = SOURCE + sink("delta", path=str(tmp_path / "out")) + FLOW
    project(text, name="shop").given("source", FIRST).run()
    project(text, name="shop").given("source", SECOND).run()

    assert ids(rows_of_delta(tmp_path / "out")) == IDS


def test_one_of_several_sinks_cannot_be_fully_refreshed_alone_or_previewed(project, tmp_path):
    pipeline = project("\n    import os\n" + SOURCE + FAN_OUT.format(path=tmp_path)).given("source", FIRST)

    with pytest.raises(Problems) as member:
        pipeline.plan(full_refresh=["lake"])
    with pytest.raises(PipelineError) as shown:
        pipeline.project.preview("lake")

    assert [error.code for error in member.value.errors] == ["SELECTION.MEMBER"]
    assert shown.value.code == "SINK.NO_ROWS"


KAFKA_FLOW = """
    @dp.append_flow(target="out")
    def deliver():
        return stream().repartition(2).selectExpr("CAST(id AS STRING) AS key", "to_json(struct(*)) AS value")
    """


def counted_once(records):
    """The rows of records, those of a batch by its greatest attempt alone, and each row of it once."""
    told = [{key: value.decode() for key, value in record.headers()} for record in records]
    newest = {}
    for headers in told:
        batch, attempt = headers["headrace-batch"], int(headers["headrace-attempt"])
        newest[batch] = max(newest.get(batch, -1), attempt)
    kept = {
        (headers["headrace-batch"], headers["headrace-row"]): json.loads(record.value())
        for record, headers in zip(records, told, strict=True)
        if int(headers["headrace-attempt"]) == newest[headers["headrace-batch"]]
    }
    return list(kept.values())


def test_a_kafka_sink_counts_the_rows_of_a_batch_while_it_delivers_them(project, kafka):
    options = {"kafka.bootstrap.servers": kafka.servers, "topic": kafka.topic()}
    text = SOURCE + sink("kafka", **options) + KAFKA_FLOW
    pipeline = project(text, connectors=["kafka"]).given("source", FIRST, SECOND)

    _, events = heard(pipeline)

    counts = [event.counts for event in events if isinstance(event, BatchDone) and event.flow == "deliver"]
    # Counts that nobody told are those of rows that were computed once more, and say so.
    assert [(one.rows_written, one.recovered) for one in counts] == [(4, False), (4, False)]


@pytest.mark.parametrize(
    ("point", "repeats"),
    [
        (Failpoint.WRITTEN, 4),
        *(
            pytest.param(point, 0, marks=pytest.mark.long(guard="its other cases"))
            for point in (Failpoint.BEFORE_WRITE, Failpoint.COUNTED)
        ),
    ],
)
def test_a_kafka_sink_marks_repeated_rows_with_headers_when_an_update_crashes(project, kafka, point, repeats):
    topic = kafka.topic(partitions=2)
    options = {"kafka.bootstrap.servers": kafka.servers, "topic": topic}
    text = SOURCE + sink("kafka", **options) + KAFKA_FLOW
    pipeline = project(text, connectors=["kafka"]).given("source", FIRST, SECOND)

    die_and_restart(pipeline, point, skip=1)

    records = kafka.records(topic)
    assert len(records) == 8 + repeats
    assert ids(counted_once(records)) == IDS
    assert pipeline.project.events().flow_totals()["deliver"].rows_written == 8


@pytest.mark.parametrize(
    "point",
    [
        Failpoint.WRITTEN,
        *(
            pytest.param(point, marks=pytest.mark.long(guard="its other cases"))
            for point in (Failpoint.BEFORE_WRITE, Failpoint.STAGED, Failpoint.COUNTED)
        ),
    ],
)
def test_no_row_is_lost_or_duplicated_in_a_database_sink_when_an_update_crashes(project, postgres, out_orders, point):
    pipeline = project(SOURCE + jdbc(postgres) + FLOW).given("source", FIRST, SECOND)

    die_and_restart(pipeline, point, skip=1)

    assert ids(out_orders()) == IDS
    assert {row["extra"] for row in out_orders()} == {"none"}
    (commit,) = out_orders("headrace_commits")
    assert (commit["batch"], commit["row_count"]) == (1, 4)
    assert pipeline.project.events().flow_totals()["deliver"].rows_written == 8


INSERTED, UPSERTED = {"mode": "insert"}, {"mode": "upsert", "keys": "id", "sequenceBy": "at"}


@pytest.mark.parametrize(
    ("mode", "point"),
    [
        (INSERTED, Failpoint.STAGED),
        *(
            pytest.param(mode, point, marks=pytest.mark.long(guard="its other cases"))
            for mode, point in (
                (UPSERTED, Failpoint.WRITTEN),
                (INSERTED, Failpoint.WRITTEN),
                (UPSERTED, Failpoint.STAGED),
            )
        ),
    ],
)
def test_no_row_is_lost_or_duplicated_in_a_sqlite_sink_when_an_update_crashes(project, tmp_path, mode, point):
    file = tmp_path / "out.db"
    text = SOURCE + sink("jdbc", url=f"jdbc:sqlite:{file}", dbtable="out_orders", **mode)
    text += FLOW.replace("stream()", 'stream().withColumn("at", F.timestamp_seconds(F.col("id")))')
    pipeline = project(text, spark_conf={"spark.sql.session.timeZone": "Europe/Paris"})

    die_and_restart(pipeline.given("source", FIRST, SECOND), point, skip=1)

    with closing(sqlite3.connect(file)) as connection:
        found = connection.execute("SELECT id, at FROM out_orders ORDER BY id").fetchall()
    assert found == [(number, f"1970-01-01 00:00:0{number}.000000") for number in IDS]


def test_two_database_sinks_in_one_schema_each_get_every_row(project, postgres, out_orders):
    postgres.execute("DROP TABLE IF EXISTS out_copies")
    options = postgres.options(dbtable="out_copies")
    text = SOURCE + jdbc(postgres) + f'\n    dp.create_sink("copies", "jdbc", {options!r})\n'
    text += FLOW.replace('target="out"', 'target=["out", "copies"]')

    project(text).given("source", FIRST, SECOND).run()

    assert (ids(out_orders()), ids(out_orders("out_copies"))) == (IDS, IDS)


def test_an_upsert_sink_keeps_the_row_with_the_greatest_sequence_for_each_key(project, postgres, out_orders):
    sequence = {"mode": "upsert", "keys": "id", "sequenceBy": "at"}
    text = SOURCE.replace("id INT, name STRING", "id INT, name STRING, at INT")
    text += sink("jdbc", **postgres.options(dbtable="out_versions", **sequence)) + FLOW
    postgres.execute("DROP TABLE IF EXISTS out_versions")
    first = [{"id": 1, "name": "new", "at": 5}, {"id": 1, "name": "old", "at": 3}, {"id": 2, "name": "b", "at": 1}]
    second = [{"id": 1, "name": "older", "at": 4}, {"id": 2, "name": "b2", "at": 2}]

    project(text).given("source", first, second).run()

    assert {(row["id"], row["name"]) for row in out_orders("out_versions")} == {(1, "new"), (2, "b2")}


def test_no_staging_table_is_left_after_failed_and_crashed_attempts(project, postgres, out_orders, monkeypatch):
    rows = [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]
    pipeline = project(SOURCE + jdbc(postgres) + FLOW).given("source", FIRST, rows)
    with monkeypatch.context() as death:
        death.setattr(TableWriter, "drop_stage", lambda *_: None)
        with pytest.raises(Crashed):
            pipeline.crash_at(Failpoint.STAGED).run()
    stages = "information_schema.tables WHERE table_name LIKE 'headrace_stage%'"
    assert len(out_orders(stages)) == 1

    pipeline.restart().run()

    found = out_orders(stages)
    assert (ids(out_orders()), found) == ([0, 1, 2, 3], [])


def test_a_row_rejected_by_a_database_rolls_back_its_batch(project, postgres, out_orders):
    rows = [{"id": 1, "name": "a"}, {"id": 1, "name": "b"}]
    pipeline = project(SOURCE + jdbc(postgres) + FLOW).given("source", FIRST, rows)

    result = pipeline.run()

    assert result.states["deliver"] is FlowState.FAILED
    assert result.outcome.error["code"] == "JDBC.WRITE"
    assert ids(out_orders()) == [0, 1, 2, 3]
    assert postgres.password not in json.dumps(result.outcome.to_json())


@pytest.mark.long(
    guard=(
        "tests/spark/test_spill_queue.py::test_a_partially_sent_batch_is_sent_again_with_the_same_keys",
        "tests/unit/sinks/test_http.py::test_a_repeated_batch_reuses_its_idempotency_keys_and_another_batch_does_not",
    )
)
@pytest.mark.parametrize(
    ("point", "repeats"),
    [
        (Failpoint.WRITTEN, 2),
        *(
            pytest.param(point, 0, marks=pytest.mark.long(guard="its other cases"))
            for point in (Failpoint.BEFORE_WRITE, Failpoint.COUNTED)
        ),
    ],
)
def test_an_http_sink_delivers_each_row_and_marks_repeats_with_keys_after_a_crash(project, point, repeats):
    with running_receiver() as server:
        server.answer = lambda _request, number: CUT_OFF if number == 1 else 200
        options = {"url": server.url, "rowsPerRequest": 2, "concurrency": 1}
        pipeline = project(SOURCE + sink("http", **options) + FLOW).given("source", FIRST, SECOND)

        die_and_restart(pipeline, point, skip=1)

        assert ids(server.taken) == IDS
        assert len(server.requests) == 4 + 1 + repeats
    assert pipeline.project.events().flow_totals()["deliver"].rows_written == 8


def test_file_sinks_of_every_format_have_each_row_once_when_an_update_crashes(project, headrace_session, tmp_path):
    kinds = ["json", "csv", "parquet", "orc", "avro", "text", "xml"]
    options = {kind: {"path": str(tmp_path / kind)} for kind in kinds}
    options["xml"]["writer.rowTag"] = "ROW"
    sinks = "".join(sink(kind, **options[kind]).replace('"out"', repr(kind)) for kind in kinds)
    flow = FLOW.replace('"out"', repr(kinds)).replace("stream()", 'stream().selectExpr("CAST(id AS STRING) AS id")')
    pipeline = project(SOURCE + sinks + flow, connectors=["avro"]).given("source", FIRST, SECOND)

    # Each batch has two files in each of them: the update dies within the second batch, which some of them have then.
    die_and_restart(pipeline, Failpoint.BEFORE_PUBLISH, skip=2 * len(kinds) + 3)

    reader = headrace_session.read.option("rowTag", "ROW")
    found = {kind: reader.format(kind).load(str(tmp_path / kind)).collect() for kind in kinds}
    assert {kind: sorted(int(row[0]) for row in rows) for kind, rows in found.items()} == dict.fromkeys(kinds, IDS)
    for kind in kinds:
        assert_that_the_second_batch_is_noted_alone(tmp_path / kind)
    assert pipeline.project.events().flow_totals()["deliver"].rows_written == 8
