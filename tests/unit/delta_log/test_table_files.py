"""Which files a table has, on disk, in its current version, and in its last Z-ordering."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from obstore.store import MemoryStore

from headrace.delta_log.table_features import features_of
from headrace.delta_log.table_files import (
    LiveFile,
    files_needed_since,
    is_outside,
    live_files,
    missing_files,
    stored_files,
    unordered_files,
)
from headrace.errors import PipelineError
from headrace.stores.cloud_store import CloudStore
from headrace.stores.object_path import ObjectPath


@pytest.fixture
def table(tmp_path):
    """A table, partitioned by p, with three appends, the second of which a compaction and a checkpoint follow."""
    path = str(tmp_path / "a table")
    for number in range(3):
        rows = pa.table({"id": pa.array(range(10), pa.int64()), "p": pa.array([f"{number % 2} /"] * 10)})
        write_deltalake(path, rows, mode="append", partition_by=["p"])
        if number == 1:
            DeltaTable(path).create_checkpoint()
    return path


def commit(path: Path, version: int, *actions: dict[str, object]) -> None:
    log = path / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    (log / f"{version:020}.json").write_text("".join(f"{json.dumps(action)}\n" for action in actions))


def add(name, **more):
    return {"add": {"path": name, "size": 1, "partitionValues": {}, "dataChange": True, **more}}


def optimize(columns, **more):
    return {"commitInfo": {"operation": "OPTIMIZE", "operationParameters": {"zOrderBy": json.dumps(columns)}, **more}}


def test_live_files_are_those_of_delta_rs_with_partition_rows_and_size(table):
    found = live_files(table, DeltaTable(table).version())

    known = pa.table(DeltaTable(table).get_add_actions(flatten=True)).to_pylist()
    assert {(Path(table) / file.path).exists() for file in found} == {True}
    assert sorted((file.size, file.rows, dict(file.partition)["p"]) for file in found) == sorted(
        (row["size_bytes"], row["num_records"], row["partition.p"]) for row in known
    )
    assert {file.path for file in stored_files(table, ["p"])} == {file.path for file in found}


def test_files_that_are_not_deltas_are_not_stored_files(tmp_path):
    for name in ("a.parquet", "notes.txt", "_temporary/b.parquet", ".hidden.parquet.crc", "_change_data/c.parquet"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()

    assert {file.path for file in stored_files(str(tmp_path))} == {"a.parquet", "_change_data/c.parquet"}


def test_files_of_a_table_within_the_folder_of_another_are_not_its_files(tmp_path):
    for name in ("a.parquet", "inner/b.parquet", "inner/p=1/c.parquet", "inner/_delta_log/0.json", "plain/d.parquet"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()

    assert {file.path for file in stored_files(str(tmp_path))} == {"a.parquet", "plain/d.parquet"}


def test_missing_files_are_found_on_a_disk_wherever_they_are(tmp_path):
    """Guards the names that a log can have: within the table, outside of it, and in stores that cannot be asked."""
    table = tmp_path / "t"
    for file in (table / "p=a%20b" / "1.parquet", tmp_path / "other" / "2.parquet"):
        file.parent.mkdir(parents=True)
        file.touch()
    there = ["p=a%20b/1.parquet", "../other/2.parquet", str(tmp_path / "other/2.parquet"), "s3://b/3.parquet"]

    assert missing_files(str(table), there) == ()
    assert missing_files(str(table), [*there, "p=c/9.parquet", "8.parquet"]) == ("8.parquet", "p=c/9.parquet")


@pytest.mark.parametrize("number", [2, 1_200])
def test_missing_files_are_found_in_a_bucket_one_by_one_and_by_a_listing(monkeypatch, number):
    """Guards both ways to ask a bucket: they agree, also about folders of partitions and deletion vectors."""
    bucket = ObjectPath("s3a://lake", "t", CloudStore("s3a://lake", MemoryStore()))
    monkeypatch.setattr("headrace.delta_log.table_files.storage_path", lambda _: bucket)
    vector = f"x/deletion_vector_{'0' * 8}-{'0' * 4}-{'0' * 4}-{'0' * 4}-{'0' * 12}.bin"
    names = [vector, *(f"p={at}/{at}.parquet" for at in range(number))]
    for name in names[:-1]:
        (bucket / name).write_bytes(b"x")

    assert missing_files("s3a://lake/t", names) == (names[-1],)


def test_absolute_paths_are_related_to_the_table_through_links(tmp_path):
    table, link = tmp_path / "real" / "t", tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    names = [f"file:{table}/a.parquet", f"{link}/t/b%20b.parquet", "x/./c.parquet"]
    elsewhere = ["file:/other/d.parquet", "s3a://bucket/e.parquet", "x/../../f.parquet"]
    commit(table, 0, *map(add, (*names, *elsewhere)))

    for path in (table, link / "t"):
        found = [file.path for file in live_files(str(path), 0)]
        assert found[:3] == ["a.parquet", "b b.parquet", "x/c.parquet"]
        assert [is_outside(name) for name in found] == [False] * 3 + [True] * 3


def test_statistics_as_columns_are_not_read(tmp_path):
    """Spark has times after 9999, which Python has not."""
    commit(tmp_path, 0, add("a"))
    stats = pa.array([{"maxValues": {"t": 2**61}}], pa.struct({"maxValues": pa.struct({"t": pa.timestamp("us")})}))
    adds = pa.StructArray.from_arrays(
        [pa.array(["a"]), pa.array([1]), pa.array([[("p", "1")]], pa.map_(pa.string(), pa.string())), stats],
        ["path", "size", "partitionValues", "stats_parsed"],
    )
    pq.write_table(pa.table({"add": adds}), tmp_path / "_delta_log" / f"{0:020}.checkpoint.parquet")

    assert live_files(str(tmp_path), 0) == (LiveFile("a", 1, (("p", "1"),)),)


def test_a_deletion_vector_is_a_file_of_the_table(tmp_path):
    # Written by Delta 4.4, with the file deletion_vector_c88c6e39-....bin next to it.
    vector = {"storageType": "u", "pathOrInlineDv": ":C+0%={QSWH4^k^}XyD[", "offset": 1, "cardinality": 300}
    inline = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"}
    commit(
        tmp_path,
        0,
        add("a.parquet", deletionVector=vector, stats='{"numRecords":10000}'),
        add("b.parquet", deletionVector=inline),
        add("c.parquet", deletionVector={**vector, "pathOrInlineDv": f"ab{vector['pathOrInlineDv']}"}),
    )

    first, second, third = live_files(str(tmp_path), 0)

    assert first == LiveFile(
        "a.parquet", 1, rows=10000, deleted_rows=300, vector="deletion_vector_c88c6e39-d044-4e81-85f7-2f41fb1624c1.bin"
    )
    assert (second.vector, third.vector) == (None, f"ab/{first.vector}")
    assert first.vector in files_needed_since(str(tmp_path), 0, 1)


def test_a_lost_commit_is_reported(table):
    (Path(table) / "_delta_log" / f"{0:020}.json").unlink()

    assert files_needed_since(table, 2, 1)
    with pytest.raises(PipelineError) as caught:
        files_needed_since(table, 2, 0)
    assert caught.value.code == "STORAGE.TABLE_UNREADABLE"


def test_files_after_the_last_z_ordering_by_the_same_columns_are_not_ordered(tmp_path):
    commit(tmp_path, 0, add("old"), add("older"))
    commit(tmp_path, 1, optimize(["k"]), {"remove": {"path": "old"}}, add("first%20ordered"))
    commit(tmp_path, 2, add("appended"))
    commit(tmp_path, 3, optimize([]), add("compacted"))
    files = live_files(str(tmp_path), 3)

    assert unordered_files(str(tmp_path), files, ("K",)) == {"older", "appended", "compacted"}
    assert unordered_files(str(tmp_path), files, ("k", "j")) == {file.path for file in files}


def test_a_file_whose_commit_the_log_has_lost_counts_as_ordered_only_if_there_was_another_z_ordering(tmp_path):
    files = (LiveFile("lost", 1), LiveFile("kept", 1))
    commit(tmp_path, 7, optimize(["k"]), add("kept"))

    assert unordered_files(str(tmp_path), files, ("k",)) == set()
    assert unordered_files(str(tmp_path), files, ("j",)) == {"lost", "kept"}


def test_features_come_from_the_protocol_and_from_properties_of_older_protocols():
    found = features_of(["deletionvectors", "appendOnly", "icebergCompatV9"], {"delta.enableChangeDataFeed": "TRUE"})

    assert found.names == ("changeDataFeed", "deletionVectors", "icebergcompatv9")
    assert found.unknown == ("icebergcompatv9",)
    assert features_of([], {"delta.columnMapping.mode": "none"}).names == ()
