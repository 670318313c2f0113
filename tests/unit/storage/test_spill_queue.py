"""Batches that wait for a sink lie in the order in which they came, whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from headrace.storage.spill_queue import (
    BatchToSpill,
    clear_drafts,
    remove_spilled_batch,
    replace_rows,
    spill_batch,
    spill_folders,
    spilled_batches,
)


def writing(rows):
    def write(folder):
        folder.mkdir()
        pq.write_table(pa.table({"id": list(range(rows))}), folder / "part-0.parquet")

    return write


def keep(place, number, rows=3, epoch=0, fence=lambda: None):
    return spill_batch(place, BatchToSpill(f"flow:{epoch}", epoch, number), writing(rows), fence)


def lost():
    raise RuntimeError("another update has taken over")


def numbers(place):
    return [(one.position, one.epoch, one.number) for one in spilled_batches(place)]


def test_spilled_batches_keep_their_order_across_epochs(tmp_path):
    counts = [
        keep(tmp_path / "sink", number, rows, epoch) for number, rows, epoch in ((9, 2, 0), (10, 4, 0), (0, 1, 1))
    ]

    first, _, last = spilled_batches(tmp_path / "sink")

    assert counts == [2, 4, 1]
    assert numbers(tmp_path / "sink") == [(1, 0, 9), (2, 0, 10), (3, 1, 0)]
    assert (first.rows(), first.transaction(), last.transaction()) == (2, "flow:0", "flow:1")
    assert pq.read_table(first.data).num_rows == 2


def test_an_empty_batch_is_not_spilled(tmp_path):
    assert keep(tmp_path / "sink", 1, rows=0) == 0

    assert list((tmp_path / "sink").iterdir()) == []


def test_an_update_that_was_taken_over_spills_no_batch(tmp_path):
    with pytest.raises(RuntimeError):
        keep(tmp_path / "sink", 1, fence=lost)

    assert spilled_batches(tmp_path / "sink") == []
    clear_drafts(tmp_path / "sink")
    assert list((tmp_path / "sink").iterdir()) == []


def test_files_lost_while_spilling_raise_an_error_instead_of_leaving_an_empty_batch(tmp_path):
    with pytest.raises(FileNotFoundError, match="lost its files"):
        spill_batch(tmp_path / "sink", BatchToSpill("flow", 0, 1), lambda folder: folder.mkdir(), lambda: None)

    assert spilled_batches(tmp_path / "sink") == []


def test_removing_an_already_removed_batch_does_not_remove_a_later_one(tmp_path):
    keep(tmp_path / "sink", 1)
    (stale,) = spilled_batches(tmp_path / "sink")
    remove_spilled_batch(stale)
    keep(tmp_path / "sink", 2)

    with pytest.raises(FileNotFoundError):
        remove_spilled_batch(stale)

    assert numbers(tmp_path / "sink") == [(1, 0, 2)]


def test_each_sink_has_its_own_spill_folder_and_a_single_sink_keeps_it_when_renamed(tmp_path):
    several = spill_folders(tmp_path, "deliver_targets", ["lake", "a/b"])

    assert spill_folders(tmp_path, "old").popitem()[1] == spill_folders(tmp_path, "new").popitem()[1]
    assert len({*several.values()}) == 2
    assert all(place.parent == tmp_path / "waiting" for place in several.values())


def test_a_file_of_a_waiting_batch_is_replaced_with_the_number_of_rows(tmp_path):
    keep(tmp_path / "sink", 0, rows=3)
    (batch,) = spilled_batches(tmp_path / "sink")
    (file,) = batch.data.glob("*.parquet")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "new.parquet")

    replace_rows(batch, file, tmp_path / "new.parquet", 1)

    assert (batch.rows(), batch.transaction()) == (1, "flow:0")
    assert pq.read_table(batch.data).column("id").to_pylist() == [1]


def test_the_checksum_of_a_replaced_file_goes_first(tmp_path, monkeypatch):
    keep(tmp_path / "sink", 0)
    (batch,) = spilled_batches(tmp_path / "sink")
    (file,) = batch.data.glob("*.parquet")
    checksum = file.with_name(f".{file.name}.crc")
    checksum.write_text("old")
    pq.write_table(pa.table({"id": [1]}), tmp_path / "new.parquet")
    replace = Path.replace

    def crashing(self, target):
        if target == file:
            raise RuntimeError("crash")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", crashing)
    with pytest.raises(RuntimeError, match="crash"):
        replace_rows(batch, file, tmp_path / "new.parquet", 1)

    assert not checksum.exists()
