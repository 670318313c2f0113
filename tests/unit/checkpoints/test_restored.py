"""Copies of a checkpoint in which another query goes on."""

from __future__ import annotations

import json

import pytest

from headrace.checkpoints.offsets import query_id_of, read_progress
from headrace.checkpoints.restored import copy_checkpoint

MOVED = {"sourceVersion": 1, "reservoirId": "t", "reservoirVersion": 9, "index": -1, "isStartingVersion": False}


@pytest.fixture
def checkpoint(tmp_path):
    """A checkpoint of three batches of two sources, with state."""
    folder = tmp_path / "saved"
    for batch in range(3):
        for name, lines in (
            ("offsets", ["{}", json.dumps({"reservoirVersion": batch}), f'"{batch}"']),
            ("commits", ["{}"]),
        ):
            (folder / name).mkdir(parents=True, exist_ok=True)
            (folder / name / str(batch)).write_text("\n".join(["v1", *lines]))
            (folder / name / f".{batch}.crc").write_bytes(b"sum")
    (folder / "metadata").write_text(json.dumps({"id": "old"}))
    (folder / "state" / "0").mkdir(parents=True)
    (folder / "state" / "0" / "1.delta").write_text("rows")
    return folder


def lines(checkpoint, batch):
    return [json.loads(line) for line in (checkpoint / "offsets" / str(batch)).read_text().split("\n")[2:]]


def test_offsets_move_in_the_last_two_batches_alone(checkpoint, tmp_path):
    copy_checkpoint(checkpoint, tmp_path / "1", "new", {0: MOVED})

    assert [lines(tmp_path / "1", batch) for batch in range(3)] == [
        [{"reservoirVersion": 0}, "0"],
        [MOVED, "1"],
        [MOVED, "2"],
    ]
    # A checksum of the old text would make Spark refuse the new one.
    assert sorted(file.name for file in (tmp_path / "1" / "offsets").glob(".*")) == [".0.crc"]


def test_the_copy_is_of_another_query_and_the_original_stays(checkpoint, tmp_path):
    copy_checkpoint(checkpoint, tmp_path / "1", "new", {0: MOVED})
    copy_checkpoint(checkpoint, tmp_path / "1", "again", {})

    assert (query_id_of(checkpoint), query_id_of(tmp_path / "1")) == ("old", "new")
    assert [lines(checkpoint, batch)[0] for batch in range(3)] == [{"reservoirVersion": n} for n in range(3)]
    assert read_progress(tmp_path / "1").completed
    assert (tmp_path / "1" / "state" / "0" / "1.delta").samefile(checkpoint / "state" / "0" / "1.delta")


def test_a_checkpoint_of_one_batch_has_one_offset_to_move(checkpoint, tmp_path):
    for batch in (1, 2):
        for folder in ("offsets", "commits"):
            (checkpoint / folder / str(batch)).unlink()

    copy_checkpoint(checkpoint, tmp_path / "1", "new", {0: MOVED})

    assert lines(tmp_path / "1", 0) == [MOVED, "0"]
