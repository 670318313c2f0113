"""Auto Loader with its ledger and its schemas on S3: a killed update, new fields, and files on a disk and on S3."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest
from tests.command_line import PROGRAM, in_own_process
from tests.servers.s3 import ACCESS_KEY, REGION, SECRET_KEY

from headrace.stores.connection import StoreConnection
from headrace.stores.connections import add_connection
from headrace.stores.delta_tables import open_delta
from headrace.stores.paths import remove_tree, storage_path

pytestmark = [
    pytest.mark.e2e,
    # Three updates, each in a JVM of its own.
    pytest.mark.timeout(1800),
    pytest.mark.long(
        guard=(
            "tests/unit/autoloader/test_object_ledgers.py::test_a_lost_or_restored_segment_stops_the_stream_on_each_machine",
            "tests/unit/autoloader/test_object_ledgers.py::test_a_ledger_of_segments_equals_one_on_a_disk",
        )
    ),
]
SETTINGS = """\
name: shop
storage: {storage}
stores:
  {lake}:
    endpoint: {endpoint}
    region: us-east-1
    access_key: ${{secret:lake/access_key}}
    secret_key: ${{secret:lake/secret_key}}
"""
CODE = """\
from headrace import pipelines as dp


def files(path):
    reader = spark.readStream.format("cloudFiles").option("cloudFiles.format", "json")
    return reader.option("cloudFiles.maxFilesPerTrigger", 1).load(path)


@dp.table
def from_disk():
    return files("{landing}")


@dp.table
def from_s3():
    return files("{lake}/landing")
"""
TABLES = ("from_disk", "from_s3")


@pytest.fixture
def project(tmp_path, lake, s3, monkeypatch):
    """A project whose settings alone say how the bucket is reached."""
    folder = tmp_path / "shop"
    for name in ("transformations", "landing"):
        (folder / name).mkdir(parents=True)
    add_connection(lake, lambda: StoreConnection(s3.url, REGION, ACCESS_KEY, SECRET_KEY))
    lake = lake.replace("s3a:", "s3:")
    settings = SETTINGS.format(storage=f"{lake}/shop", lake=lake, endpoint=s3.url)
    (folder / "pipeline.yml").write_text(settings, encoding="utf-8")
    code = CODE.format(landing=folder / "landing", lake=lake)
    (folder / "transformations" / "shop.py").write_text(code, encoding="utf-8")
    for name in s3.environ:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HEADRACE_SECRET_LAKE_ACCESS_KEY", ACCESS_KEY)
    monkeypatch.setenv("HEADRACE_SECRET_LAKE_SECRET_KEY", SECRET_KEY)
    return folder


def land(project, lake, name, **record):
    """A file of one record that was written a while ago, on the disk and on S3."""
    file = project / "landing" / name
    file.write_text(json.dumps(record) + "\n", encoding="utf-8")
    os.utime(file, (time.time() - 60,) * 2)
    storage_path(f"{lake}/landing/{name}").write_bytes(file.read_bytes())


def run(project, *words):
    done = in_own_process(project, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ids(lake, table):
    rows = open_delta(f"{lake}/shop/tables/default/{table}").to_pyarrow_table().to_pylist()
    return sorted(int(row["id"]) for row in rows)


def kill_after_a_batch(project, checkpoints):
    """Start an update and kill it once a batch of each flow is planned and one is committed."""
    process = subprocess.Popen([PROGRAM, "run"], cwd=project, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not all((one / "offsets" / "1").exists() for one in checkpoints):
        assert process.poll() is None
        time.sleep(0.1)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def test_each_file_is_read_once_when_an_update_is_killed_and_the_cache_is_lost(project, lake):
    for number in range(3):
        land(project, lake, f"{number}.json", id=number)
    checkpoints = [storage_path(f"{lake}/shop/checkpoints/default/{name}/{name}/0") for name in TABLES]

    kill_after_a_batch(project, checkpoints)
    # Another machine has no cache.
    remove_tree(project / ".headrace")
    run(project, "run")
    land(project, lake, "new.json", id=3, note="a new field")
    run(project, "run")

    assert [ids(lake, table) for table in TABLES] == [list(range(4))] * 2
    for table in TABLES:
        found = json.loads(run(project, "--output", "json", "files", table))
        assert [row["ingestion_state"] for row in found] == ["INGESTED"] * 4
        assert "note" in open_delta(f"{lake}/shop/tables/default/{table}").to_pyarrow_table().column_names
