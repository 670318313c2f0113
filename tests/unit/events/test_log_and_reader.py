from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headrace.errors import PipelineError
from headrace.events.envelope import Origin, Stamp, seq_no_at, to_row
from headrace.events.log import CHECKPOINT_EVERY_APPENDS, COMPACT_ABOVE_FILES, TABLE_PROPERTIES, EventLog, maintain
from headrace.events.outcome import OutcomeBuilder
from headrace.events.reader import EventReader, batch_counts
from headrace.events.schema import SCHEMA
from headrace.events.types import (
    BatchDone,
    BatchRunning,
    DatasetDefined,
    Event,
    FlowDefined,
    FlowLagMetrics,
    FlowStateChanged,
    FlowStateMetrics,
    FlowTotal,
    StreamProgress,
    UpdateCreated,
    UpdateStateChanged,
    UpdateTotals,
)
from headrace.model.datasets import Kind
from headrace.model.expectations import Action, ExpectationCount
from headrace.model.outcome import BatchTasks, FlowCounts, FlowState, PartitionLag, UpdateState
from headrace.model.stream_progress import StreamBatches

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
RULES = (ExpectationCount("valid", Action.DROP, 8, 2),)
COUNTS = FlowCounts(rows_written=8, rows_dropped=2, expectations=RULES)

ONE_UPDATE: tuple[Event, ...] = (
    UpdateCreated("USER_ACTION", {"name": "flights"}),
    DatasetDefined("orders", Kind.STREAMING_TABLE, "tables/default/orders", ("valid",)),
    FlowDefined("orders", "orders"),
    FlowDefined("late", "orders"),
    UpdateStateChanged(UpdateState.RUNNING),
    FlowStateChanged("orders", "orders", FlowState.RUNNING, attempt=1),
    BatchDone("orders", "orders", 0, 0, COUNTS),
    BatchDone("orders", "orders", 0, 1, COUNTS),
    FlowStateChanged("orders", "orders", FlowState.COMPLETED, attempt=1, duration_s=1.25),
    FlowStateChanged(
        "late", "orders", FlowState.FAILED, attempt=2, error={"code": "X", "message": "no"}, duration_s=0.5
    ),
    UpdateStateChanged(UpdateState.FAILED, {"code": "X", "message": "no"}),
)

Opener = Callable[..., EventLog]


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "system" / "events")


@pytest.fixture
def open_log(path: str) -> Iterator[Opener]:
    logs: list[EventLog] = []
    ids = count()
    ticks = count()

    def opened(update_id: str = "u1", start: datetime = NOON) -> EventLog:
        log = EventLog(
            path,
            origin=Origin("p1", "flights", update_id),
            clock=lambda: start + timedelta(milliseconds=next(ticks)),
            new_id=lambda: f"id{next(ids)}",
        )
        logs.append(log)
        return log

    yield opened
    for log in logs:
        log.close()


def test_reader_skips_batches_that_a_totals_event_includes(path: str, open_log: Opener) -> None:
    builder = OutcomeBuilder("u1")
    batches = [BatchDone(flow, "orders", 0, n, COUNTS) for n in range(4) for flow in ("orders", "late")]
    with open_log() as log:
        for number, event in enumerate((*ONE_UPDATE[:5], *batches)):
            builder.apply(event, log.emit(event))
            if number == 9:
                log.emit(builder.total())
                before_totals = EventReader(path)
    read: list[str] = []

    class Counting(EventReader):
        """Takes note of the batches that it reads."""

        def rows(self, columns: str, where: str, order: str = "id") -> list[dict[str, Any]]:
            rows = super().rows(columns, where, order)
            read.extend(row["id"] for row in rows if row.get("origin", {}).get("batch_id") is not None)
            return rows

    outcome = Counting(path).outcome()

    assert outcome == builder.outcome() == before_totals.outcome()
    assert outcome is not None
    assert [flow.counts.rows_written for flow in outcome.flows] == [32, 32]
    assert len(read) == len(batches) - 5


