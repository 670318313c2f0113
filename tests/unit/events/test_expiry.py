"""Which events an event log keeps that does not keep all of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from headrace.events.envelope import Origin
from headrace.events.expiry import Retention
from headrace.events.log import CHECKPOINT_EVERY_APPENDS, EventLog
from headrace.events.outcome import Tally
from headrace.events.reader import EventReader
from headrace.events.recorded import newest_trimming, recorded_events
from headrace.events.types import BatchDone, StreamProgress, UpdateCreated, UpdateStateChanged
from headrace.metrics import catalogue
from headrace.metrics.samples import Samples
from headrace.metrics.trimmed import horizon_of, trimmed_fold
from headrace.model.outcome import FlowCounts, UpdateState
from headrace.model.stream_progress import StreamBatches
from headrace.project.update.log_trimming import record_trimming

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
COUNTS = FlowCounts(rows_written=8)
DAY_S = 86_400.0

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
    for recorded in recorded_events(reader):
        if not horizon_of(trimming).covers(recorded.row_id, recorded.event):
            fold.apply(recorded.event, recorded.at, recorded.update_id)
    return fold.samples


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
