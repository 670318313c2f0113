"""The stores of a flow on disk: which of them is older than the others, or torn, is said before the flow starts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from shutil import copytree, rmtree

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from headrace.checkpoints.damage import find_damage
from headrace.checkpoints.initial_offsets import DeltaPosition, create_initial_checkpoint
from headrace.graph.analysis import Source, SourceKind
from headrace.graph.resolved_flows import Mode
from headrace.model.names import Naming, QualifiedName
from headrace.settings.storage import StorageLayout
from headrace.storage import agreement
from headrace.storage.change_detection import StoredState
from headrace.storage.flow_record import FlowRecord, read_record, write_record
from headrace.storage.flow_records import transaction_id
from headrace.storage.health import health_of_flows, repair

QUERY = "3f2d"


class Stream:
    """A stream of a storage, as it is after some batches."""

    def __init__(self, root, make, mode=Mode.APPEND, sources=()):
        self.layout = StorageLayout(str(root))
        self.logged = {}
        self.state = StoredState(self.layout, Naming(), "p", lambda: 0.0, lambda *flow: self.logged.get(flow))
        self.flow = make.flow("s", mode=mode, sources=sources)
        self.file = self.state.record_file(self.flow)
        self.table = self.layout.table(Naming(), QualifiedName("s"))

    def checkpoint(self, epoch=0):
        return self.file.parent / str(epoch)

    def record(self, **changes):
        record = FlowRecord(**{"started_at": 1.0, "flow": "s", "dataset": "s", "mode": "append", **changes})
        write_record(self.file, record)

    def plans(self, batch, *, done=True, epoch=0, offset=None):
        checkpoint = self.checkpoint(epoch)
        for folder in ("offsets", "commits"):
            (checkpoint / folder).mkdir(parents=True, exist_ok=True)
        (checkpoint / "metadata").write_text(json.dumps({"id": QUERY}))
        position = {"logOffset": batch} if offset is None else offset
        (checkpoint / "offsets" / str(batch)).write_text(f"v1\n{{}}\n{json.dumps(position)}")
        if done:
            (checkpoint / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')

    def commits(self, batch, transaction=QUERY, **options):
        properties = CommitProperties(app_transactions=[Transaction(transaction, batch)])
        rows = pa.table({"id": pa.array([batch], pa.int32())})
        write_deltalake(self.table, rows, mode="append", commit_properties=properties, **options)

    @property
    def code(self):
        found = self.state.disagreement(self.flow)
        return None if found is None else found.code

    def health(self):
        (found,) = health_of_flows(self.layout, Naming(), "p", self.logged)
        return found


@pytest.fixture
def stream(tmp_path, make):
    found = Stream(tmp_path, make)
    found.record()
    for batch in (0, 1):
        found.plans(batch)
        found.commits(batch)
    return found


def without(stream, *names):
    for name in names:
        (stream.checkpoint() / name).unlink()


def test_stores_agree_after_a_complete_batch_and_each_step_of_an_interrupted_one(stream):
    said = [stream.code]
    stream.plans(2, done=False)
    said.append(stream.code)
    stream.commits(2)
    said.append(stream.code)

    assert said == [None, None, None]


@pytest.mark.parametrize("names", [("offsets/1", "commits/1"), ("offsets/1",), ("offsets/0", "offsets/1", "commits/1")])
def test_a_checkpoint_that_lacks_its_newest_batch_is_older_than_the_table(stream, names):
    without(stream, *names)

    assert stream.code == "FLOW.CHECKPOINT_OLD"


def test_a_checkpoint_without_batches_is_older_than_the_table(stream):
    for folder in ("offsets", "commits"):
        rmtree(stream.checkpoint() / folder)

    assert stream.code == "FLOW.CHECKPOINT_OLD"
    assert "The table has batch 1, but" in stream.health().problem.detail


def test_transactions_of_the_spark_sink_and_of_our_table_writer_are_both_recognized(stream):
    stream.plans(2)
    stream.commits(2, transaction_id("p", "s", 0))
    agrees = stream.code
    without(stream, "offsets/2", "commits/2")

    assert (agrees, stream.code) == (None, "FLOW.CHECKPOINT_OLD")


def test_a_renamed_pipeline_continues_with_its_state(tmp_path, make):
    """A pipeline's id follows from its name."""

    def named(pipeline):
        return StoredState(StorageLayout(str(tmp_path)), Naming(), pipeline, lambda: 0.0, lambda *_: None)

    stream = Stream(tmp_path, make)
    write_record(stream.file, replace(named("p").progress_of(stream.flow), started_at=1.0))
    stream.plans(0)
    stream.commits(0, transaction_id("p", "s", 0))
    renamed = named("other")
    goes_on = renamed.disagreement(stream.flow)
    rmtree(stream.table)
    stream.commits(0, "somebody's")

    assert goes_on is None
    assert renamed.transaction(renamed.progress_of(stream.flow)) == transaction_id("p", "s", 0)
    assert renamed.disagreement(stream.flow).code == "FLOW.TABLE_OLD"