@given(st.lists(st.tuples(st.sampled_from("RBPSTOLW"), st.sampled_from("ab")), max_size=10))
@example([("L", "a"), ("W", "b"), ("R", "b"), ("T", "a"), ("L", "b"), ("S", "a")])
@example([("L", "a"), ("W", "b"), ("O", "a"), ("L", "b"), ("T", "a"), ("O", "a")])
@example([("R", "a"), ("R", "b"), ("B", "a"), ("T", "a"), ("P", "b"), ("R", "a")])
@example([("R", "a"), ("R", "b"), ("B", "a"), ("T", "a"), ("B", "b"), ("B", "b"), ("R", "b"), ("S", "b")])
@settings(max_examples=8, deadline=None)
def test_reports_read_from_the_log_are_those_of_the_running_update(steps: list[tuple[str, str]]) -> None:
    builder, numbers, rows = OutcomeBuilder("u1"), dict.fromkeys("ab", 0), []

    def emit(event: Event) -> None:
        at = NOON + timedelta(seconds=len(rows))
        rows.append(to_row(event, origin=Origin("p1", "flights", "u1"), stamp=Stamp(seq_no_at(at), at, "log", "id")))
        if not isinstance(event, UpdateTotals):
            builder.apply(event, at)

    for event in (UpdateCreated("USER_ACTION"), *(FlowDefined(flow, "orders") for flow in "ab")):
        emit(event)
    for step, flow in steps:
        number = numbers[flow]
        numbers[flow] += step in "BP"
        made: dict[str, Callable[[], Event]] = {
            "R": lambda flow=flow, number=number: BatchRunning(flow, "orders", BatchTasks(number, 1, 2, 6)),
            "B": lambda flow=flow, number=number: BatchDone(flow, "orders", 0, number, COUNTS),
            "P": lambda flow=flow, number=number: StreamProgress(
                flow, "orders", 0, "q", "r", StreamBatches(number, 1, NOON, 5)
            ),
            "S": lambda flow=flow: FlowStateChanged(flow, "orders", FlowState.RUNNING, attempt=1),
            "L": lambda flow=flow: FlowLagMetrics(flow, "orders", (PartitionLag("t", 0, 1, len(rows)),)),
            "W": lambda flow=flow: FlowStateMetrics(flow, "orders", (), f"at {len(rows)}"),
            "T": builder.total,
            # As an older version recorded them.
            "O": lambda: replace(builder.total(), reports=None),
        }
        emit(made[step]())
    with TemporaryDirectory() as folder:
        write_deltalake(folder, pa.Table.from_pylist(rows, SCHEMA))

        assert EventReader(folder).outcome() == builder.outcome()


def test_a_long_batch_is_shown_while_it_runs(path: str, open_log: Opener) -> None:
    tasks = BatchTasks(3, 1, 2, 6)
    with open_log() as log:
        for event in (*ONE_UPDATE[:8], BatchRunning("orders", "orders", tasks)):
            log.emit(event)

    outcome = EventReader(path).outcome()

    assert outcome is not None
    assert outcome.flows[0].batch == tasks


def test_totals_and_reports_of_an_update_that_still_records_are_not_those_of_the_next(
    path: str, open_log: Opener
) -> None:
    mine, other = FlowLagMetrics("a", "t", (PartitionLag("t", 0, 1, 5),)), FlowLagMetrics("a", "t")
    lost, log = open_log("lost"), open_log("u1")
    builder = OutcomeBuilder("u1")
    lost.emit(UpdateCreated("USER_ACTION"))
    for event in (UpdateCreated("USER_ACTION"), FlowDefined("a", "t"), BatchDone("a", "t", 0, 1, COUNTS), mine):
        builder.apply(event, log.emit(event))
    log.flush()
    for late in (other, UpdateTotals((FlowTotal("a", "t", 0, 9, FlowCounts(rows_written=99)),))):
        lost.emit(late)
    lost.flush()

    assert EventReader(path).outcome() == builder.outcome()


