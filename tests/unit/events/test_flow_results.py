"""Rows and batches of flows, computed from events without Spark: those of the totals and the batches after them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.events.envelope import Origin, Stamp, seq_no_at, to_row
from headrace.events.flow_results import event_log_flows
from headrace.events.log_events import LogEvents
from headrace.events.outcome import Tally
from headrace.events.schema import SCHEMA
from headrace.events.types import (
    BatchDone,
    Event,
    FlowLagMetrics,
    FlowStateChanged,
    UpdateCreated,
    UpdateStateChanged,
)
from headrace.model.liveness import Liveness
from headrace.model.outcome import FlowCounts, FlowState, UpdateState

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
NOBODY = Liveness(is_held=False)
RUNNING = FlowStateChanged("a", "t", FlowState.RUNNING, attempt=1)


def batch(number: int, flow: str = "a", epoch: int = 0) -> BatchDone:
    return BatchDone(flow, "t", epoch, number, FlowCounts(10 + number, number, 1))


def rows_of(events: list[tuple[str, Event]]) -> list[dict[str, Any]]:
    rows = []
    for number, (update_id, event) in enumerate(events):
        at = NOON + timedelta(seconds=number)
        stamp = Stamp(seq_no_at(at), at, "i", f"{number:04}")
        rows.append(to_row(event, origin=Origin("p", "shop", update_id), stamp=stamp))
    return rows


def flows(folder: Path, rows: list[dict[str, Any]], liveness: Liveness = NOBODY) -> list[dict[str, Any]]:
    write_deltalake(str(folder), pa.Table.from_pylist(rows, SCHEMA), mode="overwrite")
    found: list[dict[str, Any]] = event_log_flows(LogEvents(str(folder)), liveness).to_pylist()
    return found


def without_numbers_of_batches(row: dict[str, Any]) -> dict[str, Any]:
    """A row of totals as an older version wrote it."""
    details = json.loads(row["details"])
    for flow in details["flow_totals"]["flows"]:
        del flow["batches"]
    return {**row, "details": json.dumps(details)}


@given(
    st.lists(st.tuples(st.sampled_from("BBBRET"), st.sampled_from("ab")), max_size=12), st.sampled_from(["0.1", "now"])
)
@example([("B", "a"), ("B", "b"), ("T", "a"), ("R", "a"), ("B", "a"), ("E", "b")], "now")
@example([("B", "a"), ("B", "a"), ("T", "a"), ("R", "a"), ("B", "a")], "0.1")
@settings(max_examples=10, deadline=None)
def test_counts_are_those_of_all_batches_each_counted_once(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str]], version: str
) -> None:
    events: list[tuple[str, Event]] = [("u", UpdateCreated("USER_ACTION"))]
    events += [("u", FlowStateChanged(flow, "t", FlowState.RUNNING)) for flow in "ab"]
    tally, done = Tally(), {flow: [(0, -1)] for flow in "ab"}
    for step, flow in steps:
        epoch, number = done[flow][-1]
        if step == "T":
            events.append(("u", tally.total()))
        elif step == "R" and number >= 0:
            # Recorded again after a crash.
            events.append(("u", batch(number, flow, epoch)))
        elif step in "BE":
            done[flow].append((epoch, number + 1) if step == "B" else (epoch + 1, 0))
            event = batch(done[flow][-1][1], flow, done[flow][-1][0])
            tally.add(event)
            events.append(("u", event))
    rows = [
        without_numbers_of_batches(row) if version == "0.1" and row["event_type"] == "flow_totals" else row
        for row in rows_of(events)
    ]

    found = {row["flow"]: row for row in flows(tmp_path_factory.mktemp("log"), rows)}

    for flow in "ab":
        counts = tally.totals.get(flow, FlowCounts())
        expected = (counts.rows_written, counts.rows_dropped, counts.rows_quarantined, len(done[flow]) - 1)
        row = found[flow]
        assert (row["rows_written"], row["rows_dropped"], row["rows_quarantined"], row["batches"]) == expected


def test_a_flow_has_its_last_state_and_the_time_of_its_last_event_that_is_no_batch(tmp_path: Path) -> None:
    ended = FlowStateChanged("a", "t", FlowState.FAILED, "why", attempt=2, duration_s=1.5)
    events: list[tuple[str, Event]] = [
        ("u", UpdateCreated("USER_ACTION")),
        ("u", RUNNING),
        ("u", FlowStateChanged("a", "t", FlowState.RETRYING, attempt=3)),
        ("u", ended),
        ("u", FlowLagMetrics("a", "t")),
        ("u", batch(0)),
        ("u", UpdateStateChanged(UpdateState.FAILED)),
        # Not in the log since its beginning.
        ("older", RUNNING),
    ]

    (row,) = flows(tmp_path, rows_of(events))

    assert (row["update_id"], row["flow"], row["dataset"], row["state"]) == ("u", "a", "t", "FAILED")
    assert (row["reason"], row["attempts"], row["duration_s"]) == ("why", 3, 1.5)
    assert row["last_event_at"] == NOON + timedelta(seconds=4)


@pytest.mark.parametrize(("liveness", "state"), [(NOBODY, "LOST"), (Liveness(is_held=True, update_id="u"), "RUNNING")])
def test_an_active_flow_of_an_update_that_nobody_runs_is_lost(tmp_path: Path, liveness: Liveness, state: str) -> None:
    events: list[tuple[str, Event]] = [
        ("u", UpdateCreated("USER_ACTION")),
        ("u", RUNNING),
        ("u", FlowStateChanged("b", "t", FlowState.COMPLETED)),
    ]

    found = {row["flow"]: row["state"] for row in flows(tmp_path, rows_of(events), liveness)}

    assert found == {"a": state, "b": "COMPLETED"}