def test_a_record_without_a_pipeline_accepts_transactions_of_any_pipeline(tmp_path, make):
    stream = Stream(tmp_path, make)
    stream.record()
    stream.plans(0)
    stream.commits(0, transaction_id("earlier", "s", 0))

    assert stream.code is None


def test_a_table_restored_from_a_copy_is_older_than_the_checkpoint(stream, tmp_path):
    copytree(stream.table, tmp_path / "copy")
    stream.plans(2)
    stream.commits(2)
    rmtree(stream.table)
    copytree(tmp_path / "copy", stream.table)

    assert stream.code == "FLOW.TABLE_OLD"


def test_a_missing_transaction_is_ignored_if_the_table_expires_transactions(tmp_path, make):
    stream = Stream(tmp_path, make)
    stream.record()
    stream.commits(0, "other", configuration={"delta.setTransactionRetentionDuration": "interval 1 days"})
    stream.plans(0)

    assert stream.code is None


def test_batches_of_an_initial_checkpoint_need_no_transaction_in_the_table(tmp_path, make):
    stream = Stream(tmp_path, make)
    stream.record()
    stream.commits(0, "other")
    create_initial_checkpoint(stream.checkpoint(), QUERY, [DeltaPosition("t", 4)])

    assert stream.code is None


def test_the_event_log_and_the_delivery_record_also_reveal_an_old_checkpoint(stream):
    stream.logged["s", "s"] = (0, 2)
    by_log = stream.code
    stream.logged.clear()
    (stream.file.parent / "delivered-0.json").write_text('{"out": 2}')

    assert (by_log, stream.code) == ("FLOW.CHECKPOINT_OLD", "FLOW.CHECKPOINT_OLD")


def test_the_event_log_or_a_newer_checkpoint_reveals_an_old_record(stream):
    stream.logged["s", "s"] = (1, 0)
    by_log = stream.code
    stream.logged.clear()
    stream.plans(0, epoch=1)

    assert (by_log, stream.code) == ("FLOW.RECORD_OLD", "FLOW.RECORD_OLD")


def test_an_epoch_with_only_an_initial_checkpoint_is_ignored(stream):
    create_initial_checkpoint(stream.checkpoint(1), "q", [DeltaPosition("t", 4)])

    assert stream.code is None


@pytest.mark.parametrize("name", ["table", "quarantine", "memory"])
def test_a_table_older_than_the_version_in_the_record_is_reported(stream, name, tmp_path):
    path = stream.state.stores(stream.flow).tables[name]
    rows = pa.table({"id": pa.array([1], pa.int32())})
    write_deltalake(path, rows, mode="append")
    copytree(path, tmp_path / "copy")
    write_deltalake(path, rows, mode="append")
    stream.record(table_versions=stream.state.stores(stream.flow).table_versions())
    agrees = stream.code
    rmtree(path)
    copytree(tmp_path / "copy", path)

    assert (agrees, stream.code) == (None, "FLOW.TABLE_OLD")


def test_the_quarantine_may_be_deleted_but_the_retained_events_may_not(stream):
    paths = stream.state.stores(stream.flow).tables
    for name in ("quarantine", "memory"):
        write_deltalake(paths[name], pa.table({"id": pa.array([1], pa.int32())}))
    stream.record(table_versions=stream.state.stores(stream.flow).table_versions())
    rmtree(paths["quarantine"])
    deleted = stream.code
    rmtree(paths["memory"])

    assert (deleted, stream.code) == (None, "FLOW.TABLE_OLD")