def test_outcome_read_from_the_log_equals_that_of_the_running_update(path: str, open_log: Opener) -> None:
    builder = OutcomeBuilder("u1")
    with open_log() as log:
        for event in ONE_UPDATE:
            builder.apply(event, log.emit(event))

    outcome = EventReader(path).outcome()

    assert outcome == builder.outcome()
    assert outcome is not None
    assert [flow.counts.rows_written for flow in outcome.flows] == [16, 0]


def test_batch_recorded_twice_counts_once(path: str, open_log: Opener) -> None:
    for update in ("u1", "u2"):
        with open_log(update) as log:
            log.emit(UpdateCreated("USER_ACTION"))
            log.emit(BatchDone("orders", "orders", 0, 7, COUNTS))
            log.emit(BatchDone("orders", "orders", 0, 7, FlowCounts(rows_written=99)))

    reader = EventReader(path)
    outcome = reader.outcome("u1")

    assert reader.flow_totals() == {"orders": COUNTS}
    assert batch_counts(reader, "orders", 0, 7) == COUNTS
    assert outcome is not None
    assert outcome.flows[0].counts == COUNTS


def test_what_was_read_is_read_again_after_an_event_and_for_another_key(path: str, open_log: Opener) -> None:
    """Guards that pages, which keep a reader for days, show what was written since."""
    reader = EventReader(path)

    def updates(key: str) -> int:
        return reader.read_once("updates", key, lambda: readings.append(key) or len(list(reader.events())))

    readings: list[str] = []
    counts = [updates("a")]
    for update in ("u1", "u2"):
        with open_log(update) as log:
            log.emit(UpdateCreated("USER_ACTION"))
        counts += [updates("a"), updates("a")]
    counts.append(updates("b"))

    assert counts == [0, 1, 1, 2, 2, 2]
    assert readings == ["a", "a", "a", "b"]


def test_batches_are_separated_by_flow_and_epoch(path: str, open_log: Opener) -> None:
    with open_log() as log:
        log.emit(BatchDone("a", "t", 0, 5, COUNTS))
        log.emit(BatchDone("a", "t", 1, 2, COUNTS))
        log.emit(BatchDone("b", "t", 0, 9, COUNTS))
        log.emit(FlowStateChanged("a", "t", FlowState.COMPLETED))

    reader = EventReader(path)

    assert reader.last_batches() == {("a", "t"): (1, 2), ("b", "t"): (0, 9)}
    assert batch_counts(reader, "b", 0, 5) is None


@pytest.mark.parametrize("event", [event for event in ONE_UPDATE if isinstance(event, (UpdateCreated, BatchDone))])
def test_durable_event_is_stored_before_emit_returns(path: str, open_log: Opener, event: Event) -> None:
    log = open_log()

    log.emit(FlowDefined("first", "orders"))
    log.emit(event)

    assert [row["event_type"] for row in EventReader(path).events()] == ["flow_definition", event.event_type]


def test_non_durable_event_is_stored_within_seconds(path: str, open_log: Opener) -> None:
    log = open_log()

    log.emit(FlowDefined("orders", "orders"))

    reader = EventReader(path)
    deadline = time.monotonic() + 5
    while not reader.exists and time.monotonic() < deadline:
        time.sleep(0.02)
    assert [row["origin"]["flow_name"] for row in reader.events()] == ["orders"]


def test_events_keep_the_order_of_calls_when_the_clock_goes_back(path: str, open_log: Opener) -> None:
    with open_log("u1", NOON) as log:
        log.emit(UpdateCreated("FIRST"))
    with open_log("u2", NOON - timedelta(days=1)) as log:
        log.emit(UpdateCreated("SECOND"))

    reader = EventReader(path)

    assert [row["origin"]["update_id"] for row in reader.events()] == ["u1", "u2"]
    assert reader.latest_update_id() == "u2"


def test_reader_continues_after_the_last_event_it_read(path: str, open_log: Opener) -> None:
    log = open_log()
    reader = EventReader(path)
    log.emit(UpdateCreated("USER_ACTION"))
    (first,) = reader.events()
    log.emit(BatchDone("orders", "orders", 0, 0))

    later = list(reader.events(after=first["sequence"], update_id="u1"))

    assert [row["event_type"] for row in later] == ["flow_progress"]
    assert list(reader.events(after=later[0]["sequence"])) == []


