"""Appends without Spark: each transaction counts once, whatever other writers do to the table meanwhile."""

from __future__ import annotations

import json
import threading
import uuid
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction, write_deltalake
from deltalake.schema import PrimitiveType

from headrace.delta_log.append import Appended, TableAppender
from headrace.delta_log.plain_tables import needs_of_writers
from headrace.model.schema import Schema as Columns

ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["a", None]})
JSON = Columns.from_json(Schema([Field("id", PrimitiveType("long")), Field("name", PrimitiveType("string"))]).to_json())


@pytest.fixture
def path(tmp_path):
    """A table of ROWS' columns without rows."""
    write_deltalake(tmp_path / "t", ROWS.slice(0, 0))
    return str(tmp_path / "t")


def appender(path, app="flow"):
    clock = count(1_000)
    return TableAppender(path, app, lambda: next(clock), lambda: str(uuid.uuid4()))


def ids(path):
    return sorted(pa.table(DeltaTable(path).to_pyarrow_table()).column("id").to_pylist())


def commits(path):
    return DeltaTable(path).version()


def test_rows_are_in_the_table_with_their_transaction(path):
    assert appender(path).append(ROWS, 7) is Appended.WRITTEN

    table = DeltaTable(path)
    assert table.transaction_version("flow") == 7
    assert ids(path) == [1, 2]
    assert table.history(1)[0]["operationMetrics"]["numOutputRows"] == "2"


@pytest.mark.parametrize("again", [7, 6])
@pytest.mark.parametrize("by", ["the same", "a new", "another library"])
def test_a_transaction_counts_once(path, again, by):
    first = appender(path)
    if by == "another library":
        first.order_of(JSON)
        write_deltalake(
            path, ROWS, mode="append", commit_properties=CommitProperties(app_transactions=[Transaction("flow", 7)])
        )
    else:
        first.append(ROWS, 7)
    files = set(DeltaTable(path).file_uris())

    done = (appender(path) if by == "a new" else first).append(ROWS, again)

    assert (done, ids(path)) == (Appended.REPEATED, [1, 2])
    assert {file.name for file in _parquet(path)} == {uri.rsplit("/", 1)[1] for uri in files}


def test_an_append_follows_the_commits_of_others(path):
    ours = appender(path)
    ours.append(ROWS, 1)
    write_deltalake(path, ROWS, mode="append")
    DeltaTable(path).delete("id = 2")

    assert ours.append(ROWS, 2) is Appended.WRITTEN
    assert ids(path) == [1, 1, 1, 2]


