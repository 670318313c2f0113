"""A project with its storage on S3 makes the same tables as on a disk, and its verbs answer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time

import pytest
from tests.command_line import PROGRAM, in_own_process
from tests.e2e.shop_project import TABLES, add_orders, make_shop, output, rows
from tests.servers.faulty_proxy import Fault, running_proxy
from tests.warm_process import warm_process

from headrace.stores.delta_tables import open_delta
from headrace.stores.paths import storage_path

pytestmark = [
    pytest.mark.e2e,
    # Updates in JVMs of their own.
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


@pytest.fixture
def projects(tmp_path, lake):
    """The same project twice: on a disk and on S3."""
    return [make_shop(tmp_path / name, storage) for name, storage in (("disk", "storage"), ("object", f"{lake}/shop"))]


@pytest.fixture
def warm(lake, tmp_path):
    """Runs commands in one JVM that reaches the bucket."""
    with warm_process("s3", tmp_path) as process:
        yield process.run


def test_tables_on_s3_equal_those_on_a_disk_and_verbs_answer(projects, warm):
    disk, on_s3 = projects
    # As its user starts them; what follows shares a JVM.
    output(in_own_process, on_s3, "run")
    output(warm, disk, "run")
    for project in projects:
        add_orders(project, 100)
        output(warm, project, "run")

    assert rows(warm, on_s3) == rows(warm, disk)
    # Nothing new is not computed again, and no verb needs a file of the other machine.
    again = json.loads(output(warm, on_s3, "--output", "json", "run"))
    assert {flow["flow"]: flow["rows_written"] for flow in again["flows"]} == dict.fromkeys(TABLES, 0)
    assert json.loads(output(in_own_process, on_s3, "--output", "json", "status"))["state"] == "COMPLETED"
    events = "SELECT DISTINCT state FROM event_log_updates UNION ALL SELECT status FROM system.streaming.queries"
    assert json.loads(output(in_own_process, on_s3, "--output", "json", "sql", events))
    for words in (["events"], ["checkpoints", "list"], ["checkpoints", "verify"], ["metrics"]):
        output(in_own_process, on_s3, *words)
    # Nothing of the storage is on this disk.
    assert {path.name for path in on_s3.iterdir()} == {".headrace", "pipeline.yml", "source", "transformations"}
    assert not [path for path in (on_s3 / ".headrace").rglob("*") if path.name in ("_delta_log", "flow.json")]


def test_after_a_restore_an_update_on_s3_gives_the_rows_that_running_on_has_given(projects, warm):
    _, on_s3 = projects
    output(warm, on_s3, "run")
    output(warm, on_s3, "savepoint", "create", "calm")
    then = json.loads(output(warm, on_s3, "--output", "json", "savepoint", "show", "calm"))
    add_orders(on_s3, 100)
    output(warm, on_s3, "run")
    after = rows(warm, on_s3)

    assert output(warm, on_s3, "savepoint", "verify", "calm") == "the savepoint is whole and can be restored\n"
    output(warm, on_s3, "savepoint", "restore", "calm")
    output(warm, on_s3, "run")

    assert rows(warm, on_s3) == after
    # A bucket has no links: the table keeps the files.
    assert {table["pinned"] for table in then["tables"]} == {False}


def test_a_stage_on_s3_gives_the_rows_of_a_full_refresh_on_a_disk(projects, warm):
    disk, on_s3 = projects
    for project in projects:
        output(warm, project, "run")
        file = project / "transformations" / "shop.py"
        file.write_text(file.read_text().replace("amount > 0", "amount > 2").replace("amount < 6", "amount < 5"))

    output(warm, disk, "run", "--full-refresh-all", "--accept-data-loss")
    output(warm, on_s3, "stage", "create", "orders+", "--accept-data-loss")
    compared = warm(on_s3, "--output", "json", "stage", "compare", "orders", "--key", "id")
    assert compared.returncode == 1
    only_first = {one["table"]: one["rows"]["only_first"] for one in json.loads(compared.stdout)}
    assert only_first["orders"] == 2
    output(warm, on_s3, "stage", "swap", "orders")

    for project in projects:
        add_orders(project, 100)
        output(warm, project, "run")
    assert rows(warm, on_s3) == rows(warm, disk)
    assert json.loads(output(warm, on_s3, "--output", "json", "stage", "list")) == []


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
    output(in_own_process, on_s3, "run")
    assert json.loads(output(in_own_process, on_s3, "--output", "json", "status"))["state"] == "COMPLETED"
    # The amounts of ten orders, without the two that are not positive.
    assert (
        sum(row["total"] for row in open_delta(f"{lake}/shop/tables/default/totals").to_pyarrow_table().to_pylist())
        == 36
    )


def test_a_network_that_loses_answers_loses_no_rows_and_repeats_none(projects, s3, tmp_path, monkeypatch):
    disk, on_s3 = projects
    with running_proxy(s3.url) as network:
        monkeypatch.setenv("AWS_ENDPOINT_URL", network.url)
        for written in (r"_delta_log/\d{20}\.json", r"/offsets/\d+$", r"/commits/\d+$", "flow.json", r"\.parquet"):
            for fault in Fault:
                network.fail(fault, "PUT", written, times=2)
        for fault in Fault:
            network.fail(fault, "GET", "shop", times=5)

        with warm_process("s3", tmp_path) as process:
            output(process.run, disk, "run")
            output(process.run, on_s3, "run")
        assert set(network.injected()) == set(Fault)

    monkeypatch.setenv("AWS_ENDPOINT_URL", s3.url)
    with warm_process("s3", tmp_path) as process:
        assert rows(process.run, on_s3) == rows(process.run, disk)
