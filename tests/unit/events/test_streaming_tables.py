"""The tables of streams are computed from events without Spark."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from headrace.errors import PipelineError
from headrace.events.envelope import Origin, Stamp, seq_no_at, to_row
from headrace.events.log_events import LogEvents
from headrace.events.schema import SCHEMA
from headrace.events.streaming_views import streaming_queries, streaming_query_progress
from headrace.events.types import (
    Event,
    FlowLagMetrics,
    FlowStateChanged,
    StreamProgress,
    UpdateCreated,
    UpdateStateChanged,
)
from headrace.model.liveness import Liveness
from headrace.model.outcome import FlowState, UpdateState
from headrace.model.stream_progress import OperatorProgress, StreamBatches

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
NOBODY = Liveness(is_held=False)


def report(run: str, number: int, batches: int = 1, flow: str = "a") -> StreamProgress:
    at = NOON + timedelta(seconds=number, microseconds=number)
    operator = OperatorProgress("dedupe", "deduplication", None, 1, 0, 0, 0, 40, 1)
    done = StreamBatches(
        number, batches, at, 5, {"add_batch": 4, "get_batch": 1}, 30, 1.5, None, at, None, (operator, operator)
    )
    return StreamProgress(flow, "t", 0, f"q-{flow}", run, done)


def log_of(path: Path, events: list[tuple[str, Event]]) -> str:
    rows = []
    for number, (update_id, event) in enumerate(events):
        at = NOON + timedelta(seconds=number)
        stamp = Stamp(seq_no_at(at), at, "i", f"{number:04}")
        rows.append(to_row(event, origin=Origin("p", "shop", update_id), stamp=stamp))
    write_deltalake(str(path), pa.Table.from_pylist(rows, SCHEMA))
    return str(path)


def updates(*states: tuple[str, FlowState | None, UpdateState | None]) -> list[tuple[str, Event]]:
    events: list[tuple[str, Event]] = []
    for update_id, flow, state in states:
        error = {"code": "X", "message": "no"} if flow is FlowState.FAILED else None
        events += [
            (update_id, UpdateCreated("USER_ACTION")),
            (update_id, FlowStateChanged("a", "t", FlowState.RUNNING)),
            (update_id, report("r0", 0)),
            (update_id, report("r1", 1)),
            (update_id, FlowLagMetrics("a", "t")),
        ]
        events += [] if flow is None else [(update_id, FlowStateChanged("a", "t", flow, error=error))]
        events += [] if state is None else [(update_id, UpdateStateChanged(state))]
    return events


def statuses(log: str, liveness: Liveness) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = {}
    for row in streaming_queries(LogEvents(log), liveness).to_pylist():
        found.setdefault(row["update_id"], []).append((row["run_id"], row["status"], row["exception"]))
    return {update_id: sorted(rows) for update_id, rows in found.items()}


@pytest.mark.parametrize(
    ("flow", "update", "liveness", "expected"),
    [
        (None, None, Liveness(is_held=True, update_id="u2"), ("ACTIVE", None)),
        (None, None, Liveness(is_held=True), ("ACTIVE", None)),
        (None, None, Liveness(is_held=True, update_id="other"), ("LOST", None)),
        (None, None, Liveness(is_held=False, checked_after="0"), ("ACTIVE", None)),
        (None, None, NOBODY, ("LOST", None)),
        (None, UpdateState.RUNNING, NOBODY, ("LOST", None)),
        (None, UpdateState.CANCELED, NOBODY, ("STOPPED", None)),
        (FlowState.COMPLETED, None, Liveness(is_held=True), ("STOPPED", None)),
        (FlowState.FAILED, UpdateState.FAILED, NOBODY, ("FAILED", "no")),
    ],
)
def test_the_newest_run_of_a_flow_has_its_status_and_others_are_stopped(tmp_path, flow, update, liveness, expected):
    log = log_of(tmp_path / "events", updates(("u1", FlowState.COMPLETED, UpdateState.COMPLETED), ("u2", flow, update)))

    found = statuses(log, liveness)

    assert found["u1"] == [("r0", "STOPPED", None), ("r1", "STOPPED", None)]
    status, exception = expected
    assert found["u2"] == [("r0", "STOPPED", exception), ("r1", status, exception)]


def test_an_older_update_without_an_end_is_lost_also_while_another_one_runs(tmp_path):
    log = log_of(tmp_path / "events", updates(("u1", None, None), ("u2", None, None)))

    found = statuses(log, Liveness(is_held=True))

    assert [rows[-1][1] for rows in found.values()] == ["LOST", "ACTIVE"]


def test_a_run_has_the_times_and_the_batch_of_its_reports_and_runs_without_an_update_are_left_out(tmp_path):
    log = log_of(
        tmp_path / "events",
        [("u", UpdateCreated("USER_ACTION")), ("u", report("r", -1, 0)), ("u", report("r", 7)), ("x", report("s", 1))],
    )

    (run,) = streaming_queries(LogEvents(log), NOBODY).to_pylist()

    assert (run["id"], run["name"], run["dataset"], run["epoch"], run["batch_id"]) == ("q-a", "a", "t", 0, 7)
    assert (run["started_at"], run["last_progress_at"]) == (
        NOON + timedelta(seconds=-1, microseconds=-1),
        NOON + timedelta(seconds=2),
    )


def test_a_report_without_batches_has_no_row(tmp_path):
    log = log_of(tmp_path / "events", [("u", report("r", -1, 0)), ("u", report("r", 3, 2))])

    (row,) = streaming_query_progress(LogEvents(log), NOBODY).to_pylist()

    assert (row["batch_id"], row["batches"], row["input_rows"], row["update_id"]) == (3, 2, 30, "u")
    assert row["timestamp"] == row["watermark"] == NOON + timedelta(seconds=3, microseconds=3)
    assert (row["state_memory_bytes"], row["add_batch_ms"], row["latest_offset_ms"]) == (80, 4, None)
    assert (row["input_rows_per_second"], row["processed_rows_per_second"]) == (1.5, None)


def test_a_report_that_another_version_wrote_otherwise_leaves_the_others_readable(tmp_path):
    rows = [
        to_row(report("r", number), origin=Origin("p", "shop", "u"), stamp=Stamp(number, NOON, "i", str(number)))
        for number in range(3)
    ]
    rows[0]["details"] = json.dumps({"stream_progress": {"query_id": "q", "batches": "many"}})
    body = json.loads(rows[1]["details"])["stream_progress"]
    rows[1]["details"] = json.dumps({"stream_progress": {**body, "started_at": "2026-11-20T12:00:01", "new": [1]}})
    write_deltalake(str(tmp_path / "events"), pa.Table.from_pylist(rows, SCHEMA))

    found = streaming_query_progress(LogEvents(str(tmp_path / "events")), NOBODY).to_pylist()

    assert sorted((row["batch_id"], row["timestamp"].second) for row in found) == [(1, 1), (2, 2)]


def test_a_log_that_cannot_be_read_is_reported(tmp_path):
    log = log_of(tmp_path / "events", [("u", report("r", 1))])
    for file in Path(log).glob("*.parquet"):
        file.write_bytes(b"")

    with pytest.raises(PipelineError) as unreadable:
        streaming_query_progress(LogEvents(log), NOBODY)

    assert unreadable.value.code == "EVENTS.NOT_READABLE"