def test_appends_at_the_same_time_are_all_kept(path):
    def run(number):
        one = appender(path, f"flow {number}")
        for version in range(10):
            assert one.append(pa.table({"id": [number], "name": ["a"]}), version) is Appended.WRITTEN

    threads = [threading.Thread(target=run, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert ids(path) == sorted(list(range(4)) * 10)
    assert commits(path) == 40


def test_an_empty_batch_commits_its_transaction_alone(path):
    assert appender(path).append(ROWS.slice(0, 0), 3) is Appended.WRITTEN
    assert DeltaTable(path).transaction_version("flow") == 3
    assert _parquet(path) == []


@pytest.mark.parametrize("replace", [True, False])
def test_an_append_that_read_a_version_follows_it_at_once(path, replace):
    ours = appender(path)
    ours.append(ROWS, 1)
    read = commits(path)
    write_deltalake(path, ROWS, mode="append")

    assert ours.append(ROWS, 2, replace=replace, read_version=read) is Appended.CHANGED
    assert ids(path) == [1, 1, 2, 2]
    assert ours.append(ROWS, 2, read_version=commits(path)) is Appended.WRITTEN
    # An answer may be lost: then Delta must not commit the same again beside it.
    assert DeltaTable(path).history(1)[0]["isBlindAppend"] is False


def test_a_recorded_transaction_changes_no_rows(path):
    ours = appender(path)
    ours.append(ROWS, 1)
    read = commits(path)

    assert [ours.record(2, "why", read), ours.record(3, "why", read)] == [Appended.WRITTEN, Appended.CHANGED]
    assert (ids(path), DeltaTable(path).transaction_version("flow")) == ([1, 2], 2)
    assert DeltaTable(path).history(1)[0]["userMetadata"] == "why"


def test_a_table_that_was_replaced_meanwhile_is_read_again(path):
    ours = appender(path)
    ours.append(ROWS, 5)
    write_deltalake(path, pa.table({"id": [1]}), mode="overwrite", schema_mode="overwrite")

    assert [ours.append(ROWS, version) for version in (5, 6)] == [Appended.REPEATED, Appended.CHANGED]
    assert ids(path) == [1]


def test_a_table_that_was_deleted_and_created_again_knows_no_transaction(path, tmp_path):
    ours = appender(path)
    ours.append(ROWS, 5)
    (tmp_path / "t").rename(tmp_path / "old")
    write_deltalake(path, ROWS.slice(0, 0))
    write_deltalake(path, ROWS.slice(0, 0), mode="append")

    assert ours.append(ROWS, 5) is Appended.WRITTEN
    assert ids(path) == [1, 2]


def test_a_log_that_went_back_in_time_is_read_again(path, tmp_path):
    ours = appender(path)
    ours.append(ROWS, 5)
    for file in (tmp_path / "t" / "_delta_log").glob(f"{1:020d}.*"):
        file.unlink()

    assert ours.append(ROWS, 5) is Appended.WRITTEN
    assert (ids(path), commits(path)) == ([1, 2], 1)


def with_checksum(path):
    """Let the table have the checksum that Spark writes."""
    actions = [json.loads(line) for line in (Path(path) / "_delta_log" / f"{0:020d}.json").read_text().splitlines()]
    empty = {"tableSizeBytes": 0, "numFiles": 0, "setTransactions": [], "domainMetadata": [], "allFiles": []}
    parts = {key: action[key] for action in actions for key in ("metadata", "protocol") if key in action}
    (Path(path) / "_delta_log" / f"{0:020d}.crc").write_text(json.dumps({**empty, **parts, "numMetadata": 1}))


def checksum(path):
    return json.loads((Path(path) / "_delta_log" / f"{commits(path):020d}.crc").read_text())


def test_rows_take_the_place_of_all_others(path):
    with_checksum(path)
    ours = appender(path)
    ours.append(ROWS, 1)

    assert ours.append(ROWS.slice(1), 2, replace=True) is Appended.WRITTEN
    assert ids(path) == [2]
    assert ours.append(ROWS.slice(0, 0), 3, replace=True) is Appended.WRITTEN
    assert (ids(path), checksum(path)["allFiles"]) == ([], [])


@pytest.mark.parametrize("fault", ["none", "torn", "a file less"])
def test_rows_replace_no_others_unless_all_files_are_known(path, fault):
    with_checksum(path)
    ours = appender(path)
    ours.append(ROWS, 1)
    file = Path(path) / "_delta_log" / f"{1:020d}.crc"
    if fault == "none":
        file.unlink()
    else:
        file.write_text(file.read_text()[:50] if fault == "torn" else json.dumps({**checksum(path), "allFiles": []}))

    assert ours.append(ROWS, 2, replace=True) is Appended.CHANGED
    assert ids(path) == [1, 2]


def test_a_table_that_only_grows_is_not_replaced(tmp_path):
    path = str(tmp_path / "t")
    write_deltalake(path, ROWS.slice(0, 0), configuration={"delta.appendOnly": "true"})
    with_checksum(path)

    assert appender(path).append(ROWS, 1) is Appended.WRITTEN
    assert appender(path).append(ROWS, 2, replace=True) is Appended.CHANGED


def test_a_checksum_follows_from_the_one_before(path):
    with_checksum(path)
    ours = appender(path)
    for version in range(60):
        ours.append(ROWS, version)

    found = checksum(path)
    sizes = [file.stat().st_size for file in Path(path).glob("*.parquet")]
    assert (found["numFiles"], found["tableSizeBytes"], "allFiles" in found) == (60, sum(sizes), False)
    assert [(one["appId"], one["version"]) for one in found["setTransactions"]] == [("flow", 59)]


@pytest.mark.parametrize(
    "properties",
    [
        {"delta.constraints.positive": "id > 0"},
        {"delta.columnMapping.mode": "name"},
        {"delta.enableRowTracking": "true"},
        {"delta.enableInCommitTimestamps": "true"},
        {"delta.dataSkippingNumIndexedCols": "0"},
    ],
)
def test_a_table_that_asks_more_of_a_writer_is_left_to_spark(path, tmp_path, properties):
    log = tmp_path / "t" / "_delta_log" / f"{0:020d}.json"
    actions = [json.loads(line) for line in log.read_text().splitlines()]
    for action in actions:
        action.get("metaData", {"configuration": {}})["configuration"] |= properties
    log.write_text("\n".join(map(json.dumps, actions)))

    ours = appender(path)

    assert (ours.order_of(JSON), ours.append(ROWS, 1)) == (None, Appended.CHANGED)
    assert commits(path) == 0
    assert needs_of_writers(DeltaTable(path)) == tuple(f"the property {key}" for key in properties)


def test_a_table_without_nulls_is_left_to_spark(tmp_path):
    schema = pa.schema([pa.field("id", pa.int64(), nullable=False)])
    write_deltalake(tmp_path / "t", pa.table({"id": [1]}, schema=schema))

    assert appender(str(tmp_path / "t")).append(pa.table({"id": [2]}), 1) is Appended.CHANGED
    (need,) = needs_of_writers(DeltaTable(tmp_path / "t"))
    assert need.startswith('the column "id"')


def test_columns_come_in_the_order_of_the_table(path):
    turned = Columns(tuple(reversed(JSON.columns)))

    assert appender(path).order_of(turned) == ("id", "name")
    assert appender(path).order_of(turned, ("name",)) is None
    assert appender(path).order_of(Columns(JSON.columns[:1])) is None


def _parquet(path):
    return list(Path(path).glob("*.parquet"))
