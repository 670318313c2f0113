"""What queries over events read of a log: they are right only if no event is missing, and none is there twice."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake

from headrace.errors import PipelineError
from headrace.events.envelope import Origin, Stamp, seq_no_at, to_row
from headrace.events.extracts import EXTRACT_SCHEMA, write_extract
from headrace.events.log_parts import Part
from headrace.events.outcome import Tally
from headrace.events.schema import SCHEMA
from headrace.events.types import (
    BatchDone,
    Event,
    FlowStateChanged,
    StreamProgress,
    UpdateCreated,
    UpdateStateChanged,
    Warned,
)
from headrace.model.outcome import FlowCounts, FlowState, UpdateState
from headrace.model.stream_progress import StreamBatches

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
REPORT = StreamProgress("a", "a", 0, "q", "r", StreamBatches(2, 3, NOON, 40, {}, 30))


def batch(number: int, flow: str = "a", epoch: int = 0) -> BatchDone:
    return BatchDone(flow, flow, epoch, number, FlowCounts(10))


def totals(*batches: BatchDone) -> Event:
    tally = Tally()
    for one in batches:
        tally.add(one)
    return tally.total()


EVENTS = (
    ("u1", UpdateCreated("USER_ACTION")),
    ("u1", FlowStateChanged("a", "a", FlowState.RUNNING, attempt=1)),
    ("u1", batch(0)),
    ("u1", batch(1)),
    ("u1", totals(batch(0), batch(1))),
    # Repeated after a crash: it is in the totals.
    ("u1", batch(1)),
    ("u1", batch(2)),
    ("u1", REPORT),
    ("u1", Warned("W", "not of interest")),
    ("u1", UpdateStateChanged(UpdateState.COMPLETED)),
    ("u2", UpdateCreated("USER_ACTION")),
    ("u2", batch(3, "b")),
    ("u2", batch(3, "b")),
)


@pytest.fixture
def log(tmp_path: Path) -> str:
    rows = [
        to_row(
            event,
            origin=Origin("p", "shop", update_id),
            stamp=Stamp(seq_no_at(NOON) + number, NOON + timedelta(seconds=number), "i", f"{number:04}"),
        )
        for number, (update_id, event) in enumerate(EVENTS)
    ]
    path = str(tmp_path / "events")
    # In two files, so that no order within a file matters.
    write_deltalake(path, pa.Table.from_pylist(rows[::2], SCHEMA))
    write_deltalake(path, pa.Table.from_pylist(rows[1::2], SCHEMA), mode="append")
    return path


def extracted(log: str, folder: Path, *parts: Part) -> list[dict[str, Any]]:
    folder.mkdir()
    write_extract(log, parts, folder)
    files = [pq.read_table(file) for file in folder.iterdir()]
    assert all(file.schema == EXTRACT_SCHEMA for file in files)
    return sorted((row for file in files for row in file.to_pylist()), key=lambda row: row["id"])


def numbers(rows: list[dict[str, Any]]) -> list[int]:
    """The places in EVENTS of the rows."""
    return [int(row["id"].partition("-")[2]) for row in rows]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ([Part.UPDATES], [0, 9, 10]),
        ([Part.BATCHES], [2, 3, 6, 11]),
        ([Part.UPDATES, Part.BATCHES], [0, 2, 3, 6, 9, 10, 11]),
        ([Part.SAMPLES], []),
    ],
)
def test_an_extract_has_each_event_of_its_parts_once(log, tmp_path, parts, expected):
    rows = extracted(log, tmp_path / "extract", *parts)

    assert numbers(rows) == expected
    assert [row["timestamp"] for row in rows] == [NOON + timedelta(seconds=number) for number in expected]
    assert {row["origin"]["pipeline_id"] for row in rows} <= {"p"}
    assert [list(json.loads(row["details"])) for row in rows] == [[row["event_type"]] for row in rows]


def test_a_log_that_cannot_be_read_is_reported(log, tmp_path):
    for file in Path(log).glob("*.parquet"):
        file.write_bytes(b"")

    with pytest.raises(PipelineError) as unreadable:
        extracted(log, tmp_path / "extract", Part.BATCHES)

    assert unreadable.value.code == "EVENTS.NOT_READABLE"
