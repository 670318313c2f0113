from __future__ import annotations

import io
import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import pytest
from rich.console import Console

from headrace.cli.arguments import hoist_global_options
from headrace.cli.live_display import LiveTable
from headrace.cli.summary import FAILURE_LINES, outcome_text
from headrace.cli.tables import rows_table
from headrace.events.types import (
    BatchDone,
    FlowDefined,
    FlowLagMetrics,
    FlowStateChanged,
    StreamProgress,
    UpdateCreated,
)
from headrace.model.outcome import (
    ChangeCounts,
    FlowCounts,
    FlowOutcome,
    FlowState,
    Outcome,
    PartitionLag,
    UpdateState,
)
from headrace.model.rows import Rows, json_value
from headrace.model.stream_progress import StreamBatches

NOON = datetime(2026, 11, 27, 12, tzinfo=UTC)


def test_live_table_shows_row_rates_and_flow_durations() -> None:
    now = [100.0]
    console = Console(file=io.StringIO(), width=100)
    display = LiveTable(console, lambda: now[0])

    display.on_event(UpdateCreated("USER_ACTION"))
    display.on_event(FlowDefined("late", "orders"))
    # A temporary view moves no rows and has no line.
    display.on_event(FlowDefined("valid", "valid", mode="VIEW"))
    display.on_event(FlowStateChanged("orders", "orders", FlowState.RUNNING))
    display.on_event(BatchDone("orders", "orders", 0, 0, FlowCounts(5000, 3, 2)))
    now[0] += 2
    display.on_event(FlowStateChanged("orders", "orders", FlowState.COMPLETED))
    now[0] += 60
    with console.capture() as capture:
        console.print(display.table())

    assert [line.split() for line in capture.get().splitlines()] == [
        ["flow", "state", "rows", "rows/s", "dropped", "quarantined", "seconds"],
        ["late", "QUEUED", "0"],
        ["orders", "COMPLETED", "5,000", "2,500", "3", "2", "2.0"],
    ]


def test_live_table_of_a_continuous_update_shows_rate_lag_and_the_age_of_the_last_batch() -> None:
    now = [100.0]
    console = Console(file=io.StringIO(), width=80)
    display = LiveTable(console, lambda: now[0])
    rows = StreamBatches(3, 2, NOON, 2000, {}, 800, 889.0, 400.0)

    display.on_event(UpdateCreated("USER_ACTION", {"continuous": True}))
    for flow in ("orders_from_the_shops", "revenue"):
        display.on_event(FlowDefined(flow, flow))
        display.on_event(FlowStateChanged(flow, flow, FlowState.RUNNING))
    display.on_event(BatchDone("orders_from_the_shops", "o", 0, 3, FlowCounts(1_250_000, 310, 52)))
    display.on_event(StreamProgress("orders_from_the_shops", "o", 0, "q", "r", rows))
    display.on_event(FlowLagMetrics("orders_from_the_shops", "o", (PartitionLag("t", 0, 5, 1205),)))
    now[0] += 4
    with console.capture() as capture:
        console.print(display.table())

    assert [line.rstrip() for line in capture.get().splitlines()] == [
        "flow                   state         rows  rows/s            lag   last batch",
        "orders_from_the_shops  RUNNING  1,250,000     400  1,200 records  #3, 4 s ago",
        "revenue                RUNNING",
        "orders_from_the_shops  310 dropped, 52 quarantined",
    ]


@pytest.mark.parametrize("width", [10, 20, 80])
def test_live_table_can_be_drawn_before_the_first_event_and_on_any_terminal(width: int) -> None:
    console = Console(file=io.StringIO(), width=width, height=2)
    display = LiveTable(console, lambda: 0.0)

    for events in ((), (UpdateCreated("USER_ACTION"),), (FlowDefined("orders", "orders"), FlowDefined("b", "b"))):
        for event in events:
            display.on_event(event)
        with console.capture() as capture:
            console.print(display.table())
        assert capture.get().strip()


@pytest.mark.parametrize("flows", [0, 1, 5, 10, 40])
def test_failed_update_fits_on_a_screen(flows: int) -> None:
    error = {"code": "X.Y", "message": "no", "detail": "line\n" * 99, "hint": "h", "location": {"file": "a", "line": 1}}
    began = datetime(2026, 11, 20, tzinfo=UTC)
    outcomes = [FlowOutcome(f"f{n}", "t", FlowState.COMPLETED, "why") for n in range(flows)]
    outcomes += [FlowOutcome("bad", "t", FlowState.FAILED, "why")]

    text = outcome_text(Outcome("u", UpdateState.FAILED, "C", began, began, tuple(outcomes), error))

    lines = text.splitlines()
    assert len(lines) <= FAILURE_LINES
    assert lines[0] == "a:1"
    assert [line.split()[2] for line in lines if line.startswith("bad ")][:1] == ["FAILED"]


