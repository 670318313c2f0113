"""The verbs on checkpoints, on a real storage and without a JVM."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from deltalake import CommitProperties, Transaction, write_deltalake

from headrace.cli.main import call
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
