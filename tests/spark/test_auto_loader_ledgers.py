"""Ledgers that are damaged or older than their checkpoints, and files that change later, beside other flows."""

from __future__ import annotations

import json
import os
import sqlite3
from contextlib import closing

import pytest
from tests.recorded_updates import heard

from headrace.events.types import Warned
from headrace.model.outcome import FlowState

pytestmark = pytest.mark.spark

FLOWS = """
    def reads(name):
        @dp.table(name=name)
        def table():
            return (
                spark.readStream.format("cloudFiles")
                .option("cloudFiles.format", "json")
                .schema("id BIGINT")
                .load("{data}/" + name)
            )

    for name in ("damaged", "older", "fine"):
        reads(name)
"""


def land(folder, name, *ids):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("".join(json.dumps({"id": number}) + "\n" for number in ids))
    os.utime(folder / name, (1_700_000_000, 1_700_000_000))


def ledger_of(pipeline, table):
    (file,) = (pipeline.folder / "storage" / "checkpoints").glob(f"*/{table}/**/*.ledger")
    return file


def test_a_damaged_or_stale_ledger_fails_only_its_flow_and_changed_files_are_reported(project, tmp_path):
    data = tmp_path / "landing"
    for table in ("damaged", "older", "fine"):
        land(data / table, "a.json", 1)
    pipeline = project(FLOWS.replace("{data}", str(data)))
    pipeline.run()
    for table in ("damaged", "older", "fine"):
        land(data / table, "b.json", 2)
    land(data / "fine", "a.json", 1, 3)
    ledger_of(pipeline, "damaged").write_bytes(b"no ledger")
    with closing(sqlite3.connect(ledger_of(pipeline, "older"))) as database:
        database.execute("delete from files")
        database.execute("delete from commits")
        database.execute("update sqlite_sequence set seq = 0")
        database.commit()

    result, events = heard(pipeline)

    reasons = {flow.flow: flow.reason or "" for flow in result.outcome.flows}
    warned = {event.code: event.message for event in events if isinstance(event, Warned)}
    assert "is damaged" in reasons["damaged"], reasons
    assert "is older than the checkpoint" in reasons["older"], reasons
    assert result.states["fine"] is FlowState.COMPLETED
    assert sorted(row["id"] for row in result.rows("fine")) == [1, 2]
    assert str(data / "fine" / "a.json") in warned["AUTO_LOADER.FILES_CHANGED_LATER"]
