"""A project with its storage on S3 makes the same tables as on a disk, and its verbs answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.command_line import PROGRAM, in_own_process
from tests.servers.faulty_proxy import Fault, running_proxy

from headrace.stores.delta_tables import open_delta
from headrace.stores.paths import storage_path

pytestmark = [
    pytest.mark.e2e,
    # Twelve updates, each in a JVM of its own.
    pytest.mark.timeout(1800),
    pytest.mark.long(
        guard=(
            "tests/unit/stores/test_s3.py::test_the_store_decides_between_writers",
            "tests/unit/stores/test_s3.py::test_the_event_log_is_written_and_read",
            "tests/unit/stores/test_s3.py::test_one_process_holds_the_lease",
            "tests/unit/stores/test_faulty_network.py::test_events_are_appended_once",
        )
    ),
]
CODE = """\
from headrace import pipelines as dp
from pyspark.sql import functions as F


@dp.table
@dp.expect_or_drop("positive", "amount > 0")
def orders():
    return spark.readStream.format("delta").load("{source}")


@dp.table
@dp.expect_or_quarantine("small", "amount < 6")
def checked():
    return spark.readStream.table("orders")


@dp.materialized_view
def totals():
    return spark.read.table("orders").groupBy("customer").agg(F.sum("amount").alias("total"))


@dp.table
def counts():
    return spark.readStream.table("orders").groupBy("customer").count()


dp.create_streaming_table("customers")
dp.create_auto_cdc_flow(
    target="customers", source="orders", keys=["customer"], sequence_by="id", stored_as_scd_type=2
)
"""
TABLES = ("orders", "checked", "totals", "counts", "customers")
ALL_ROWS = " UNION ALL ".join(f"SELECT '{name}' AS name, to_json(struct(*)) AS row FROM {name}" for name in TABLES)


def add_orders(project, first):
    rows = {
        "id": list(range(first, first + 10)),
        "customer": [f"c{number % 3}" for number in range(10)],
        "amount": [number - 1 for number in range(10)],
    }
    write_deltalake(project / "source", pa.table(rows), mode="append")


@pytest.fixture
def projects(tmp_path, lake):
    """The same project twice: on a disk and on S3."""
    made = []
    for name, storage in (("disk", "storage"), ("object", f"{lake}/shop")):
        project = tmp_path / name
        (project / "transformations").mkdir(parents=True)
        (project / "pipeline.yml").write_text(f"name: shop\nstorage: {storage}\n", encoding="utf-8")
        code = CODE.format(source=project / "source")
        (project / "transformations" / "shop.py").write_text(code, encoding="utf-8")
        add_orders(project, 0)
        made.append(project)
    return made


def run(project, *words):
    done = in_own_process(project, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(project):
    """All rows of all tables, and how many rows each quarantine has."""
    found = json.loads(run(project, "--output", "json", "sql", "--limit", "1000", f"{ALL_ROWS} ORDER BY name, row"))
    return found, run(project, "quarantine", "list")


def test_tables_on_s3_equal_those_on_a_disk_and_verbs_answer(projects):
    disk, on_s3 = projects
    for first in (0, 100):
        for project in projects:
            if first:
                add_orders(project, first)
            run(project, "run")

    assert rows(on_s3) == rows(disk)
    # Nothing new is not computed again, and no verb needs a file of the other machine.
    again = json.loads(run(on_s3, "--output", "json", "run"))
    assert {flow["flow"]: flow["rows_written"] for flow in again["flows"]} == dict.fromkeys(TABLES, 0)
    assert json.loads(run(on_s3, "--output", "json", "status"))["state"] == "COMPLETED"
    events = "SELECT DISTINCT state FROM event_log_updates UNION ALL SELECT status FROM system.streaming.queries"
    assert json.loads(run(on_s3, "--output", "json", "sql", events))
    for words in (["events"], ["checkpoints", "list"], ["checkpoints", "verify"], ["metrics"]):
        run(on_s3, *words)
    # Nothing of the storage is on this disk.
    assert {path.name for path in on_s3.iterdir()} == {".headrace", "pipeline.yml", "source", "transformations"}
    assert not [path for path in (on_s3 / ".headrace").rglob("*") if path.name in ("_delta_log", "flow.json")]


def test_after_a_restore_an_update_on_s3_gives_the_rows_that_running_on_has_given(projects):
    _, on_s3 = projects
    run(on_s3, "run")
    run(on_s3, "savepoint", "create", "calm")
    then = json.loads(run(on_s3, "--output", "json", "savepoint", "show", "calm"))
    add_orders(on_s3, 100)
    run(on_s3, "run")
    after = rows(on_s3)

    assert run(on_s3, "savepoint", "verify", "calm") == "the savepoint is whole and can be restored\n"
    run(on_s3, "savepoint", "restore", "calm")
    run(on_s3, "run")

    assert rows(on_s3) == after
    # A bucket has no links: the table keeps the files.
    assert {table["pinned"] for table in then["tables"]} == {False}


def test_a_stage_on_s3_gives_the_rows_of_a_full_refresh_on_a_disk(projects):
    refreshed, swapped = (changed(project, way) for project, way in zip(projects, ("refresh", "stage"), strict=True))

    assert swapped == refreshed


# In one process: changes the code and its tables, in one of two ways, reads new rows, and prints all rows.
CHANGED = """
import json, sys
from pathlib import Path
import pyarrow as pa
from deltalake import write_deltalake
from headrace.project.open import Project
from headrace.project.staging.build import StageRequest
from headrace.project.staging.swaps import SwapRequest

