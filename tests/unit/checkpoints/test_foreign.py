"""Checkpoints that other programs have written: what is recognised, and what is not taken for Spark's."""

from __future__ import annotations

import json

import pytest

from headrace.checkpoints.foreign import OffsetKind, read_foreign
from headrace.errors import PipelineError

DELTA = {"sourceVersion": 1, "reservoirId": "t-1", "reservoirVersion": 7, "index": -1, "isStartingVersion": False}
# As documented for the progress of Auto Loader of Databricks; no file of it was at hand.
CLOUD_FILES = {
    "seqNum": 9,
    "sourceVersion": 1,
    "lastBackfillStartTimeMs": 1657033622925,
    "lastBackfillFinishTimeMs": 1657033623542,
}
VENDOR_STATE = "com.databricks.sql.streaming.state.RocksDBStateStoreProvider"


def checkpoint_of(folder, offsets=(), *, planned=0, done=0, conf=None, version="v1"):
    """A checkpoint with one planned batch, as Spark writes it."""
    for part in ("offsets", "commits"):
        (folder / part).mkdir(parents=True)
    (folder / "metadata").write_text(json.dumps({"id": "q-1"}))
    header = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0, "conf": conf or {}})
    lines = ["-" if offset is None else json.dumps(offset) for offset in offsets]
    (folder / "offsets" / str(planned)).write_text("\n".join([version, header, *lines]))
    if done is not None:
        (folder / "commits" / str(done)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    return folder


def with_state(folder, operator="stateStoreSave"):
    (folder / "state" / "0" / "_metadata").mkdir(parents=True)
    metadata = {"operatorInfo": {"operatorId": 0, "operatorName": operator}, "stateStoreInfo": []}
    (folder / "state" / "0" / "_metadata" / "metadata").write_text("v1\n" + json.dumps(metadata))
    return folder


@pytest.mark.parametrize(
    ("offset", "kind"),
    [
        (DELTA, OffsetKind.DELTA),
        ({"logOffset": 3}, OffsetKind.FILES),
        ({"orders": {"0": 12, "1": 4}}, OffsetKind.KAFKA),
        ({"ledger": "l-1", "number": 4}, OffsetKind.AUTO_LOADER),
        (CLOUD_FILES, OffsetKind.VENDOR_AUTO_LOADER),
        (None, OffsetKind.NOTHING),
        (1764370000, OffsetKind.OTHER),
    ],
)
def test_sources_are_known_by_their_offsets(tmp_path, offset, kind):
    """Guards that each source is compared with the flow's by its own rules."""
    found = read_foreign(checkpoint_of(tmp_path / "chk", [offset]))

    assert [source.kind for source in found.sources] == [kind]


def test_a_checkpoint_of_databricks_is_named_when_a_source_keeps_files_in_rocksdb(tmp_path):
    """Guards that Auto Loader of Databricks is found before its first offset, too."""
    folder = checkpoint_of(tmp_path / "chk", [None])
    (folder / "sources" / "0" / "rocksdb").mkdir(parents=True)

    found = read_foreign(folder)

    assert found.vendor_parts == ('source 0 is Auto Loader of Databricks ("cloudFiles")',)


def test_a_checkpoint_of_databricks_is_named_when_it_has_state(tmp_path):
    """Guards that state in a form that open-source Spark cannot read is not taken over."""
    conf = {"spark.sql.streaming.stateStore.providerClass": VENDOR_STATE}
    stateless = read_foreign(checkpoint_of(tmp_path / "a", [DELTA], conf=conf))
    stateful = read_foreign(with_state(checkpoint_of(tmp_path / "b", [DELTA], conf=conf)))

    assert stateless.vendor_parts == ()
    assert stateful.vendor_parts == (f"its state is in {VENDOR_STATE}",)
    assert stateful.operators == ("aggregation",)


def test_the_batch_before_the_planned_one_is_done_when_its_commit_is_purged(tmp_path):
    """Guards that Spark's own rule is used: it plans a batch once the one before it is done."""
    found = read_foreign(checkpoint_of(tmp_path / "chk", [DELTA], planned=7, done=None))

    assert (found.planned, found.done) == (7, 6)


def test_a_query_that_never_planned_has_no_batch(tmp_path):
    """Guards that a job that has read nothing can be adopted."""
    folder = tmp_path / "chk"
    folder.mkdir()
    (folder / "metadata").write_text(json.dumps({"id": "q-1"}))

    found = read_foreign(folder)

    assert (found.query_id, found.planned, found.done, found.sources) == ("q-1", -1, -1, ())


@pytest.mark.parametrize(
    ("break_it", "code"),
    [
        (lambda folder: (folder / "metadata").unlink(), "ADOPT.NOT_A_CHECKPOINT"),
        (lambda folder: (folder / "metadata").write_text(""), "ADOPT.NOT_A_CHECKPOINT"),
        (lambda folder: (folder / "offsets" / "0").write_text(""), "ADOPT.CHECKPOINT_DAMAGED"),
        (lambda folder: (folder / "offsets" / "0").write_text("v2\n{}\n{}"), "ADOPT.CHECKPOINT_DAMAGED"),
    ],
)
def test_a_checkpoint_that_is_torn_or_newer_is_refused(tmp_path, break_it, code):
    """Guards that nothing is guessed from files that a crash has left, or that a later Spark has written."""
    folder = checkpoint_of(tmp_path / "chk", [DELTA])
    break_it(folder)

    with pytest.raises(PipelineError) as error:
        read_foreign(folder)

    assert error.value.code == code