def test_a_source_restored_from_a_copy_is_older_than_the_checkpoint(tmp_path, make):
    stream = Stream(tmp_path, make, sources=(Source(SourceKind.DATASET, "up"),))
    stream.record()
    up = stream.layout.table(Naming(), QualifiedName("up"))
    for _ in range(2):
        write_deltalake(up, pa.table({"id": pa.array([1], pa.int32())}), mode="append")
    stream.commits(0)
    position = {"reservoirId": str(DeltaTable(up).metadata().id), "reservoirVersion": 2, "index": -1}
    stream.plans(0, offset=position)
    agrees = stream.code
    stream.plans(0, offset={**position, "reservoirVersion": 3})

    assert (agrees, stream.code, stream.health().problem.code) == (None, "FLOW.SOURCE_OLD", "FLOW.SOURCE_OLD")


def test_a_snapshot_in_the_table_but_not_in_the_record_is_reported(tmp_path, make):
    stream = Stream(tmp_path, make, mode=Mode.SNAPSHOT)
    stream.record(mode="snapshot")
    stream.commits(0, transaction_id("p", "s", 0))

    assert stream.code == "FLOW.CHECKPOINT_OLD"


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"format": 3}', '{"format": "2"}', "\x00"])
def test_an_unreadable_record_is_reported_for_its_flow(stream, content):
    stream.file.write_text(content)

    assert stream.code == "FLOW.RECORD_UNREADABLE"
    assert stream.state.has_run(stream.flow) is False
    assert read_record(stream.file).unreadable


def torn(stream, name, content=b""):
    (stream.checkpoint() / name).write_bytes(content)


@pytest.mark.parametrize("content", [b"", b"v1", b"v1\n{", b"\x00\x00", b"\xff"])
def test_the_repair_moves_a_torn_commit_file_of_the_newest_batch(stream, content):
    torn(stream, "commits/1", content)
    before = stream.code

    (moved,) = repair(stream.health(), "now")

    assert before == "FLOW.CHECKPOINT_TORN"
    assert (moved.name, moved.read_bytes(), stream.code) == ("commits-1", content, None)


def test_the_repair_moves_a_torn_offsets_file_of_an_unwritten_batch(stream):
    stream.plans(2, done=False)
    torn(stream, "offsets/2")
    before = stream.code

    (moved,) = repair(stream.health(), "now")

    assert (before, moved.name, stream.code) == ("FLOW.CHECKPOINT_TORN", "offsets-2", None)


@pytest.mark.parametrize("name", ["offsets/1", "offsets/0", "metadata"])
def test_the_repair_does_not_move_a_torn_file_that_cannot_be_recovered(stream, name):
    torn(stream, name)

    assert (stream.code, repair(stream.health(), "now")) == ("FLOW.CHECKPOINT_DAMAGED", [])
    assert (stream.checkpoint() / name).exists()


def test_the_repair_does_not_move_a_torn_offsets_file_of_a_written_batch(stream):
    stream.plans(2, done=False)
    stream.commits(2)
    torn(stream, "offsets/2")

    assert (stream.code, repair(stream.health(), "now")) == ("FLOW.CHECKPOINT_DAMAGED", [])


def test_a_file_that_differs_from_its_checksum_is_torn(stream):
    file = stream.checkpoint() / "commits" / "1"
    sums = file.with_name(".1.crc")
    sums.write_bytes(b"crc\0" + (512).to_bytes(4, "big") + b"none")

    assert find_damage(stream.checkpoint(), 1).file == file
    repair(stream.health(), "now")
    assert (stream.code, sums.exists()) == (None, False)


def test_a_repair_that_crashes_is_completed_by_the_next_one(stream, monkeypatch):
    stream.plans(2, done=False)
    torn(stream, "offsets/2")
    (stream.checkpoint() / "offsets" / ".2.crc").write_bytes(b"")
    rename = Path.replace
    left = [1]

    def dies(path, target):
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", dies)
    with pytest.raises(KeyboardInterrupt):
        repair(stream.health(), "first")
    monkeypatch.undo()
    between = stream.code

    repair(stream.health(), "second")

    assert (between, stream.code) == ("FLOW.CHECKPOINT_TORN", None)


def test_the_repair_moves_an_unreadable_record_and_the_epoch_comes_from_checkpoints(stream):
    stream.plans(0, epoch=3)
    stream.file.write_text("")

    repair(stream.health(), "now")

    assert (stream.state.record(stream.flow), stream.state.progress_of(stream.flow).epoch) == (None, 3)


def test_a_batch_written_during_the_comparison_is_not_a_disagreement(stream, monkeypatch):
    opened = agreement.open_table_log

    def meanwhile(path):
        stream.plans(2, done=False)
        stream.commits(2)
        return opened(path)

    monkeypatch.setattr(agreement, "open_table_log", meanwhile)

    assert stream.code is None
