"""What makes an update compute something again that looks unchanged, and what it does when something was lost."""

from __future__ import annotations

from shutil import rmtree

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.testing import Crashed, Failpoint

pytestmark = pytest.mark.spark

VIEWS = """
    @dp.temporary_view
    @dp.expect_or_drop("positive", "id > 0")
    def below():
        return spark.read.table("source")

    @dp.materialized_view(schema="id INT")
    def source():
        return spark.createDataFrame([(1,), (2,)], "id INT")

    @dp.temporary_view
    def outside():
        return spark.read.text(spark.conf.get("landing"))

    @dp.materialized_view
    def reader():
        return spark.read.table("below")

    @dp.materialized_view
    def reads_outside():
        return spark.read.table("outside")
    """


def rows(*numbers):
    return [{"id": number} for number in numbers]


def test_a_changed_temporary_view_recomputes_its_readers(project, tmp_path):
    landing = tmp_path / "landing"
    landing.mkdir()
    (landing / "a.txt").write_text("a\n")
    pipeline = project(VIEWS, configuration={"landing": str(landing)}).given("source", rows(1, 2))
    pipeline.run()
    before = {step.flow.name: step.reason for step in pipeline.plan().flows}

    file = pipeline.folder / "transformations" / "project.py"
    file.write_text(file.read_text().replace("id > 0", "id > 1"))
    changed = pipeline.run("reader")

    assert before["reads_outside"].startswith("full recompute")
    assert before["reader"] == "inputs, code and settings are unchanged"
    assert changed.rows("reader") == rows(2)


OUTSIDE = """
    @dp.temporary_view
    def read():
        return spark.read.format("delta").load(spark.conf.get("place"))

    @dp.materialized_view
    def newest():
        return spark.read.table("read")

    @dp.materialized_view
    def first():
        return spark.read.format("delta").option("versionAsOf", 0).load(spark.conf.get("place"))
    """


def test_a_view_over_an_external_delta_table_is_recomputed_when_the_table_changes(project, tmp_path):
    place = str(tmp_path / "a b")
    ids = pa.table({"id": pa.array([1, 2], pa.int32()), "name": ["one", "two"]})
    write_deltalake(place, ids)
    pipeline = project(OUTSIDE, configuration={"place": place})

    def reasons():
        return {step.flow.name: step.reason for step in pipeline.plan().flows}

    pipeline.run()
    same = reasons()
    write_deltalake(place, ids, mode="append")
    more = reasons()
    rows_read = len(pipeline.run("newest").rows("newest"))
    rmtree(place)
    write_deltalake(place, ids)

    assert same["newest"] == "inputs, code and settings are unchanged"
    assert same["first"].startswith("full recompute")
    assert more["newest"] == f'"{place}" changed'
    assert rows_read == 4
    assert reasons()["newest"] == f'"{place}" was replaced'


STREAM = """
    @dp.table(schema="id INT")
    def source():
        return spark.readStream.schema("id INT").json("unused")

    @dp.table
    def target():
        return spark.readStream.table("source")
    """


@pytest.fixture(scope="module")
def stream_after_one_update(prepared):
    def set_up(shared_project):
        pipeline = shared_project(STREAM).given("source", rows(1, 2))
        assert pipeline.run("target").rows("target") == rows(1, 2)
        return pipeline

    return prepared(set_up)


@pytest.fixture
def stream(stream_after_one_update):
    """A stream that has read two rows."""
    return stream_after_one_update.restored()


def total(pipeline):
    return pipeline.project.events().flow_totals()["target"].rows_written


def delete(pipeline, *folders):
    for folder in folders:
        rmtree(pipeline.settings.storage + "/" + folder)


def test_a_stream_with_a_lost_checkpoint_does_not_append_to_a_table_with_rows(stream):
    delete(stream, "checkpoints")

    assert stream.run("target").error == "FLOW.CHECKPOINT_LOST"


def test_a_stream_without_table_and_checkpoint_starts_a_new_epoch(stream):
    delete(stream, "checkpoints", f"tables/{stream.settings.schema}/target")
    again = stream.run("target")

    assert again.rows("target") == rows(1, 2)
    assert again.counts("target").rows_written == 2
    assert total(stream) == 4


@pytest.fixture
def counted_at_the_end(monkeypatch):
    """Let no rows be counted while a stream still runs."""
    monkeypatch.setattr("headrace.spark.monitoring.query_monitor._POLL_INTERVAL_S", 300.0)


@pytest.mark.long(
    guard="tests/spark/test_exactly_once.py::test_a_native_stream_is_counted_once_when_an_update_crashes_after_it"
)
@pytest.mark.usefixtures("counted_at_the_end")
def test_the_next_update_counts_the_rows_of_an_update_that_crashed_after_its_last_batch(stream):
    with pytest.raises(Crashed):
        stream.given("source", rows(3)).crash_at(Failpoint.WRITTEN).run("target")
    stream.restart().run("target")

    assert total(stream) == 3


FAILS_LATER = """
    @dp.table(schema="id INT")
    def source():
        return spark.readStream.schema("id INT").json("unused")

    @dp.table
    def target():
        stream = spark.readStream.option("maxFilesPerTrigger", 1).table("source")
        return stream.selectExpr("IF(id = 3, raise_error('three'), id) AS id")
    """


@pytest.mark.usefixtures("counted_at_the_end")
def test_rows_committed_before_a_failure_are_counted(project):
    pipeline = project(FAILS_LATER).given("source", rows(1, 2), rows(3))

    result = pipeline.run("target")

    assert result.counts("target").rows_written == len(pipeline.rows("target")) == 2


@pytest.mark.long(
    guard=(
        "tests/unit/storage/test_change_detection.py::test_a_view_is_recomputed_when_its_table_or_input_is_replaced",
        "tests/spark/test_exactly_once.py::test_a_batch_flow_writes_its_rows_once_when_an_update_crashes_within_it",
    )
)
def test_a_view_whose_table_was_deleted_is_recomputed_after_a_crashed_update(project):
    pipeline = project("""
        @dp.materialized_view(schema="id INT")
        def source():
            return spark.read.schema("id INT").json("unused")

        @dp.materialized_view
        @dp.expect_or_quarantine("positive", "id > 0")
        def view():
            return spark.read.table("source")
        """).given("source", rows(1, -1))
    pipeline.run("view")
    delete(pipeline, f"tables/{pipeline.settings.schema}/view")

    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.QUARANTINED).run("view")

    assert pipeline.restart().run("view").rows("view") == rows(1)