folder, way, query = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
Project.open(folder).run()
file = folder / "transformations" / "shop.py"
file.write_text(file.read_text().replace("amount > 0", "amount > 2").replace("amount < 6", "amount < 5"))
project = Project.open(folder)
if way == "stage":
    stages = project.stages
    stages.create(StageRequest(("orders+",), accept_data_loss=True))
    (removed,) = (one.diff.rows.only_first for one in stages.compare("orders", ("id",)) if one.name == "orders")
    assert removed == 2, removed
    stages.swaps.swap(SwapRequest("orders"))
    assert not stages.all()
else:
    project.run(full_refresh_all=True, accept_data_loss=True)
rows = {"id": list(range(100, 110)), "customer": ["c1"] * 10, "amount": list(range(-1, 9))}
write_deltalake(folder / "source", pa.table(rows), mode="append")
project = Project.open(folder)
project.run()
print(json.dumps([[list(row) for row in project.sql(query).rows], str(project.quarantine_list())]))
"""


def changed(project, way):
    call = [sys.executable, "-c", CHANGED, str(project), way, f"{ALL_ROWS} ORDER BY name, row"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_an_update_that_is_killed_on_s3_is_lost_and_the_next_one_repairs_it(projects, lake):
    _, on_s3 = projects
    process = subprocess.Popen([PROGRAM, "run"], cwd=on_s3, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    record = storage_path(f"{lake}/shop/checkpoints/default/orders/orders/flow.json")
    while not record.exists():
        assert process.poll() is None
        time.sleep(0.2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()

    assert json.loads(in_own_process(on_s3, "--output", "json", "status").stdout)["state"] == "LOST"
    run(on_s3, "run")
    assert json.loads(run(on_s3, "--output", "json", "status"))["state"] == "COMPLETED"
    # The amounts of ten orders, without the two that are not positive.
    assert (
        sum(row["total"] for row in open_delta(f"{lake}/shop/tables/default/totals").to_pyarrow_table().to_pylist())
        == 36
    )


def test_a_network_that_loses_answers_loses_no_rows_and_repeats_none(projects, s3, monkeypatch):
    disk, on_s3 = projects
    run(disk, "run")
    with running_proxy(s3.url) as network:
        monkeypatch.setenv("AWS_ENDPOINT_URL", network.url)
        for written in (r"_delta_log/\d{20}\.json", r"/offsets/\d+$", r"/commits/\d+$", "flow.json", r"\.parquet"):
            for fault in Fault:
                network.fail(fault, "PUT", written, times=2)
        for fault in Fault:
            network.fail(fault, "GET", "shop", times=5)

        run(on_s3, "run")
        assert set(network.injected()) == set(Fault)

    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    assert rows(on_s3) == rows(disk)
