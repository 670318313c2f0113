"""The verbs on checkpoints, on a real storage and without a JVM."""

from __future__ import annotations

import json
import shutil
import time

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from headrace.cli.main import call
from headrace.project.lease import Lease
from headrace.project.lease_holders import host_name
from headrace.storage.flow_record import FlowRecord, write_record


@pytest.fixture
def storage(tmp_path):
    """The storage of a project with one flow that has run two batches."""
    (tmp_path / "pipeline.yml").write_text("name: shop\n")
    flow = tmp_path / "storage" / "checkpoints" / "default" / "orders" / "orders"
    write_record(flow / "flow.json", FlowRecord(started_at=1.0, flow="orders", dataset="orders", mode="append"))
    for folder in ("offsets", "commits"):
        (flow / "0" / folder).mkdir(parents=True)
    (flow / "0" / "metadata").write_text('{"id": "q"}')
    for batch in (0, 1):
        (flow / "0" / "offsets" / str(batch)).write_text("v1\n{}\n{}")
        (flow / "0" / "commits" / str(batch)).write_text("v1\n{}")
        committed = CommitProperties(app_transactions=[Transaction("q", batch)])
        rows = pa.table({"id": pa.array([batch], pa.int32())})
        table = str(tmp_path / "storage" / "tables" / "default" / "orders")
        write_deltalake(table, rows, mode="append", commit_properties=committed)
    return flow


@pytest.fixture
def headrace(tmp_path, capsys):
    def run(*words):
        code = call(["--project", str(tmp_path), "checkpoints", *words])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def test_list_shows_flows_with_their_newest_batches(storage, headrace):
    code, out, _ = headrace("list")

    assert (code, out.splitlines()[2].split()) == (0, ["orders", "orders", "0", "1", "1", "1", "ok"])


def test_repair_fixes_what_verify_reports(storage, headrace):
    whole = headrace("verify")[:2]
    (storage / "0" / "commits" / "1").write_bytes(b"")
    torn = headrace("--output=json", "verify")
    repaired = headrace("repair", "orders")
    again = headrace("verify")[:2]

    assert whole == again == (0, "1 flow checked, no findings\n")
    assert (torn[0], json.loads(torn[1])[0]["state"]) == (1, "FLOW.CHECKPOINT_TORN")
    assert repaired[0] == 0
    assert repaired[1].endswith("/commits-1\n")


def test_repair_moves_an_unreadable_flow_record_out_of_the_way(storage, headrace):
    (storage / "flow.json").write_text("")

    code, out, _ = headrace("repair", "orders")

    assert (code, out.endswith("/flow.json\n"), (storage / "flow.json").exists()) == (0, True, False)


def test_refused_repair_suggests_the_next_step(storage, headrace):
    for folder in ("offsets", "commits"):
        (storage / "0" / folder / "1").unlink()

    refused, unknown = headrace("repair", "orders"), headrace("repair", "order")

    assert (refused[0], "headrace run --full-refresh orders" in refused[2]) == (2, True)
    assert (unknown[0], 'Did you mean "orders"?' in unknown[2]) == (2, True)


def test_show_has_batches_positions_and_epochs(storage, headrace):
    code, out, _ = headrace("show", "orders")
    document = json.loads(headrace("--output=json", "show", "orders")[1])

    assert (code, [line for line in out.replace(str(storage), "").splitlines() if len(line) > 80]) == (0, [])
    assert "  batches      planned 1, completed 1, in the table 1" in out.splitlines()
    assert (document["query_id"], document["problem"], document["ways_out"]) == ("q", None, [])
    assert [(epoch["epoch"], epoch["state"], epoch["done"]) for epoch in document["epochs"]] == [(0, "current", 1)]


@pytest.mark.parametrize(
    ("damaged", "commands"),
    [
        ("", ["headrace run --refresh orders"]),
        ("commits/1", ["headrace checkpoints repair orders"]),
        (
            "offsets/1",
            ["headrace run --full-refresh orders", "headrace run --reset-checkpoint orders=earliest"],
        ),
    ],
)
def test_show_names_the_ways_out_of_a_problem(storage, headrace, damaged, commands):
    if damaged:
        (storage / "0" / damaged).write_bytes(b"")
    else:
        (storage / "0" / "offsets" / "2").write_text("v1\n{}\n{}")

    _, text, _ = headrace("show", "orders")
    document = json.loads(headrace("--output=json", "show", "orders")[1])

    assert [way["command"] for way in document["ways_out"]] == commands
    assert all(command in text for command in commands)


def test_show_needs_one_flow(storage, headrace):
    other = storage.parent / "late" / "flow.json"
    write_record(other, FlowRecord(started_at=1.0, flow="late", dataset="orders", mode="once"))
    (storage.parent / "orders").rename(storage.parent / "early")
    write_record(storage.parent / "early" / "flow.json", FlowRecord(flow="early", dataset="orders", mode="append"))

    several, one = headrace("show", "orders"), headrace("show", "late")

    assert (several[0], '"early", "late"' in several[2]) == (2, True)
    assert "none: its progress is in its record and its table" in one[1]


@pytest.fixture
def old(storage):
    """The same storage; its flow is in its third epoch, and the batches of the first one are in the table."""
    record = FlowRecord(epoch=2, started_at=1.0, flow="orders", dataset="orders", mode="append")
    write_record(storage / "flow.json", record)
    for epoch in (1, 2):
        shutil.copytree(storage / "0", storage / str(epoch))
    return storage


def test_clean_removes_an_old_epoch_and_keeps_its_positions(old, headrace):
    dry = headrace("clean", "orders", "--older-than", "0 s", "--dry-run")
    untouched = (old / "0").exists()
    code, out, _ = headrace("clean", "orders", "--older-than", "0 s")
    document = json.loads(headrace("--output=json", "show", "orders")[1])

    assert (dry[0], dry[1].splitlines()[-1], untouched) == (0, "would remove 5 files, 37 bytes", True)
    assert (code, out.splitlines()[2].split()[:4]) == (0, ["epoch", "0", "orders", "5"])
    assert [(epoch["epoch"], epoch["state"], epoch["planned"]) for epoch in document["epochs"]] == [
        (2, "current", 1),
        (1, "older", 1),
        (0, "removed", 1),
    ]
    assert headrace("clean")[1] == "nothing to remove\n"


def test_clean_keeps_what_was_used_lately(old, headrace):
    _, out, _ = headrace("clean")

    assert out == "kept: epoch 0 of orders: it was used later than the given age\nnothing to remove\n"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["order"], 2, 'Did you mean "orders"?'),
        (["--older-than", "soon"], 2, '--older-than "soon"'),
    ],
)
def test_clean_refuses_what_it_does_not_know(old, headrace, words, code, said):
    found = headrace("clean", *words)

    assert (found[0], said in found[2], (old / "0").exists()) == (code, True, True)


def test_clean_waits_for_no_update(old, headrace, tmp_path):
    with Lease(tmp_path / "storage" / "lease.json", host_name({}), time.time):
        code, _, err = headrace("clean", "--older-than", "0s")

    assert (code, "LEASE.HELD" in err, (old / "0").exists()) == (3, True, True)