def test_reader_returns_only_events_of_the_requested_update(path: str, open_log: Opener) -> None:
    for update in ("u1", "u2", "u3"):
        with open_log(update) as log:
            log.emit(UpdateCreated(update))

    reader = EventReader(path)

    assert [row["message"] for row in reader.events(update_id="u2")] == ["update created by u2"]
    assert reader.outcome("never") is None


def test_reader_returns_nothing_before_the_first_update(path: str) -> None:
    reader = EventReader(path)

    assert not reader.exists
    assert (list(reader.events()), reader.latest_update_id(), reader.outcome()) == ([], None, None)
    assert (batch_counts(reader, "f", 0, 0), reader.last_batches(), reader.flow_totals()) == (None, {}, {})


def test_no_event_is_lost_or_reordered_when_threads_emit_concurrently(path: str, open_log: Opener) -> None:
    log = open_log()
    flows = [f"f{number}" for number in range(6)]

    def run(flow: str) -> None:
        for batch in range(5):
            log.emit(FlowStateChanged(flow, "t", FlowState.RUNNING, attempt=batch))
            log.emit(BatchDone(flow, "t", 0, batch, COUNTS))

    threads = [threading.Thread(target=run, args=(flow,)) for flow in flows]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    origins = [row["origin"] for row in EventReader(path).events()]
    batches = {flow: [origin["batch_id"] for origin in origins if origin["flow_name"] == flow] for flow in flows}
    in_order = [value for batch in range(5) for value in (None, batch)]
    assert all(batches[flow] == in_order for flow in flows)


def test_compaction_of_small_files_keeps_all_events(path: str, open_log: Opener) -> None:
    log = open_log()
    log.emit(UpdateCreated("USER_ACTION"))
    for batch in range(COMPACT_ABOVE_FILES + 5):
        log.emit(BatchDone("orders", "orders", 0, batch, COUNTS))
    before = list(EventReader(path).events())

    log.close()

    assert len(DeltaTable(path).file_uris()) < 5
    assert list(EventReader(path).events()) == before


def age(path: str, by: timedelta) -> None:
    """Let everything that the log says have happened earlier."""
    folder, shift_ms = Path(path, "_delta_log"), int(by.total_seconds() * 1000)
    # A checkpoint has times as well: it is made of the commits anew.
    for checkpoint in (*folder.glob("*.parquet"), *folder.glob("_last_checkpoint")):
        checkpoint.unlink()
    for commit in folder.glob("*.json"):
        times = re.compile(r'("deletionTimestamp":|"timestamp":)(\d+)')
        commit.write_text(times.sub(lambda found: f"{found[1]}{int(found[2]) - shift_ms}", commit.read_text()))
    DeltaTable(path).create_checkpoint()
    for file in (*folder.iterdir(), *Path(path).glob("*.parquet")):
        os.utime(file, (file.stat().st_mtime - by.total_seconds(),) * 2)


def test_compacted_files_are_deleted_after_an_hour_even_in_an_older_log(path: str, open_log: Opener) -> None:
    kept = {key: "interval 7 days" for key in TABLE_PROPERTIES if key.endswith("Duration")}
    with open_log() as log:
        log.emit(UpdateCreated("USER_ACTION"))
    DeltaTable(path).alter.set_table_properties(kept)
    for update in range(2):
        with open_log(f"u{update}") as log:
            for batch in range(COMPACT_ABOVE_FILES + 5):
                log.emit(BatchDone("orders", "orders", update, batch, COUNTS))
        if update == 0:
            age(path, timedelta(hours=2))

    files = len(list(Path(path).glob("*.parquet")))
    commits = len(list(Path(path, "_delta_log").glob("*.json")))
    assert files < COMPACT_ABOVE_FILES + 15
    assert commits < COMPACT_ABOVE_FILES + 15
    assert len(list(EventReader(path).events())) == 2 * (COMPACT_ABOVE_FILES + 5) + 1


