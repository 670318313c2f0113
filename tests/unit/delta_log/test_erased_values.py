"""After an erasure, neither the folder of a table nor its log shows rows that the table no longer has."""

from __future__ import annotations

import json
import os

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from headrace.delta_log.erased_values import (
    UNNAMED_FILE_AGE_S,
    log_mentions,
    remove_old_values,
    remove_unused_files,
    unused_files,
)

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
    before, _ = unused_files(str(table), NOW)

    removed = remove_unused_files(str(table), NOW)

    assert (removed.files, removed.unnamed) == (len(before), 1) == (2, 1)
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
