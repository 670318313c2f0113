"""Spark's own sources in pipelines: rate, rate-micro-batch, plain files, sockets."""

from __future__ import annotations

import socketserver
import threading
import time

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.model.outcome import UpdateState

pytestmark = pytest.mark.spark


def test_rate_sources_produce_numbers_without_gaps_across_updates(project):
    pipeline = project(
        """
        @dp.table
        def by_clock():
            return spark.readStream.format("rate").option("rowsPerSecond", 20).load()

        @dp.table
        def by_batch():
            return spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 7).load()
        """
    )

    deadline = time.monotonic() + 120
    pipeline.run()
    result = pipeline.run()
    while len(result.rows("by_clock")) < 20:
        assert time.monotonic() < deadline, result.outcome.error
        result = pipeline.run()

    clock = sorted(row["value"] for row in result.rows("by_clock"))
    assert clock == list(range(len(clock)))
    batch = sorted(row["value"] for row in result.rows("by_batch"))
    assert batch == list(range(len(batch)))
    assert len(batch) % 7 == 0
    assert len(batch) >= 14


READ_BY_SPARK = {
    "json": 'schema("id INT").json("{folder}/json")',
    "csv": 'format("csv").schema("id INT").load("{folder}/csv")',
    "parquet": 'schema("id INT").parquet("{folder}/parquet")',
    "text": 'text("{folder}/text").selectExpr("CAST(value AS INT) AS id")',
}


@pytest.mark.parametrize(
    "formats", [("json", "parquet"), pytest.param(("csv", "text"), marks=pytest.mark.long(guard="its other cases"))]
)
def test_spark_file_sources_read_each_file_once(project, tmp_path, formats):
    def land(number):
        for name in formats:
            file = tmp_path / name / f"{number}.{name}"
            if name == "parquet":
                pq.write_table(pa.table({"id": pa.array([number], pa.int32())}), file)
            else:
                file.write_text(f'{{"id": {number}}}\n' if name == "json" else f"{number}\n")

    for name in formats:
        (tmp_path / name).mkdir()
    pipeline = project(
        "".join(
            f"""
    @dp.table
    def from_{name}():
        return spark.readStream.{READ_BY_SPARK[name].format(folder=tmp_path)}
    """
            for name in formats
        )
    )
    land(1)
    pipeline.run()
    land(2)

    result = pipeline.run()

    found = {name: [row["id"] for row in result.rows(f"from_{name}")] for name in formats}
    assert found == {name: [1, 2] for name in formats}


@pytest.fixture
def lines():
    """A server that sends three lines to whoever connects, and then waits."""
    release = threading.Event()

    class Handler(socketserver.BaseRequestHandler):
        def handle(self):
            self.request.sendall(b"one\ntwo\nthree\n")
            release.wait(60)

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_address[1]
        release.set()
        server.shutdown()


def test_a_socket_is_read_in_a_continuous_update_and_every_update_warns_about_it(project, lines):
    text = f"""
        @dp.table(schema="value STRING", spark_conf={{"pipelines.trigger.interval": "100 ms"}})
        def said():
            return spark.readStream.format("socket").option("host", "127.0.0.1").option("port", {lines}).load()
        """
    pipeline, other = project(text), project(text)

    def warned(of, update_id):
        said = of.project.events().warnings(update_id)
        return [warning.message for warning in said if warning.code == "FLOW.FORGETFUL_SOURCE"]

    triggered = other.run()
    with pipeline.continuing() as update:
        update.wait_until(lambda: len(pipeline.rows("said")) == 3)

    assert (triggered.state, triggered.written) == (UpdateState.COMPLETED, 0)
    assert update.result.state is UpdateState.COMPLETED
    assert sorted(row["value"] for row in pipeline.rows("said")) == ["one", "three", "two"]
    (at_once,), (going_on,) = (
        warned(other, triggered.outcome.update_id),
        warned(pipeline, update.result.outcome.update_id),
    )
    assert f"socket 127.0.0.1:{lines}, which cannot be read again" in at_once
    assert ("before it reads a line" in at_once, "before it reads a line" in going_on) == (True, False)


def test_the_graph_names_the_files_that_a_materialized_view_reads(project, tmp_path):
    (tmp_path / "prices.csv").write_text("id\n1\n")

    graph = project(
        f"""
        @dp.materialized_view
        def prices():
            return spark.read.csv("{tmp_path}/prices.csv", header=True)
        """
    ).project.graph()

    assert graph.describe().splitlines() == ["prices  (materialized view)", f"  <- csv {tmp_path}/prices.csv"]
