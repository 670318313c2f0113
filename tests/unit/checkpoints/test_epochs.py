"""What a flow has read in an epoch is the same before and after its checkpoint is removed."""

from __future__ import annotations

import json
from shutil import rmtree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.checkpoints.epochs import epoch_numbers, keep_positions, kept_file, newest_started_epoch, read_epoch
from headrace.checkpoints.initial_offsets import DeltaPosition, FilesPosition, create_initial_checkpoint, file_url
from headrace.storage.backfills import Coverage

TABLE = {"reservoirId": "t", "reservoirVersion": 3, "index": -1}
OFFSETS = st.sampled_from([None, TABLE, {"logOffset": 0}, {"orders": {"0": 7}}, {"ledger": "a", "number": 2}])


def write(file, *lines):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(lines))


def stream(checkpoint, batches, *, completed=True, files=()):
    """A checkpoint with the end offsets of each batch; Spark has deleted those that are None."""
    write(checkpoint / "metadata", json.dumps({"id": "q"}))
    for number, offsets in enumerate(batches):
        if offsets is not None:
            lines = ["-" if offset is None else json.dumps(offset) for offset in offsets]
            write(checkpoint / "offsets" / str(number), "v1", json.dumps({"batchWatermarkMs": 0}), *lines)
        if number < len(batches) - 1 or completed:
            write(checkpoint / "commits" / str(number), "v1", json.dumps({"nextBatchWatermarkMs": number}))
    for number, path in enumerate(files):
        entry = {"path": file_url(path), "timestamp": 1000 + number, "batchId": number}
        write(checkpoint / "sources" / "0" / str(number), "v1", json.dumps(entry))


def facts(checkpoint):
    """All that readers of older epochs ask for."""
    epoch, coverage = read_epoch(checkpoint), Coverage(checkpoint)
    return (
        epoch.progress,
        epoch.is_lost,
        [epoch.first_offsets(batch) for batch in (0, 1)],
        [(epoch.offset(source), epoch.files_seen(source)) for source in range(3)],
        (coverage.has_read, coverage.is_unread, coverage.skipped_files(0) if coverage.is_unread else None),
        newest_started_epoch(checkpoint.parent),
    )


@settings(max_examples=50)
@given(
    batches=st.lists(st.lists(OFFSETS, min_size=1, max_size=2), max_size=4),
    deleted=st.integers(0, 2),
    completed=st.booleans(),
    files=st.lists(st.sampled_from(["/in/a b.json", "/in/ü.json", "/in/c.json"]), unique=True),
)
def test_kept_positions_answer_as_the_checkpoint_did(tmp_path_factory, batches, deleted, completed, files):
    checkpoint = tmp_path_factory.mktemp("flow") / "4"
    kept = [None if number < min(deleted, len(batches) - 1) else found for number, found in enumerate(batches)]
    stream(checkpoint, kept, completed=completed, files=files)
    before = facts(checkpoint)

    keep_positions(checkpoint)
    rmtree(checkpoint)

    assert facts(checkpoint) == before
    assert epoch_numbers(checkpoint.parent) == {4}


def test_an_initial_checkpoint_keeps_the_files_that_its_stream_skips(tmp_path):
    checkpoint = tmp_path / "1"
    positions = [FilesPosition((("/in/a.json", 5), ("/in/b.json", 6))), DeltaPosition("t", 9)]
    create_initial_checkpoint(checkpoint, "q", positions)
    before = facts(checkpoint)

    keep_positions(checkpoint)
    rmtree(checkpoint)

    assert facts(checkpoint) == before
    assert Coverage(checkpoint).starts_at(positions)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value"),
        ('{"format": 2}', "a later version of Headrace"),
        ('{"format": 1, "epoch": 5}', "it is about epoch 5"),
        ("[]", "list indices"),
    ],
)
def test_an_unusable_file_of_positions_makes_the_epoch_lost(tmp_path, text, reason):
    kept_file(tmp_path / "0").write_text(text)

    epoch = read_epoch(tmp_path / "0")

    assert (epoch.is_lost, epoch.progress) == (True, None)
    assert reason in epoch.unreadable


def test_a_checkpoint_wins_over_a_file_of_its_positions(tmp_path):
    stream(tmp_path / "0", [[TABLE]])
    keep_positions(tmp_path / "0")
    stream(tmp_path / "0", [[TABLE], [TABLE]])

    assert read_epoch(tmp_path / "0").progress.batch_id == 1
