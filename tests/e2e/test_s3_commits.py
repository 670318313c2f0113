"""Two Spark drivers that write one table in a bucket, over a network that loses answers: each commit counts once."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.servers.faulty_proxy import Fault, running_proxy
from tests.tiers import ASKED

from headrace.stores.connection import StoreConnection
from headrace.stores.connections import add_connection, delta_options
from headrace.stores.delta_tables import open_delta

# Of each driver; a campaign takes a hundred.
COMMITS = int(ASKED or 20)
INJECTED = COMMITS // 10
WRITER = """\
import sys

from headrace import spark_session

path, writer, commits = sys.argv[1], sys.argv[2], int(sys.argv[3])
spark = spark_session(connectors=["s3"])
for number in range(commits):
    one = spark.range(number, number + 1, 1, 1).selectExpr("id", f"'{writer}' AS writer")
    one.write.format("delta").mode("append").save(path)
"""


@pytest.mark.e2e
@pytest.mark.timeout(1800)
@pytest.mark.long(
    guard=(
        "tests/unit/stores/test_s3.py::test_the_store_decides_between_writers",
        "tests/unit/stores/test_faulty_network.py::test_a_conditional_write_is_no_rival_of_itself",
    )
)
def test_of_all_commits_by_two_drivers_none_is_lost_and_none_counts_twice(tmp_path, s3, lake, monkeypatch):
    # Delta refuses one of two drivers that create a table.
    schema = pa.schema({"id": pa.int64(), "writer": pa.string()})
    write_deltalake(f"{lake}/table", schema.empty_table(), storage_options=delta_options(lake))
    with running_proxy(s3.url) as network:
        monkeypatch.setenv("AWS_ENDPOINT_URL", network.url)
        for fault in (Fault.LOST, Fault.BUSY, Fault.ERROR):
            network.fail(fault, "PUT", r"_delta_log/0{17}\d\d[05]\.json", INJECTED)
        writers = []
        for name in ("one", "two"):
            folder = tmp_path / name
            folder.mkdir()
            (folder / "writer.py").write_text(WRITER, encoding="utf-8")
            words = [sys.executable, "writer.py", f"{lake}/table", name, str(COMMITS)]
            writers.append(subprocess.Popen(words, cwd=folder))
        assert [writer.wait() for writer in writers] == [0, 0]
        injected = network.injected()

    add_connection(lake, lambda: StoreConnection.of_environment(s3.environ))
    table = open_delta(f"{lake}/table")
    rows = table.to_pyarrow_table().to_pylist()
    assert table.version() == 2 * COMMITS
    assert sorted((row["writer"], row["id"]) for row in rows) == [
        (name, number) for name in ("one", "two") for number in range(COMMITS)
    ]
    assert injected[Fault.LOST] == INJECTED