def test_cells_are_truncated_only_on_a_terminal() -> None:
    rows = Rows(("text",), (("x" * 30,),))

    assert "xxxx…" in rows_table(rows, widest=5)
    assert "x" * 30 in rows_table(rows)


def test_global_options_move_to_the_front_unless_they_follow_two_dashes() -> None:
    words = ["sql", "--write", "-q", "--output", "json", "--", "-v", "--output"]

    assert hoist_global_options(words) == ["-q", "--output", "json", "sql", "--write", "--", "-v", "--output"]


class Failpoint(tuple[int, int]):
    __slots__ = ()
    __fields__ = ("x", "y")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, True),
        (2**60, 2**60),
        (1.5, 1.5),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (Decimal("1E+3"), "1000"),
        (Decimal("1.10"), "1.10"),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "2026-01-02T03:04:05.000006+00:00"),
        (timedelta(days=-1, microseconds=-5), "-P1DT0.000005S"),
        (b"\x00\xff", "AP8="),
        ([1, None], [1, None]),
        ({1: b"a", date(2026, 1, 2): None}, {"1": "YQ==", "2026-01-02": None}),
        (Failpoint((1, 2)), {"x": 1, "y": 2}),
    ],
)
def test_value_converts_to_json(value: object, expected: object) -> None:
    assert json_value(value) == expected


def test_duplicate_column_names_become_unique_in_json_rows() -> None:
    rows = Rows(("a", "a", "a_2"), ((1, None, 3),))

    assert rows.to_json() == [{"a": 1, "a_3": None, "a_2": 3}]


@pytest.mark.parametrize(
    ("blanks", "told"), [(None, []), (0, []), (1, []), (2, ["2 of 20 events overwrote a value with NULL"])]
)
def test_summary_reports_repeated_null_overwrites(blanks: int | None, told: list[str]) -> None:
    at = datetime(2026, 11, 20, tzinfo=UTC)
    counts = FlowCounts(20, changes=ChangeCounts(null_overwrites=blanks))
    flow = FlowOutcome("feed", "users", FlowState.COMPLETED, counts=counts)

    text = outcome_text(Outcome("u", UpdateState.COMPLETED, "USER_ACTION", at, at, (flow,)))

    assert re.findall("(?<=users: )[0-9]+ of .* a value with NULL", text) == told


def test_change_counts_name_a_lone_changed_column_only_if_batches_agree() -> None:
    none, noisy, real = (
        ChangeCounts(lone_changes=0),
        ChangeCounts(0, 0, None, 9, 9, "read_at"),
        ChangeCounts(0, 0, None, 9, 1, "city"),
    )

    assert noisy.plus(none).plus(noisy).lone_column == "read_at"
    assert none.plus(none).lone_column is None
    assert noisy.plus(real).plus(noisy).lone_column is None


@pytest.mark.parametrize(("lone", "told"), [(None, []), (0, []), (9, []), (10, ["10 of 20 new versions"]), (21, [])])
def test_summary_reports_a_column_that_often_causes_new_versions_alone(lone: int | None, told: list[str]) -> None:
    at = datetime(2026, 11, 20, tzinfo=UTC)
    changes = ChangeCounts(new_versions=20, lone_changes=lone, lone_column="read_at")
    flow = FlowOutcome("feed", "users", FlowState.COMPLETED, counts=FlowCounts(20, changes=changes))

    text = outcome_text(Outcome("u", UpdateState.COMPLETED, "USER_ACTION", at, at, (flow,)))

    assert re.findall('(?<=users: ).*new versions(?= change only one column, most often "read_at")', text) == told


def test_summary_reports_sequence_conflicts_and_late_events() -> None:
    at = datetime(2026, 11, 20, tzinfo=UTC)
    counts = FlowCounts(9, changes=ChangeCounts(tied=1, late=2))
    flow = FlowOutcome("feed", "users", FlowState.COMPLETED, counts=counts)

    lines = outcome_text(Outcome("u", UpdateState.COMPLETED, "USER_ACTION", at, at, (flow,))).splitlines()

    assert lines[-2:] == [
        "users: 1 event lost a tie on key and sequence (see headrace.cdc.on_tie)",
        "users: 2 events may have arrived after their tombstones expired",
    ]
