"""A project with its storage on a real HDFS makes the same tables as on a disk, and writers race for its files."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.command_line import in_own_process
from tests.e2e.shop_project import TABLES, add_orders, make_shop, output, rows
from tests.warm_process import warm_process

from headrace.autoloader.discovery import Clock
from headrace.autoloader.evolution import rows_of
from headrace.autoloader.preparing import Place, prepare
from headrace.autoloader.stream import FileStream
from headrace.project.lease import Lease
from headrace.project.lease_holders import LeaseTiming, liveness
from headrace.stores.delta_tables import open_delta
from headrace.stores.paths import storage_path

pytestmark = [
    pytest.mark.e2e,
    # Updates in JVMs of their own, and a NameNode.
    pytest.mark.timeout(900),
    pytest.mark.long(
        guard=(
            "tests/unit/stores/test_hdfs_store.py::test_of_several_writers_of_a_new_file_one_wins",
            "tests/unit/stores/test_hdfs_store.py::test_of_several_writers_that_saw_one_content_one_replaces_it",
            "tests/unit/stores/test_s3.py::test_one_process_holds_the_lease",
        )
    ),
]
COMMITS = 8
WRITER = """\
import sys
from concurrent.futures import ThreadPoolExecutor

from headrace import spark_session

path, commits = sys.argv[1], int(sys.argv[2])
spark = spark_session()


def write(writer):
    for number in range(commits):
        one = spark.range(number, number + 1, 1, 1).selectExpr("id", f"'{writer}' AS writer")
        one.write.format("delta").mode("append").save(path)


with ThreadPoolExecutor(2) as threads:
    list(threads.map(write, ("one", "two")))
"""


def test_tables_on_hdfs_equal_those_on_a_disk_and_verbs_answer(tmp_path, hdfs):
    disk, on_hdfs = make_shop(tmp_path / "disk", "storage"), make_shop(tmp_path / "hdfs", f"{hdfs}/lake/shop")
    with warm_process("hdfs", tmp_path) as process:
        warm = process.run
        for project in (disk, on_hdfs):
            output(warm, project, "run")
            add_orders(project, 100)
            output(warm, project, "run")

        assert rows(warm, on_hdfs) == rows(warm, disk)
        again = json.loads(output(warm, on_hdfs, "--output", "json", "run"))
        assert {flow["flow"]: flow["rows_written"] for flow in again["flows"]} == dict.fromkeys(TABLES, 0)
    # These start no JVM.
    assert json.loads(output(in_own_process, on_hdfs, "--output", "json", "status"))["state"] == "COMPLETED"
    for words in (["events"], ["checkpoints", "list"], ["checkpoints", "verify"], ["quarantine", "list"]):
        output(in_own_process, on_hdfs, *words)
    # Nothing of the storage is on this disk.
    assert {path.name for path in on_hdfs.iterdir()} == {".headrace", "pipeline.yml", "source", "transformations"}


def test_of_all_commits_by_spark_and_delta_rs_none_is_lost(tmp_path, hdfs):
    path = f"{hdfs}/race/table"
    schema = pa.schema({"id": pa.int64(), "writer": pa.string()})
    write_deltalake(path, schema.empty_table())
    (tmp_path / "writer.py").write_text(WRITER, encoding="utf-8")
    driver = subprocess.Popen([sys.executable, "writer.py", path, str(COMMITS)], cwd=tmp_path)
    written = 0
    while driver.poll() is None or written < COMMITS:
        rows_of_one = pa.table({"id": [written], "writer": ["three"]}, schema)
        write_deltalake(path, rows_of_one, mode="append")
        written += 1

    assert driver.wait() == 0
    table = open_delta(path)
    assert table.version() == 2 * COMMITS + written
    counts = {"one": COMMITS, "two": COMMITS, "three": written}
    assert sorted((row["writer"], row["id"]) for row in table.to_pyarrow_table().to_pylist()) == sorted(
        (name, number) for name, count in counts.items() for number in range(count)
    )


def test_the_name_node_decides_between_writers(hdfs):
    store = storage_path(f"{hdfs}/decides").store
    with ThreadPoolExecutor(4) as threads:
        created = list(threads.map(lambda number: store.put_if_absent("decides/a", b"%d" % number), range(4)))
        tag = store.put_if_absent("decides/b", b"old", replaceable=True)
        replaced = list(threads.map(lambda number: store.put_if_tag("decides/b", b"%d" % number, tag), range(4)))

    assert [sum(map(bool, tags)) for tags in (created, replaced)] == [1, 1]
    assert store.get("decides/b")[0] == b"%d" % [bool(tag) for tag in replaced].index(True)


def test_one_process_holds_the_lease_until_the_name_nodes_clock_says_that_it_is_dead(hdfs):
    file = storage_path(f"{hdfs}/leases/lease.json")
    timing = LeaseTiming(renew_every_s=60.0, expires_after_s=60.0)
    with Lease(file, "here", lambda: 1000.0, timing=timing) as held:
        held.check()
        # Its own time says that it was renewed years ago.
        found = [liveness(file, "there", lambda: 4e9, timing=LeaseTiming(1.0, limit)) for limit in (60.0, 0.0)]

    assert [one.is_held for one in found] == [True, False]
    assert not liveness(file, "there", lambda: 1000.0).is_held


def test_auto_loader_reads_each_file_of_hdfs_once(tmp_path, hdfs):
    files = storage_path(f"{hdfs}/landing").store
    files.put("landing/in/day=2026-01-01/a b.json", b'{"id": 1}\n{"id": 2}\n')
    files.put("landing/in/_hidden/c.json", b'{"id": 9}\n')
    given = {"cloudFiles.format": "json", "cloudFiles.inferColumnTypes": "true"}
    place = Place(tmp_path / "ledgers", tmp_path / "place", time.time_ns())
    source = prepare(given, f"{hdfs}/landing/in", None, place, metadata=True)
    # A minute ahead, so that each file there is complete.
    stream = FileStream(source, Clock(lambda: time.time_ns() + 60_000_000_000, time.sleep))
    found, end = [], stream.initial()
    for name in ("day=2026-01-02/d.json", "e.json"):
        start, end = end, stream.latest(end, everything=False)
        work = stream.work(start, end)
        found += [row for one in work for batch in rows_of(source, one) for row in batch.to_pylist()]
        files.put(f"landing/in/{name}", b'{"id": 3}\n')
        stream.end_at_what_is_there()

    assert [(row["id"], str(row["day"])) for row in found] == [(1, "2026-01-01"), (2, "2026-01-01"), (3, "2026-01-02")]
    assert found[0]["_metadata"]["file_path"] == f"{hdfs}/landing/in/day=2026-01-01/a%20b.json"