def test_writers_do_not_wait_for_maintenance(path: str) -> None:
    began, goes_on = threading.Event(), threading.Event()
    asked: list[bool] = []

    def maintenance(_path: str, compact: bool) -> None:  # noqa: FBT001 - as it is called
        asked.append(compact)
        began.set()
        assert goes_on.wait(30)

    ids = count()
    log = EventLog(
        path,
        origin=Origin("p1", "flights", "u1"),
        clock=lambda: NOON,
        new_id=lambda: f"id{next(ids)}",
        maintenance=maintenance,
    )
    for batch in range(CHECKPOINT_EVERY_APPENDS):
        log.emit(BatchDone("orders", "orders", 0, batch, COUNTS))
    assert began.wait(30)
    log.emit(BatchDone("orders", "orders", 0, CHECKPOINT_EVERY_APPENDS, COUNTS))
    stored = len(list(EventReader(path).events()))
    goes_on.set()
    log.close()

    assert stored == CHECKPOINT_EVERY_APPENDS + 1
    # Closing it did not ask to compact so few files.
    assert asked == [False]


def test_reader_continues_after_old_commits_are_deleted(path: str, open_log: Opener) -> None:
    log = open_log()
    log.emit(UpdateCreated("USER_ACTION"))
    reader = EventReader(path)
    assert reader.exists
    for batch in range(3):
        log.emit(BatchDone("orders", "orders", 0, batch, COUNTS))
    maintain(path, compact=False)
    for commit in sorted(Path(path, "_delta_log").glob("*.json"))[:-1]:
        commit.unlink()

    assert len(list(reader.events())) == 4


def test_unwritten_events_are_retried_after_a_storage_error(path: str, open_log: Opener) -> None:
    log = open_log()
    log.emit(UpdateStateChanged(UpdateState.RUNNING))
    Path(path).parent.mkdir(parents=True)
    Path(path).write_text("in the way")

    with pytest.raises(PipelineError) as refused:
        log.emit(UpdateCreated("USER_ACTION"))
    Path(path).unlink()
    log.emit(BatchDone("orders", "orders", 0, 0))

    assert refused.value.code == "EVENTS.NOT_WRITTEN"
    stored = [row["event_type"] for row in EventReader(path).events()]
    assert stored == ["update_progress", "create_update", "flow_progress"]


def test_emit_fails_with_a_code_if_the_storage_cannot_be_opened(path: str, open_log: Opener) -> None:
    Path(path).parent.mkdir(parents=True)
    Path(path).write_text("in the way")

    with pytest.raises(PipelineError) as refused:
        open_log().emit(UpdateCreated("USER_ACTION"))

    assert refused.value.code == "EVENTS.NOT_WRITTEN"
    assert "Not a directory" in refused.value.detail


def test_reader_fails_with_a_code_if_a_file_of_the_log_is_missing(path: str, open_log: Opener) -> None:
    with open_log() as log:
        log.emit(UpdateCreated("USER_ACTION"))
    for file in Path(path).glob("*.parquet"):
        file.unlink()

    with pytest.raises(PipelineError) as unreadable:
        EventReader(path).outcome()

    assert unreadable.value.code == "EVENTS.NOT_READABLE"


def test_closed_log_rejects_events(open_log: Opener) -> None:
    log = open_log()
    log.close()
    log.close()

    with pytest.raises(RuntimeError):
        log.emit(UpdateCreated("USER_ACTION"))


def test_reader_imports_neither_spark_nor_pandas(path: str, open_log: Opener) -> None:
    with open_log() as log:
        for event in ONE_UPDATE:
            log.emit(event)
    program = (
        "import sys; from headrace.events.reader import EventReader;"
        f"print(EventReader({path!r}).outcome().state.value, 'pyspark' in sys.modules, 'pandas' in sys.modules)"
    )

    printed = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert printed.split() == ["FAILED", "False", "False"]
