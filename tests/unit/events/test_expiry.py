"""Which events an event log keeps that does not keep all of them."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.events import recorded
from headrace.events.envelope import Origin, Stamp, id_floor, seq_no_at, to_row
from headrace.events.expiry import Horizon, Retention, remove_expired
from headrace.events.log import CHECKPOINT_EVERY_APPENDS, EventLog
from headrace.events.outcome import Tally
from headrace.events.reader import EventReader
from headrace.events.recorded import newest_trimming, recorded_events
from headrace.events.schema import SCHEMA
from headrace.events.types import (
    BatchDone,
    Event,
    FlowDefined,
    FlowLagMetrics,
    FlowStateChanged,
    RowsSampled,
    StreamProgress,
    UpdateCreated,
    UpdateStateChanged,
)
from headrace.events.upkeep import LogTrimmed
from headrace.metrics import catalogue
from headrace.metrics.fold import EventFold
from headrace.metrics.samples import Samples
from headrace.metrics.trimmed import horizon_of, trimmed_fold
from headrace.model.outcome import FlowCounts, FlowState, PartitionLag, UpdateState
from headrace.model.stream_progress import StreamBatches
from headrace.project.inspection.event_metrics import fold_log
from headrace.project.update.log_trimming import record_trimming

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
COUNTS = FlowCounts(rows_written=8)
DAY_S = 86_400.0
# More than a condition may list.
UPDATES = 601

Opener = Callable[..., EventLog]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "events")


@pytest.fixture
def open_log(path: str) -> Opener:
    ids = count()

    def opened(
        update_id: str,
        clock: Callable[[], datetime],
        retain_days: float | None = None,
        *,
        trims: bool = False,
        retention: Retention | None = None,
        **how: int,
    ) -> EventLog:
        retention = retention or Retention(None if retain_days is None else retain_days * DAY_S)
        origin, record = Origin("p1", "flights", update_id), partial(record_trimming, EventReader(path))
        trimming = {"before_removal": record} if trims else {}
        return EventLog(
            path, origin=origin, clock=clock, new_id=lambda: f"id{next(ids)}", retention=retention, **trimming, **how
        )

    return opened


def days_ago(days: float) -> Callable[[], datetime]:
    return lambda: NOW - timedelta(days=days)


def stored(path: str) -> list[tuple[str, str, int | None]]:
    """Update, flow and batch of each row."""
    origins = (row["origin"] for row in EventReader(path).events())
    return [(origin["update_id"], origin["flow_name"], origin["batch_id"]) for origin in origins]


def log_update(log: EventLog, *batches: tuple[str, int]) -> None:
    with log:
        log.emit(UpdateCreated("USER_ACTION"))
        for flow, batch in batches:
            log.emit(BatchDone(flow, "orders", 0, batch, COUNTS))


def test_update_end_removes_old_events_except_the_newest_batch_of_each_flow(path: str, open_log: Opener) -> None:
    log_update(open_log("old", days_ago(91)), ("a", 0), ("a", 1), ("b", 0))
    log_update(open_log("young", days_ago(89)), ("a", 2))
    batches = EventReader(path).last_batches()

    log_update(open_log("newest", days_ago(0), retain_days=90))

    young = [("young", None, None), ("young", "a", 2)]
    assert stored(path) == [("old", "a", 1), ("old", "b", 0), *young, ("newest", None, None)]
    assert EventReader(path).last_batches() == batches


def test_all_events_are_kept_without_a_retention_setting(path: str, open_log: Opener) -> None:
    log_update(open_log("old", days_ago(3650)), ("a", 0), ("a", 1))
    log_update(open_log("newest", days_ago(0)))

    assert len(stored(path)) == 4


def test_events_of_a_running_update_are_kept(path: str, open_log: Opener) -> None:
    moments = iter([days_ago(100)()] * 3)
    log = open_log("runs", lambda: next(moments, NOW), retain_days=90)

    log_update(log, ("a", 0), ("a", 1))

    assert stored(path) == [("runs", None, None), ("runs", "a", 0), ("runs", "a", 1)]


def test_metrics_expire_before_other_events_if_the_totals_of_their_update_are_recorded(
    path: str, open_log: Opener
) -> None:
    tally = Tally()
    with open_log("counted", days_ago(35)) as log:
        log.emit(UpdateCreated("USER_ACTION"))
        for batch in (BatchDone("a", "orders", 0, number, COUNTS) for number in range(3)):
            tally.add(batch)
            log.emit(batch)
        log.emit(tally.total())
        log.emit(UpdateStateChanged(UpdateState.COMPLETED))
    log_update(open_log("killed", days_ago(34)), ("a", 3), ("a", 4))
    before = [EventReader(path).outcome(update) for update in ("counted", "killed")]

    log_update(open_log("newest", days_ago(0), retention=Retention(400 * DAY_S, 30 * DAY_S)))

    kept = [batch for update, _, batch in stored(path) if update == "counted"]
    # No totals say how much the killed update wrote; and the newest batch of a flow is always kept.
    assert ("killed", "a", 3) in stored(path)
    assert kept == [None, 2, None, None]
    assert [EventReader(path).outcome(update) for update in ("counted", "killed")] == before


def test_counters_survive_the_removal_of_events(path: str, open_log: Opener) -> None:
    log_update(open_log("old", days_ago(35)), ("a", 0), ("a", 1), ("b", 0))
    log_update(open_log("young", days_ago(1)), ("a", 2), ("a", 2))
    counters = counted(path)

    for days in (0, -20, -31, -500):
        log = open_log(f"at {-days}", days_ago(days), retention=Retention(400 * DAY_S, 30 * DAY_S), trims=True)
        log_update(log, ("b", 1 - days))

        counters = {flow: batches + (flow == "b") for flow, batches in counters.items()}
        assert counted(path) == counters

    assert len(stored(path)) < 8


def test_counters_are_right_if_a_crash_follows_the_record_of_what_is_removed(path: str, open_log: Opener) -> None:
    log_update(open_log("old", days_ago(35)), ("a", 0), ("a", 1), ("b", 0))
    with open_log("reports", days_ago(34)) as log:
        for _ in range(2):
            log.emit(StreamProgress("a", "orders", 0, "q", "r", StreamBatches(1, 1, NOW, 5, input_rows=5)))
    before, rows = counted(path), folded(path).of(catalogue.INPUT_ROWS)
    reader = EventReader(path)
    with open_log("crashes", days_ago(0)) as log:
        record_trimming(reader, Retention(None, 30 * DAY_S).horizon(NOW), log.emit)

    assert (counted(path), folded(path).of(catalogue.INPUT_ROWS)) == (before, rows)
    log_update(open_log("next", days_ago(0), retention=Retention(None, 30 * DAY_S), trims=True))
    assert (counted(path), folded(path).of(catalogue.INPUT_ROWS)) == (before, rows)
    assert rows == {("a",): 10}


def counted(path: str) -> dict[str, float]:
    """Batches of each flow, folded from the log alone."""
    return {flow: batches for (flow, _), batches in folded(path).of(catalogue.BATCHES).items()}


def folded(path: str) -> Samples:
    """The metrics of the log alone."""
    reader = EventReader(path)
    trimming = newest_trimming(reader)
    fold = trimmed_fold(trimming)
    for row in recorded_events(reader):
        if not horizon_of(trimming).covers(row.row_id, row.event):
            fold.apply(row.event, row.at, row.update_id)
    return fold.samples


def test_conditions_of_a_removal_have_no_long_lists(path: str) -> None:
    """A list of about 10,000 values overflows the stack of delta-rs, which ends the process."""
    batch, report = StreamBatches(1, 1, NOW, 5), Retention(None, 30 * DAY_S).horizon(NOW)
    events = [BatchDone("a", "orders", 0, 0, COUNTS), *[StreamProgress("a", "orders", 0, "q", "r", batch)] * 2]
    moment, rows = days_ago(35)(), []
    for number in range(3 * UPDATES):
        origin = Origin("p1", "flights", f"u{number // 3}")
        event = replace(events[number % 3], flow=f"flow{number // 3}")
        rows.append(to_row(event, origin=origin, stamp=Stamp(seq_no_at(moment) + number, moment, "log", "a")))
    write_deltalake(path, pa.Table.from_pylist(rows, SCHEMA))
    conditions: list[str] = []

    class Noting(DeltaTable):
        """Takes note of what it removes."""

        def delete(self, predicate: str | None = None, *args: Any, **how: Any) -> dict[str, Any]:
            conditions.append(str(predicate))
            return super().delete(predicate, *args, **how)

    remove_expired(Noting(path), report, "runs")

    # The counts of each batch are in no totals, and the newest report of each flow is kept.
    assert DeltaTable(path).count() == 2 * UPDATES
    lists = re.findall(r"IN \(([^()]*)\)", conditions[0])
    assert max(found.count(",") + 1 for found in lists) == 500


def test_samples_of_rows_expire(path: str, open_log: Opener) -> None:
    with open_log("old", days_ago(35)) as log:
        log.emit(UpdateCreated("USER_ACTION"))
        log.emit(RowsSampled("a", "orders", 0, 0, "valid", ('{"name": "Ann"}',)))

    log_update(open_log("newest", days_ago(0), retention=Retention(None, 30 * DAY_S)))

    assert [row["event_type"] for row in EventReader(path).events()] == ["create_update", "create_update"]


def test_counters_are_right_after_events_are_to_be_kept_longer(path: str, open_log: Opener) -> None:
    log_update(open_log("old", days_ago(35)), ("a", 0), ("a", 1))
    with open_log("young", days_ago(25)) as log:
        log.emit(StreamProgress("a", "orders", 0, "q", "r", StreamBatches(1, 1, NOW, 5, input_rows=5)))

    with open_log("now", days_ago(0)) as log:
        for keep in (20, 30):
            record_trimming(EventReader(path), Retention(None, keep * DAY_S).horizon(NOW), log.emit)

    assert counted(path) == {"a": 2}
    assert folded(path).of(catalogue.INPUT_ROWS) == {("a",): 5}


@pytest.mark.parametrize("details", ['{"log_trimmed": {"metrics": {}}}', None])
def test_events_are_not_removed_if_the_sums_of_earlier_ones_cannot_be_read(
    path: str, open_log: Opener, details: str | None
) -> None:
    log_update(open_log("old", days_ago(35)), ("a", 0), ("a", 1))
    with open_log("newer version", days_ago(34)) as log:
        log.emit(LogTrimmed("0", "0", {"samples": "in another form"}))
    if details is not None:
        DeltaTable(path).update({"details": f"'{details}'"}, predicate="event_type = 'log_trimmed'")
    before = stored(path)

    log_update(open_log("newest", days_ago(0), retention=Retention(None, 30 * DAY_S), trims=True))

    assert stored(path) == [*before, ("newest", None, None)]


MEASURED: tuple[Event, ...] = (
    BatchDone("a", "orders", 0, 0, COUNTS),
    FlowLagMetrics("b", "orders", (PartitionLag("t", 0, 1, 5),)),
    StreamProgress(
        "c", "orders", 0, "q", "r", StreamBatches(1, 1, NOW, 5, input_rows=5, processed_rows_per_second=2.0)
    ),
)
RUNNING = UpdateStateChanged(UpdateState.RUNNING)
OTHERS: tuple[Event, ...] = (
    UpdateCreated("USER_ACTION"),
    UpdateCreated("USER_ACTION", {}, {"refresh": ["a"]}),
    RUNNING,
    UpdateStateChanged(UpdateState.COMPLETED),
    FlowDefined("a", "orders"),
    FlowDefined("b", "orders"),
    FlowStateChanged("b", "orders", FlowState.RUNNING),
)


@given(st.lists(st.sampled_from((*MEASURED, *OTHERS)), max_size=14), st.integers(0, 14), st.integers(0, 14))
@example([UpdateCreated("USER_ACTION"), RUNNING, *MEASURED], 5, 0)
@example([*MEASURED, UpdateCreated("USER_ACTION"), RUNNING, MEASURED[0]], 6, 0)
@settings(max_examples=100)
def test_metrics_that_expire_before_other_events_give_the_same_samples(
    events: list[Event], metrics_before: int, before: int
) -> None:
    """Law: it does not matter at which moments what has expired is folded first."""
    horizon = Horizon(id_floor(min(before, metrics_before)), id_floor(metrics_before))
    log = [(id_floor(at), NOW + timedelta(seconds=at), event) for at, event in enumerate(events)]
    expired = [row for row in log if horizon.covers(row[0], row[2])]
    trimmed = EventFold.from_json(fold_of(expired).to_json())

    found = fold_of([row for row in log if row not in expired], trimmed)

    assert sorted(found.samples.to_json()) == sorted(fold_of(log).samples.to_json())


def fold_of(rows: list[tuple[str, datetime, Event]], fold: EventFold | None = None) -> EventFold:
    fold = fold or EventFold()
    for _, at, event in rows:
        fold.apply(event, at, "u")
    return fold


def test_a_removal_while_the_log_is_read_leaves_no_low_counters(path: str, open_log: Opener, tmp_path: Path) -> None:
    with open_log("old", days_ago(35)) as log:
        for _ in range(3):
            log.emit(StreamProgress("a", "orders", 0, "q", "r", StreamBatches(1, 1, NOW, 5, input_rows=5)))
    removals = iter([True])

    class Removing(EventReader):
        """Events are removed between its first two reads."""

        def last_ids(self, where: str, rows: int) -> list[str]:
            if next(removals, False):
                retention = Retention(None, 30 * DAY_S)
                log_update(open_log("next", days_ago(0), retention=retention, trims=True))
            return super().last_ids(where, rows)

    file = tmp_path / "metrics.json"
    for _ in range(2):
        samples = fold_log(Removing(path), file, "log")[1].samples

        assert samples.of(catalogue.INPUT_ROWS) == {("a",): 15}


def test_a_long_log_is_read_in_parts(path: str, open_log: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    log_update(open_log("u", days_ago(0)), *(("a", number) for number in range(6)))
    sizes: list[int] = []

    class Counting(EventReader):
        def rows(self, columns: str, where: str, order: str = "id") -> list[dict[str, Any]]:
            found = super().rows(columns, where, order)
            sizes.append(len(found))
            return found

    whole = list(recorded_events(EventReader(path)))
    monkeypatch.setattr(recorded, "ROWS_AT_ONCE", 3)

    assert list(recorded_events(Counting(path))) == whole
    assert list(recorded_events(EventReader(path), whole[1].row_id)) == whole[2:]
    assert sizes == [3, 3, 1]


def test_running_update_removes_old_events_and_continues_to_write(path: str, open_log: Opener) -> None:
    log_update(open_log("old", days_ago(91)), ("a", 0))
    log = open_log("goes on", days_ago(0), retain_days=90, compact_every_appends=CHECKPOINT_EVERY_APPENDS)
    with log:
        for batch in range(CHECKPOINT_EVERY_APPENDS):
            log.emit(BatchDone("a", "orders", 0, batch, COUNTS))
        deadline = time.monotonic() + 30
        while len(stored(path)) > CHECKPOINT_EVERY_APPENDS + 1 and time.monotonic() < deadline:
            time.sleep(0.05)
        log.emit(BatchDone("a", "orders", 0, CHECKPOINT_EVERY_APPENDS, COUNTS))
        found = stored(path)

    assert found == [("old", "a", 0), *(("goes on", "a", batch) for batch in range(CHECKPOINT_EVERY_APPENDS + 1))]
