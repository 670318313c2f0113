"""Maintenance of a storage without a session: what it plans, removes, keeps, records, and when it refuses."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from headrace.cli.maintain import actions_text
from headrace.errors import PipelineError
from headrace.events.envelope import from_row
from headrace.events.reader import EventReader
from headrace.events.upkeep import TableMaintained
from headrace.model.maintenance import DAY_S, MaintenancePolicy, MaintenanceRequest, Task, VacuumScope
from headrace.model.time_window import TimeWindow
from headrace.plan import maintenance
from headrace.plan.maintenance import Action, ActionState, Size
from headrace.project.maintenance.actions import TableActions
from headrace.project.maintenance.lock import maintenance_lock
from headrace.project.maintenance.maintain import Maintenance
from headrace.settings.load import load_settings
from headrace.settings.storage import MonitoringFile
from headrace.storage import maintained_tables
from headrace.storage.dead_letters import DeadLetter, DeadLetterBatch, set_dead_letter_status, write_dead_letters
from headrace.storage.flow_record import FlowRecord, write_record

NOW = 1_800_000_000.0
COMMITS = 5
NEWEST = COMMITS - 1
NO_JVM = MaintenanceRequest(tasks=(Task.RETENTION, Task.VACUUM, Task.CHECKPOINT))
DRY = replace(NO_JVM, dry_run=True)


def no_session():
    raise AssertionError("a session was opened")


def age(folder, days):
    for file in [folder, *folder.rglob("*")]:
        if file.is_file():
            os.utime(file, (NOW - days * DAY_S, NOW - days * DAY_S))


class ExpiredParts:
    """Old epochs: none, or one that is past its retention."""

    def __init__(self, *, has_one=False):
        self.has_one, self.done = has_one, 0

    def __call__(self, task, *, dry_run):
        state = ActionState.PLANNED if dry_run else ActionState.DONE
        if self.has_one and task is Task.EPOCHS:
            self.done += not dry_run
            yield Action("orders", "/", task, state, "1 old epoch", Size(3, 9), Size(0, 0))


class Storage:
    """A storage with a view that was recomputed many times, and a streaming table; each has a transaction."""

    def __init__(self, folder: Path) -> None:
        (folder / "pipeline.yml").write_text("name: p\n")
        self.settings = load_settings(folder / "pipeline.yml", environ={})
        self.root = folder / "storage"
        self.clock, self.expired = None, ExpiredParts()
        self.view, self.stream = self.table("totals", "replace"), self.table("orders", "append")

    def fill(self) -> None:
        transaction = CommitProperties(app_transactions=[Transaction("headrace:p:orders:0", 7)])
        for path, mode in ((self.view, "overwrite"), (self.stream, "append")):
            for number in range(COMMITS):
                rows = pa.table({"i": pa.array([number], pa.int64())})
                write_deltalake(path, rows, mode=mode, commit_properties=None if number else transaction)
        age(self.root / "tables", 40)

    def table(self, name: str, mode: str) -> str:
        record = FlowRecord(flow=name, dataset=name, mode=mode, started_at=1.0)
        write_record(self.flow(name) / "flow.json", record)
        return str(self.root / "tables" / "default" / name)

    def flow(self, name: str) -> Path:
        folder = self.root / "checkpoints" / "default" / name / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def files(self, path: str) -> int:
        return len(list(Path(path).glob("*.parquet")))

    def maintain(self, request=NO_JVM, *, is_held=False, **policy):
        return self.maintenance(is_held=is_held, **policy).maintain(request)

    def maintenance(self, *, is_held=False, **policy):
        settings = replace(self.settings, maintenance=MaintenancePolicy(**policy))
        actions = TableActions(no_session, str)
        clock = self.clock or (lambda: NOW)
        return Maintenance(settings, lambda: actions, clock, lambda: is_held, str, self.expired)

    def done(self) -> int:
        """How many of the four actions have been done."""
        checkpoints = [any(Path(path, "_delta_log").glob("*.checkpoint.parquet")) for path in (self.view, self.stream)]
        return self.expired.done + sum(checkpoints) + (self.files(self.view) == 1)

    def snapshot(self) -> dict[str, int]:
        return {str(file): file.stat().st_mtime_ns for file in self.root.rglob("*") if file.is_file()}


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("filled")
    Storage(folder).fill()
    return folder


@pytest.fixture
def storage(tmp_path, filled, monkeypatch):
    # Commits are dear to make.
    monkeypatch.setattr(maintenance, "CHECKPOINT_ABOVE_COMMITS", COMMITS - 1)
    # With the times of the files.
    shutil.copytree(filled, tmp_path, dirs_exist_ok=True)
    return Storage(tmp_path)


def summary(actions):
    return [(action.table, action.task.value, action.state.value) for action in actions]


def test_a_dry_run_plans_what_the_run_does_and_changes_nothing(storage):
    before = storage.snapshot()

    planned = storage.maintain(DRY)

    assert storage.snapshot() == before
    done = storage.maintain()
    assert summary(planned) == [
        ("orders", "checkpoint", "PLANNED"),
        ("totals", "vacuum", "PLANNED"),
        ("totals", "checkpoint", "PLANNED"),
    ]
    assert summary(done) == [(table, task, "DONE") for table, task, _ in summary(planned)]
    assert [action.after for action in done] == [action.after for action in planned]
    assert (storage.files(storage.view), storage.files(storage.stream)) == (1, COMMITS)
    assert DeltaTable(storage.view).to_pyarrow_table().to_pylist() == [{"i": NEWEST}]
    assert storage.maintain() == ()


NIGHT = TimeWindow.of("09:00-10:00 UTC")


@pytest.mark.parametrize(
    ("policy", "request_", "done"),
    [
        # NOW is 08:00.
        ({"window": NIGHT}, NO_JVM, []),
        ({"window": NIGHT}, replace(NO_JVM, anytime=True), ["epochs", "checkpoint", "vacuum", "checkpoint"]),
        ({"window": TimeWindow.of("07:00-08:03 UTC")}, NO_JVM, ["epochs", "checkpoint", "vacuum"]),
        ({"most_s": 120.0}, NO_JVM, ["epochs", "checkpoint"]),
    ],
)
def test_no_action_starts_outside_of_the_window_or_after_the_longest_time(storage, policy, request_, done):
    storage.expired = ExpiredParts(has_one=True)
    # Each action that is done takes a minute.
    storage.clock = lambda: NOW + 60 * storage.done()

    found = storage.maintain(replace(request_, tasks=(Task.EPOCHS, *request_.tasks)), **policy)

    assert [action.task.value for action in found] == ["epochs", "checkpoint", "vacuum", "checkpoint"]
    assert [action.task.value for action in found if action.state is ActionState.DONE] == done
    left = [action.reason for action in found if action.state is ActionState.SKIPPED]
    assert all("maintenance." in reason for reason in left)
    assert (len(left) + len(done), storage.done()) == (4, len(done))


def test_each_action_is_recorded_in_a_log_of_its_own(storage):
    done = storage.maintain(MaintenanceRequest(("totals",), (Task.VACUUM,)))

    (row,) = EventReader(storage.settings.layout.monitoring(MonitoringFile.OPERATIONS)).events()
    event = from_row(row)
    assert isinstance(event, TableMaintained)
    assert (event.dataset, event.task, event.state, event.files_before, event.files_after) == (
        "totals",
        "vacuum",
        "DONE",
        COMMITS,
        1,
    )
    assert done[0].before.size_bytes == event.bytes_before
    assert not Path(storage.settings.layout.events).exists()


def test_a_stream_keeps_the_files_that_it_has_not_read(storage):
    offsets = storage.flow("copy") / "0" / "offsets"
    offsets.mkdir(parents=True)
    table_id = str(DeltaTable(storage.view).metadata().id)
    for batch in (0, 1):
        offset = {"reservoirId": table_id, "reservoirVersion": NEWEST - 2, "index": -1, "isStartingVersion": False}
        (offsets / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(offset)}")

    (done,) = storage.maintain(MaintenanceRequest(("totals",), (Task.VACUUM,)))

    assert f"default/copy/copy/0 needs version {NEWEST - 2} and later" in done.reason
    # The commit of that version removes the file of the one before.
    assert {row["i"] for row in DeltaTable(storage.view, version=NEWEST - 2).to_pyarrow_table().to_pylist()} == {
        NEWEST - 2
    }
    assert storage.files(storage.view) == 4

    (offsets / "1").write_text("torn")
    assert storage.maintain(MaintenanceRequest(("totals",), (Task.VACUUM,)))[0].state is ActionState.SKIPPED


def test_a_streaming_table_is_vacuumed_only_on_request(storage):
    DeltaTable(storage.stream).optimize.compact()
    age(storage.root / "tables", 40)

    skipped, done = (
        storage.maintain(MaintenanceRequest(("orders",), (Task.VACUUM,)), vacuum=scope)[0]
        for scope in (VacuumScope.VIEWS, VacuumScope.ALL)
    )

    assert (skipped.state, done.state) == (ActionState.SKIPPED, ActionState.DONE)
    assert storage.files(storage.stream) == 1
    assert DeltaTable(storage.stream).to_pyarrow_table().num_rows == COMMITS


def test_a_log_checkpoint_keeps_transactions_and_every_commit(storage):
    log = Path(storage.stream) / "_delta_log"
    before = sorted(log.glob("*.json"))

    storage.maintain(MaintenanceRequest(("orders",), (Task.CHECKPOINT,)))

    assert sorted(log.glob("*.json")) == before
    for file in before[:-1]:
        file.unlink()
    assert DeltaTable(storage.stream).transaction_version("headrace:p:orders:0") == 7
    assert DeltaTable(storage.stream).to_pyarrow_table().num_rows == COMMITS


def test_old_replayed_dead_letters_are_deleted_and_open_ones_are_kept(storage):
    folder = storage.flow("orders")
    for batch, days in enumerate((50, 50, 3)):
        at = datetime.fromtimestamp(NOW - days * DAY_S, UTC)
        rows = [DeadLetter(f'{{"i": {batch}}}', "e", None, {})]
        write_dead_letters(folder, DeadLetterBatch("orders", 0, batch, "u", at), rows, lambda: None)
    set_dead_letter_status(folder, ["0-0-0", "0-2-0"], "replayed")
    request = MaintenanceRequest(("orders",), (Task.RETENTION,))

    assert summary(storage.maintain(request, is_held=True)) == [("orders, dead letters", "retention", "SKIPPED")]
    (done,) = storage.maintain(request)

    left = DeltaTable(str(folder / "failing_rows")).to_pyarrow_table().column("id").to_pylist()
    assert (done.rows, sorted(left)) == (1, ["0-1-0", "0-2-0"])
    storage.maintain(request, open_rows_retain_s=10 * DAY_S)
    assert DeltaTable(str(folder / "failing_rows")).to_pyarrow_table().num_rows == 1


def test_quarantined_rows_stay_while_a_checkpoint_cannot_be_read(storage):
    path = storage.table("orders", "append") + "_quarantine"
    at = [datetime.fromtimestamp(NOW - 50 * DAY_S, UTC)]
    write_deltalake(path, pa.table({"status": ["released"], "quarantined_at": at}))
    request = MaintenanceRequest(("orders",), (Task.RETENTION,), dry_run=True)
    offsets = storage.root / "dbfs" / "reader" / "offsets"
    offsets.mkdir(parents=True)
    (offsets / "0").write_text("torn")

    (skipped,) = storage.maintain(request)
    shutil.rmtree(offsets)
    (planned,) = storage.maintain(request)

    assert (skipped.state.value, planned.state.value, planned.rows) == ("SKIPPED", "PLANNED", 1)


def test_rows_of_a_quarantine_whose_types_were_widened_are_counted_from_its_files(storage):
    path = Path(storage.table("orders", "append") + "_quarantine")
    at = [datetime.fromtimestamp(NOW - days * DAY_S, UTC) for days in (50, 50, 3)]
    rows = pa.table({"status": ["released", "open", "replayed"], "quarantined_at": at})
    write_deltalake(path, rows)
    log = path / "_delta_log" / f"{1:020}.json"
    features = {"readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening"]}
    log.write_text(json.dumps({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}))

    (planned,) = storage.maintain(MaintenanceRequest(("orders",), (Task.RETENTION,), dry_run=True))

    assert (planned.table, planned.rows) == ("orders_quarantine", 1)


def test_old_logs_are_removed_and_those_that_an_update_may_use_are_kept(storage):
    logs = Path(storage.settings.layout.logs)
    logs.mkdir(parents=True)
    for name, days in (("a.log", 20), ("b.log", 2), ("spark.log", 20), ("headrace-modules-1.zip", 20), ("own.txt", 99)):
        (logs / name).write_text("x")
        age(logs / name, days)
    request = MaintenanceRequest(tasks=(Task.RETENTION,))

    storage.maintain(request, is_held=True)
    beside = {file.name for file in logs.iterdir()}
    storage.maintain(request)

    assert beside == {"b.log", "spark.log", "headrace-modules-1.zip", "own.txt"}
    assert {file.name for file in logs.iterdir()} == {"b.log", "own.txt"}


def test_a_damaged_table_does_not_stop_the_others(storage):
    (Path(storage.stream) / "_delta_log" / f"{NEWEST:020}.json").write_text("")

    failed, *done = storage.maintain()

    assert (failed.table, failed.state) == ("orders", ActionState.FAILED)
    assert summary(done) == [("totals", "vacuum", "DONE"), ("totals", "checkpoint", "DONE")]


def test_a_table_with_a_file_elsewhere_is_not_vacuumed(storage):
    commit = Path(storage.view) / "_delta_log" / f"{COMMITS:020}.json"
    add = {"path": "file:/other/a.parquet", "size": 1, "partitionValues": {}, "modificationTime": 0, "dataChange": True}
    commit.write_text(json.dumps({"add": add}))

    (skipped,) = storage.maintain(MaintenanceRequest(("totals",), (Task.VACUUM,)))

    assert (skipped.state, "file outside of its folder: /other/a.parquet" in skipped.reason) == (
        ActionState.SKIPPED,
        True,
    )


def test_a_log_checkpoint_by_delta_waits_while_a_position_is_unknown(storage):
    (storage.root / "dbfs").symlink_to("nowhere")
    log = Path(storage.stream) / "_delta_log" / f"{COMMITS:020}.json"
    features = {"readerFeatures": ["typeWidening"], "writerFeatures": ["typeWidening"]}
    log.write_text(json.dumps({"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **features}}))

    (skipped,) = storage.maintain(MaintenanceRequest(("orders",), (Task.CHECKPOINT,)))

    assert (skipped.state, skipped.reason) == (ActionState.SKIPPED, "dbfs is a link to nothing")


def test_an_error_fails_its_task_and_keeps_what_was_done(storage, monkeypatch):
    read, calls = maintained_tables.table_facts, []

    def fail_once_vacuumed(table, *args, **more):
        calls.append(table.name)
        if calls.count("totals") > 1:
            raise FileNotFoundError("a commit")
        return read(table, *args, **more)

    monkeypatch.setattr(maintained_tables, "table_facts", fail_once_vacuumed)
    done = storage.maintain(MaintenanceRequest(tasks=(Task.VACUUM, Task.CHECKPOINT)))

    assert summary(done) == [
        ("orders", "checkpoint", "DONE"),
        ("totals", "vacuum", "DONE"),
        ("totals", "checkpoint", "FAILED"),
    ]
    assert done[-1].reason == "FileNotFoundError: a commit"
    rows = EventReader(storage.settings.layout.monitoring(MonitoringFile.OPERATIONS)).events()
    assert len(list(rows)) == len(done)


def test_what_is_due_is_asked_of_some_datasets_and_reads_all_checkpoints_once(storage, monkeypatch):
    read, calls, offered = maintained_tables.known_positions, [], []
    monkeypatch.setattr(maintained_tables, "known_positions", lambda *args: (calls.append(args), read(*args))[1])

    def choose(names):
        offered.extend(names)
        return ["totals"]

    due = storage.maintenance().due(choose)

    assert (offered, {action.table for action in due}) == (["orders", "totals"], {"totals"})
    assert due == tuple(one for one in storage.maintain(replace(DRY, tasks=tuple(Task))) if one.table == "totals")
    # Once for each of the two.
    assert len(calls) == 2
    assert storage.maintenance().due(lambda _names: ()) == ()


def test_refused_requests_name_the_problem(storage):
    def code(request, **policy):
        with pytest.raises(PipelineError) as caught:
            storage.maintain(request, **policy)
        return caught.value.code

    assert code(MaintenanceRequest(("ordres",))) == "MAINTENANCE.UNKNOWN"
    assert code(NO_JVM, retain_s=6 * DAY_S) == "MAINTENANCE.SHORT_RETENTION"
    assert storage.maintain(replace(NO_JVM, short_retention=True), retain_s=6 * DAY_S)
    with maintenance_lock(storage.root / "system" / "maintenance.lock"):
        assert code(NO_JVM) == "MAINTENANCE.RUNNING"


def test_the_text_fits_into_80_columns_and_sums_up(storage):
    lines = actions_text(storage.maintain(DRY), is_planned=True).splitlines()

    assert max(map(len, lines)) <= 80
    assert lines[:3] == ["orders", "  checkpoint  5 commits since the last checkpoint of the log", "totals"]
    assert lines[3].startswith("  vacuum      4 files, ")
    assert lines[-1].startswith("3 actions planned; 4 files would be removed, ")
