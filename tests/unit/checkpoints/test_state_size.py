"""How much state a checkpoint holds, by the files that Spark has written."""

from __future__ import annotations

import json
import zipfile

import pytest

from headrace.checkpoints.state_size import state_sizes


def write(file, size_bytes):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(b"x" * size_bytes)


def write_zip(file, sst_bytes):
    """A version of RocksDB's, whose rows lie in files of these sizes; returns what it weighs itself."""
    file.parent.mkdir(parents=True, exist_ok=True)
    said = {"sstFiles": [{"localFileName": "1.sst", "sizeBytes": size} for size in sst_bytes], "numKeys": -1}
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("metadata", "v1\n" + json.dumps(said))
    return file.stat().st_size


def test_checkpoint_has_no_state_before_the_first_batch(tmp_path):
    assert state_sizes(tmp_path) == ()


def test_state_size_counts_the_newest_snapshot_and_later_deltas(tmp_path):
    store = tmp_path / "state" / "0" / "0"
    for name, size in (("1.delta", 10), ("2.snapshot", 100), ("2.delta", 7), ("3.delta", 5), ("4.delta", 6)):
        write(store / name, size)
    write(store / ".4.delta.crc", 1000)

    assert state_sizes(tmp_path) == (111,)


def test_rocksdb_state_size_counts_the_newest_version_and_later_changelogs(tmp_path):
    store = tmp_path / "state" / "0" / "0"
    write_zip(store / "9_1f2e-a.zip", [5000])
    own = write_zip(store / "10_3c4d-b.zip", [300, 20])
    write(store / "10_3c4d-b.changelog", 50)
    write(store / "11_5e6f-c.changelog", 4)
    write(store / "SSTs" / "1-3c4d.sst", 300)

    assert state_sizes(tmp_path) == (own + 320 + 4,)


def test_state_size_adds_up_partitions_and_stores_per_operator(tmp_path):
    for place, size in (("0/0/left", 1), ("0/0/right", 2), ("0/1/left", 4), ("1/0", 8), ("10/0", 16), ("2/0", 32)):
        write(tmp_path / "state" / place / "1.delta", size)

    assert state_sizes(tmp_path) == (7, 8, 32, 16)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut off"])
def test_incomplete_state_version_counts_as_zero_bytes(tmp_path, content):
    (tmp_path / "state" / "0" / "0").mkdir(parents=True)
    (tmp_path / "state" / "0" / "0" / "1.zip").write_bytes(content)

    assert state_sizes(tmp_path) == (0,)
