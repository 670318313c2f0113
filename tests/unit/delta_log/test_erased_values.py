"""After an erasure, neither the folder of a table nor its log shows rows that the table no longer has."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.delta_log import erased_values
from headrace.delta_log.erased_values import (
    UNNAMED_FILE_AGE_S,
    log_mentions,
    remove_old_values,
    remove_unused_files,
    unused_files,
)
from headrace.stores.connections import delta_options
from headrace.stores.delta_tables import open_delta
from headrace.stores.paths import readable_file, storage_path

ANN, BOB = "ann@x.example", "bob@x.example"
NOW = 2e9


@pytest.fixture
def table(tmp_path):
    """A table with a checkpoint, from which Ann's row was deleted; Bob's is in another file."""
    path = tmp_path / "table"
    write_deltalake(path, pa.table({"email": [ANN, "cai@x.example"]}))
    DeltaTable(path).create_checkpoint()
    write_deltalake(path, pa.table({"email": [BOB]}), mode="append")
    DeltaTable(path).delete(f"email = '{ANN}'")
    return path


def log_text(path):
    log = path / "_delta_log"
    texts = [file.read_text() for file in log.glob("*.json")]
    return "".join(texts) + str([pq.read_table(file).to_pylist() for file in log.glob("*.parquet")])


def test_values_of_unused_files_leave_the_log_and_those_of_used_files_stay(table):
    (table / "_delta_log" / f"{1:020d}.crc").write_text(json.dumps({"allFiles": ANN}))
    times = {file.name: file.stat().st_mtime_ns for file in (table / "_delta_log").glob("*.json")}
    assert ANN in log_text(table)

    changed = remove_old_values(str(table), [ANN])

    assert changed > 0
    assert ANN not in log_text(table)
    assert not log_mentions(str(table), [ANN])
    assert BOB in log_text(table)
    assert {file.name: file.stat().st_mtime_ns for file in (table / "_delta_log").glob("*.json")} == times
    assert sorted(DeltaTable(table).to_pyarrow_table().column("email").to_pylist()) == [BOB, "cai@x.example"]
    assert DeltaTable(table, version=1).version() == 1
    assert remove_old_values(str(table), [ANN]) == 0


def test_only_files_that_no_version_uses_now_are_deleted(table):
    for name, age in (("old.parquet", UNNAMED_FILE_AGE_S + 1), ("running.parquet", 60)):
        (table / name).write_text(ANN)
        os.utime(table / name, (NOW - age, NOW - age))
    before = unused_files(str(table), NOW)

    removed = remove_unused_files(str(table), NOW)

    assert removed == before
    assert (len(removed.files), removed.unnamed, removed.unnamed_until_s) == (2, 1, NOW - 60 + UNNAMED_FILE_AGE_S)
    assert not (table / "old.parquet").exists()
    assert (table / "running.parquet").exists()
    assert DeltaTable(table).to_pyarrow_table().num_rows == 2


def test_partitions_without_files_are_removed_and_their_names_in_the_log_are_reported(tmp_path):
    path = tmp_path / "table"
    write_deltalake(path, pa.table({"email": [ANN, BOB], "id": [1, 2]}), partition_by=["email"])
    DeltaTable(path).delete(f"email = '{ANN}'")

    remove_unused_files(str(path), NOW)
    remove_old_values(str(path), [ANN])

    assert len(list(path.glob("email=*"))) == 1
    assert not list(path.glob("email=ann*"))
    assert log_mentions(str(path), [ANN])


def test_files_of_a_commit_during_the_search_stay(table, monkeypatch):
    live_files = erased_values.live_files

    def live_files_then_a_commit(path, version):
        found = live_files(path, version)
        write_deltalake(path, pa.table({"email": ["dan@x.example"]}), mode="append")
        return found

    monkeypatch.setattr(erased_values, "live_files", live_files_then_a_commit)
    remove_unused_files(str(table), time.time())

    assert DeltaTable(table).to_pyarrow_table().num_rows == 3


def test_a_table_in_the_folder_of_another_keeps_its_files(table):
    write_deltalake(table / "inner", pa.table({"id": [1]}))

    remove_unused_files(str(table), NOW)

    assert DeltaTable(table / "inner").to_pyarrow_table().num_rows == 1


@pytest.mark.parametrize("uri", [False, True])
def test_files_that_the_log_names_absolutely_are_used_also_through_a_link(table, tmp_path, uri):
    log = table / "_delta_log"
    for commit in log.glob("*.json"):
        prefix = f"{table.as_uri() if uri else table}/"
        commit.write_text(commit.read_text().replace('"path":"', f'"path":"{prefix}'))
    for checkpoint in log.glob("*.parquet"):
        checkpoint.unlink()
    (log / "_last_checkpoint").unlink()
    (tmp_path / "link").symlink_to(table)

    removed = remove_unused_files(str(tmp_path / "link"), time.time())
    remove_old_values(str(tmp_path / "link"), [ANN])

    live = {Path(file).name for file in erased_values.live_files(str(table), 2)}
    assert len(removed.files) == 1
    assert {file.name for file in table.glob("*.parquet")} == live
    assert (BOB in log_text(table), ANN in log_text(table)) == (True, False)


def test_a_table_whose_log_names_files_elsewhere_keeps_all_its_files(table, tmp_path):
    commit = table / "_delta_log" / f"{1:020d}.json"
    commit.write_text(commit.read_text().replace('"path":"', f'"path":"{tmp_path}/other/'))
    before = sorted(table.glob("*.parquet"))

    removed = remove_unused_files(str(table), NOW)

    assert removed.files == ()
    assert f"{tmp_path}/other/" in removed.kept_for
    assert sorted(table.glob("*.parquet")) == before


def v2_checkpoint(table, version, names):
    """Write a checkpoint that has the files of a commit in a sidecar; returns the sidecar."""
    log = table / "_delta_log"
    (log / "_sidecars").mkdir(exist_ok=True)
    sidecar = log / "_sidecars" / f"{version}.parquet"
    stats = json.dumps({"numRecords": 1, "minValues": {"email": ANN}})
    pq.write_table(pa.table({"add": [{"path": name, "size": 1, "stats": stats} for name in names]}), sidecar)
    named = {"sidecar": {"path": sidecar.name, "sizeInBytes": sidecar.stat().st_size}}
    name = f"{version:020d}.checkpoint.00000000-0000-0000-0000-000000000000.json"
    (log / name).write_text(json.dumps({"checkpointMetadata": {"version": version}}) + "\n" + json.dumps(named))
    return sidecar


def test_old_checkpoints_with_sidecars_are_removed_and_the_newest_is_not_changed(table):
    live = list(erased_values.live_files(str(table), 2))
    old, new = v2_checkpoint(table, 1, ["gone.parquet"]), v2_checkpoint(table, 2, live)
    before = new.read_bytes()

    assert erased_values.has_v2_checkpoints(str(table))
    remove_old_values(str(table), [ANN])

    assert not old.exists()
    assert [file.name[:20] for file in table.glob("_delta_log/*.checkpoint.*.json")] == [f"{2:020d}"]
    assert new.read_bytes() == before


def test_checksums_are_removed_before_their_files_are_replaced(table, monkeypatch):
    log = table / "_delta_log"
    for file in [*log.glob("*.json"), *log.glob("*.parquet")]:
        file.with_name(f".{file.name}.crc").write_text("old")
    replaced = {}
    replace = Path.replace

    def observed(self, target):
        replaced[target.name] = target.with_name(f".{target.name}.crc").exists()
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", observed)
    remove_old_values(str(table), [ANN])

    assert set(replaced.values()) == {False}
    assert any(name.endswith(".parquet") for name in replaced)
    assert any(name.endswith(".json") for name in replaced)


def test_files_that_disappear_and_folders_that_fill_again_do_not_matter(table, monkeypatch):
    data = erased_values._data_files

    def with_a_lost_file(folder):
        yield folder / "lost.parquet"
        yield from data(folder)

    monkeypatch.setattr(erased_values, "_data_files", with_a_lost_file)

    assert len(remove_unused_files(str(table), NOW).files) == 1


def test_old_files_and_values_of_a_table_in_a_bucket_are_removed(lake):
    path = f"{lake}/shop/tables/default/people"
    options = delta_options(path)
    for emails in ([ANN, "cai@x.example"], [BOB]):
        write_deltalake(path, pa.table({"email": emails}), mode="append", storage_options=options)
    open_delta(path).create_checkpoint()
    open_delta(path).delete(f"email = '{ANN}'")
    write_deltalake(f"{path}/inner", pa.table({"email": [ANN]}), storage_options=options)
    (storage_path(path) / "running.parquet").write_bytes(b"young")

    removed = remove_unused_files(path, time.time())
    changed = remove_old_values(path, [ANN])

    assert (len(removed.files), removed.unnamed, changed > 0) == (1, 1, True)
    log = storage_path(path) / "_delta_log"
    stored = [pq.read_table(readable_file(file)).to_pylist() for file in log.glob("*.parquet")]
    assert ANN not in "".join(file.read_text() for file in log.glob("*.json")) + str(stored)
    assert BOB in str(stored)
    assert sorted(open_delta(path).to_pyarrow_table()["email"].to_pylist()) == [BOB, "cai@x.example"]
    assert open_delta(f"{path}/inner").to_pyarrow_table()["email"].to_pylist() == [ANN]
