"""Batches that wait for a sink lie in the order in which they came, whole or not at all."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from obstore.store import MemoryStore

from headrace.storage.spill_queue import (
    BatchToSpill,
    clear_drafts,
    remove_spilled_batch,
    replace_rows,
    spill_batch,
    spill_folders,
    spilled_batches,
)
from headrace.stores.cloud_store import CloudStore
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import readable_file


@pytest.fixture(params=["disk", "bucket"])
def flow(request, tmp_path):
    """The folder of a flow."""
    return tmp_path if request.param == "disk" else ObjectPath("s3a://lake", "flow", CloudStore("", MemoryStore()))


def write_ids(file, ids):
    content = io.BytesIO()
    pq.write_table(pa.table({"id": ids}), content)
    file.write_bytes(content.getvalue())


def ids_of(batch):
    return [
        one for file in batch.data.glob("*.parquet") for one in pq.read_table(readable_file(file))["id"].to_pylist()
    ]


def left(queue):
    """What is in a queue; the folders of a bucket vanish with their files."""
    return list(queue.iterdir()) if queue.exists() else []


def writing(rows):
    def write(folder):
        folder.mkdir()
        write_ids(folder / "part-0.parquet", list(range(rows)))

    return write


def keep(place, number, rows=3, epoch=0, fence=lambda: None):
    return spill_batch(place, BatchToSpill(f"flow:{epoch}", epoch, number), writing(rows), fence)


def lost():
    raise RuntimeError("another update has taken over")


def numbers(place):
    return [(one.position, one.epoch, one.number) for one in spilled_batches(place)]


def test_spilled_batches_keep_their_order_across_epochs(flow):
    counts = [keep(flow / "sink", number, rows, epoch) for number, rows, epoch in ((9, 2, 0), (10, 4, 0), (0, 1, 1))]

    first, _, last = spilled_batches(flow / "sink")

    assert counts == [2, 4, 1]
    assert numbers(flow / "sink") == [(1, 0, 9), (2, 0, 10), (3, 1, 0)]
    assert (first.rows(), first.transaction(), last.transaction()) == (2, "flow:0", "flow:1")
    assert ids_of(first) == [0, 1]


def test_an_empty_batch_is_not_spilled(flow):
    assert keep(flow / "sink", 1, rows=0) == 0

    assert left(flow / "sink") == []


def test_an_update_that_was_taken_over_spills_no_batch(flow):
    with pytest.raises(RuntimeError):
        keep(flow / "sink", 1, fence=lost)

    assert spilled_batches(flow / "sink") == []
    clear_drafts(flow / "sink")
    assert left(flow / "sink") == []


def test_files_lost_while_spilling_raise_an_error_instead_of_leaving_an_empty_batch(flow):
    with pytest.raises(FileNotFoundError, match="lost its files"):
        spill_batch(flow / "sink", BatchToSpill("flow", 0, 1), lambda folder: folder.mkdir(), lambda: None)

    assert spilled_batches(flow / "sink") == []


def test_a_crash_between_the_files_of_a_batch_and_its_record_leaves_no_batch(flow):
    keep(flow / "sink", 1)
    (complete,) = spilled_batches(flow / "sink")
    partial = flow / "sink" / f"{2:012}.0.2.{'a' * 32}" / "rows"
    if isinstance(flow, Path):
        partial = flow / "sink" / ".draft-a" / "rows"
    partial.mkdir(parents=True)
    write_ids(partial / "part-0.parquet", [1])

    assert spilled_batches(flow / "sink") == [complete]
    clear_drafts(flow / "sink")
    assert left(flow / "sink") == [complete.folder]


def test_removing_an_already_removed_batch_does_not_remove_a_later_one(flow):
    keep(flow / "sink", 1)
    (stale,) = spilled_batches(flow / "sink")
    remove_spilled_batch(stale)
    keep(flow / "sink", 2)

    with pytest.raises(FileNotFoundError):
        remove_spilled_batch(stale)

    assert numbers(flow / "sink") == [(1, 0, 2)]


def test_each_sink_has_its_own_spill_folder_and_a_single_sink_keeps_it_when_renamed(flow):
    several = spill_folders(flow, "deliver_targets", ["lake", "a/b"])

    assert spill_folders(flow, "old").popitem()[1] == spill_folders(flow, "new").popitem()[1]
    assert len({*several.values()}) == 2
    assert all(place.parent == flow / "waiting" for place in several.values())


def test_a_file_of_a_waiting_batch_is_replaced_with_the_number_of_rows(flow):
    keep(flow / "sink", 0, rows=3)
    (batch,) = spilled_batches(flow / "sink")
    (file,) = batch.data.glob("*.parquet")
    write_ids(flow / "new.parquet", [1])

    replace_rows(batch, file, flow / "new.parquet", 1)

    assert (batch.rows(), batch.transaction()) == (1, "flow:0")
    assert ids_of(batch) == [1]


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
