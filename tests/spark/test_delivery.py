"""Functions of foreachBatch, in plain scripts and in pipelines, whose writes happen once."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F

from headrace.delivery import append_once, deliver_or_keep, deliver_to_all, merge_into, retry, upsert
from headrace.errors import PipelineError
from headrace.model.outcome import UpdateState

pytestmark = pytest.mark.spark


class Stream:
    """Batches of rows to a function, through a query whose checkpoint stays."""

    def __init__(self, session, folder, schema):
        self.session = session
        self.folder = folder
        self.schema = schema
        self.count = 0

    def put(self, *rows):
        (self.folder / "landing").mkdir(exist_ok=True)
        file = self.folder / "landing" / f"{self.count:03}.json"
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
        # Spark takes the oldest file first.
        os.utime(file, (1_700_000_000 + self.count, 1_700_000_000 + self.count))
        self.count += 1
        return self

    def run(self, function, *, dies=False):
        """Everything that is there; with *dies* the query fails after the function has done its work."""

        def work(batch, batch_id):
            function(batch, batch_id)
            if dies:
                raise KeyError("died")

        frame = self.session.readStream.schema(self.schema).option("maxFilesPerTrigger", 1)
        frame = frame.json(str(self.folder / "landing"))
        query = frame.writeStream.foreachBatch(work).option("checkpointLocation", str(self.folder / "checkpoint"))
        running = query.trigger(availableNow=True).start()
        try:
            running.awaitTermination()
        except StreamingQueryException:
            if not dies:
                raise
        return self


@pytest.fixture
def stream(headrace_session, tmp_path):
    return Stream(headrace_session, tmp_path, "id INT, name STRING, at INT, gone BOOLEAN")


def rows(path):
    return sorted(DeltaTable(str(path)).to_pyarrow_table().to_pylist(), key=lambda row: row["id"])


def test_a_batch_is_appended_once_when_the_function_fails_after_the_write(stream, tmp_path):
    table = str(tmp_path / "table")
    stream.put({"id": 1}).put({"id": 2})

    def append(batch, batch_id):
        append_once(batch.select("id"), batch_id, table)

    stream.run(append, dies=True).run(append, dies=True).run(append)

    assert rows(table) == [{"id": 1}, {"id": 2}]


def test_two_named_writes_of_one_batch_are_independent(stream, tmp_path):
    table = str(tmp_path / "table")

    def append(batch, batch_id):
        append_once(batch.select("id"), batch_id, table, name="first")
        append_once(batch.selectExpr("id + 10 AS id"), batch_id, table, name="second")

    stream.put({"id": 1}).run(append, dies=True).run(append)

    assert [row["id"] for row in rows(table)] == [1, 11]


def test_a_query_with_a_new_checkpoint_delivers_its_named_writes_again(stream, tmp_path):
    table = str(tmp_path / "table")

    def append(batch, batch_id):
        append_once(batch.select("id"), batch_id, table, name="first")

    stream.put({"id": 1}).run(append)
    shutil.rmtree(tmp_path / "checkpoint")
    stream.run(append)

    assert [row["id"] for row in rows(table)] == [1, 1]


def test_an_upsert_replaces_older_rows_and_deletes_rows(stream, tmp_path):
    table = str(tmp_path / "table")
    stream.put({"id": 1, "name": "a", "at": 1}, {"id": 2, "name": "b", "at": 1}, {"id": 1, "name": "a2", "at": 2})
    stream.put({"id": 1, "name": "old", "at": 1}, {"id": 2, "at": 3, "gone": True}, {"id": 3, "name": "c", "at": 1})

    def merge(batch, batch_id):
        upsert(batch, batch_id, table, ["id"], sequence_by="at", delete_when="gone")

    stream.run(merge)

    assert [(row["id"], row["name"]) for row in rows(table)] == [(1, "a2"), (3, "c")]


def test_an_upsert_of_a_row_without_a_sequence_replaces_no_row(stream, tmp_path):
    table = str(tmp_path / "table")

    def merge(batch, batch_id):
        upsert(batch.select("id", "name", "at"), batch_id, table, ["id"], sequence_by="at")

    stream.put({"id": 1, "name": "a", "at": 1}, {"id": 2, "name": "b"}).run(merge)
    stream.put({"id": 1, "name": "none"}, {"id": 2, "name": "b2", "at": 1}).run(merge)

    assert [row["name"] for row in rows(table)] == ["a", "b2"]


def test_an_upsert_reports_a_column_that_the_table_lacks(stream, tmp_path, headrace_session):
    table = str(tmp_path / "table")
    headrace_session.createDataFrame([(1,)], "id INT").write.format("delta").save(table)

    def merge(batch, batch_id):
        upsert(batch.select("id", "name", "gone"), batch_id, table, ["id"], delete_when="gone")

    with pytest.raises(StreamingQueryException, match=r'lacks columns.*"name"'):
        stream.put({"id": 1, "name": "a"}).run(merge)


def test_a_batch_is_merged_once_when_the_function_fails_after_the_write(stream, tmp_path, headrace_session):
    table = str(tmp_path / "table")
    headrace_session.createDataFrame([(1, 10)], "id INT, at INT").write.format("delta").save(table)
    stream.put({"id": 1, "at": 1}).put({"id": 2, "at": 5})

    def merge(batch, batch_id):
        current = batch.sparkSession.read.format("delta").load(table).withColumnRenamed("at", "before")
        sums = batch.join(current, "id", "left").select(
            "id", (F.coalesce("before", F.lit(0)) + F.col("at")).alias("at")
        )
        merge_into(sums, batch_id, table, "target.id = source.id")

    stream.run(merge, dies=True).run(merge, dies=True).run(merge)

    assert [(row["id"], row["at"]) for row in rows(table)] == [(1, 11), (2, 5)]


def test_a_retry_delivers_a_batch_only_to_destinations_that_have_not_received_it(stream, tmp_path):
    calls = []

    def deliver(batch, batch_id, *, fails):
        def second(_rows, number):
            calls.append(("second", number))
            if fails:
                raise OSError("not now")

        places = {"second": second, "first": lambda _rows, number: calls.append(("first", number))}
        deliver_to_all(batch, batch_id, places, tmp_path / "notes")

    stream.put({"id": 1})
    with pytest.raises(StreamingQueryException):
        stream.run(lambda batch, number: deliver(batch, number, fails=True))
    stream.run(lambda batch, number: deliver(batch, number, fails=False))

    assert calls == [("second", 0), ("first", 0), ("second", 0)]


class Shop:
    """A place that is down as long as a test wants, and what it was given."""

    def __init__(self):
        self.error = None
        self.calls = 0
        self.taken = []

    def take(self, batch, batch_id):
        self.calls += 1
        if self.error is not None:
            raise self.error
        self.taken.append((batch_id, [row["id"] for row in batch.collect()]))


def test_batches_wait_for_an_unavailable_destination_and_arrive_in_order(stream, tmp_path, caplog):
    shop = Shop()

    def deliver(batch, batch_id):
        deliver_or_keep(batch, batch_id, shop.take, tmp_path / "waiting", down=ConnectionError)

    shop.error = ConnectionError("https://key@shop")
    stream.put({"id": 1}).put({"id": 2}).run(deliver).run(deliver, dies=True)
    shop.error = None
    stream.put({"id": 3}).run(deliver, dies=True).run(deliver)

    assert shop.taken == [(0, [1]), (1, [2]), (2, [3]), (2, [3])]
    assert "SINK.DOWN" in caplog.text
    assert "key@shop" not in caplog.text


def test_an_error_caused_by_a_batch_is_raised_and_the_batch_does_not_wait(headrace_session, tmp_path):
    shop = Shop()
    shop.error = ValueError("no such id")

    with pytest.raises(ValueError, match="no such id"):
        deliver_or_keep(headrace_session.range(1), 0, shop.take, tmp_path / "waiting", down=OSError, name="shop")

    assert not (tmp_path / "waiting").exists()


def test_a_transient_error_is_retried_and_another_error_is_raised():
    shop = Shop()
    shop.error = TimeoutError("slow")

    with pytest.raises(TimeoutError):
        retry(lambda: shop.take(None, 0), attempts=2)
    with pytest.raises(TimeoutError):
        retry(lambda: shop.take(None, 0), on=KeyError)

    assert shop.calls == 3


def test_append_once_outside_a_query_requires_a_name(headrace_session, tmp_path):
    frame = headrace_session.range(1)

    with pytest.raises(PipelineError) as caught:
        append_once(frame, 0, str(tmp_path / "table"))
    append_once(frame, 0, str(tmp_path / "table"), name="mine")
    append_once(frame, 0, str(tmp_path / "table"), name="mine")

    assert caught.value.code == "DELIVERY.NO_QUERY"
    assert rows(tmp_path / "table") == [{"id": 0}]


@pytest.mark.long(
    guard=(
        "tests/spark/test_delivery.py::test_append_once_writes_rows_once_in_a_foreach_batch_sink",
        "tests/spark/test_delivery.py::test_an_upsert_replaces_older_rows_and_deletes_rows",
        "tests/spark/test_sinks.py::test_a_once_flow_delivers_existing_rows_once",
    )
)
def test_upsert_writes_existing_rows_once_in_a_foreach_batch_sink(project, tmp_path):
    pipeline = project(
        f"""
        from headrace.delivery import upsert

        @dp.table(schema="id INT, at INT")
        def source():
            return spark.readStream.schema("id INT, at INT").json("unused")

        @dp.foreach_batch_sink
        def out(df, batch_id):
            upsert(df, batch_id, {str(tmp_path / "table")!r}, ["id"], sequence_by="at")

        @dp.append_flow(target="out", once=True)
        def deliver():
            return spark.read.table("source")
        """
    ).given("source", [{"id": 1, "at": 1}, {"id": 1, "at": 2}])

    result = pipeline.run()

    assert rows(tmp_path / "table") == [{"id": 1, "at": 2}]
    assert result.flow("deliver").counts.rows_written == 2


def test_append_once_writes_rows_once_in_a_foreach_batch_sink(project, tmp_path):
    pipeline = project(
        f"""
        import os
        from headrace.delivery import append_once

        @dp.table(schema="id INT")
        def source():
            return spark.readStream.schema("id INT").json("unused")

        @dp.foreach_batch_sink
        def out(df, batch_id):
            append_once(df, batch_id, {str(tmp_path / "table")!r})
            if not os.path.exists({str(tmp_path / "mended")!r}):
                raise ValueError("after the write")

        @dp.append_flow(target="out")
        def deliver():
            return spark.readStream.table("source")
        """,
        max_flow_retries=0,
    ).given("source", [{"id": 1}])
    pipeline.run()
    Path(tmp_path / "mended").touch()

    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED
    assert rows(tmp_path / "table") == [{"id": 1}]
