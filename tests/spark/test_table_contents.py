"""Tables whose contents become those of another version, or of another table, in one commit."""

import os
import shutil
import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from headrace.delta_log.table_layout import table_layout
from headrace.delta_log.tables import newest_version, table_version
from headrace.errors import PipelineError
from headrace.spark.delta.contents import Contents, set_contents

pytestmark = pytest.mark.spark

_DAY_S = 86_400


def _path(tmp_path: Path, name: str = "t") -> str:
    return str(tmp_path / name)


def _create(session: SparkSession, path: str, columns: str, more: str = "") -> None:
    session.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta {more}")


def _rows(session: SparkSession, path: str, version: int):
    return session.read.format("delta").option("versionAsOf", version).load(path)


# Each changes what a commit of files alone would not take back.
HISTORIES = {
    "deletion vectors": ("TBLPROPERTIES (delta.enableDeletionVectors = true)", ["DELETE FROM {t} WHERE id = 1"]),
    "a new column": ("", ["ALTER TABLE {t} ADD COLUMNS (more STRING)", "INSERT INTO {t} VALUES (9, 'i', 'm')"]),
    "renamed and dropped columns": (
        "TBLPROPERTIES (delta.columnMapping.mode = 'name')",
        ["ALTER TABLE {t} RENAME COLUMN name TO label", "ALTER TABLE {t} DROP COLUMN label"],
    ),
    "clustering": ("CLUSTER BY (id)", ["ALTER TABLE {t} CLUSTER BY (name)"]),
    "partitions": ("PARTITIONED BY (name)", ["DELETE FROM {t} WHERE name = 'a'"]),
    "a newer feature": ("", ["ALTER TABLE {t} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)"]),
    "row tracking": ("TBLPROPERTIES (delta.enableRowTracking = true)", ["DELETE FROM {t} WHERE id = 1"]),
}


QUICK = ("renamed and dropped columns", "clustering", "deletion vectors")
LATER = pytest.mark.long(guard="its other cases")


@pytest.mark.parametrize("history", [pytest.param(name, marks=() if name in QUICK else LATER) for name in HISTORIES])
def test_a_table_gets_the_rows_and_columns_of_an_earlier_version(headrace_session, tmp_path, history):
    # Guards: our own commit gives what Delta's RESTORE gives, and the stream of batches goes on from the recorded one.
    path = _path(tmp_path)
    layout, statements = HISTORIES[history]
    _create(headrace_session, path, "id BIGINT, name STRING", layout)
    headrace_session.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    before, table_id = _rows(headrace_session, path, 1), table_version(path).table_id
    details = headrace_session.sql(f"DESCRIBE DETAIL delta.`{path}`").first()
    for statement in statements:
        headrace_session.sql(statement.format(t=f"delta.`{path}`"))
    set_contents(headrace_session, path, Contents(path, 1, {"flow/2": 7}))
    after = headrace_session.read.format("delta").load(path)
    assertDataFrameEqual(after, before)
    assert after.schema == before.schema
    now = headrace_session.sql(f"DESCRIBE DETAIL delta.`{path}`").first()
    assert (now.clusteringColumns, now.partitionColumns, now.properties) == (
        details.clusteringColumns,
        details.partitionColumns,
        details.properties,
    )
    assert table_version(path).table_id == table_id
    assert headrace_session.sql(f"DESCRIBE HISTORY delta.`{path}`").count() == newest_version(path) + 1


def test_an_old_version_can_be_taken_whose_files_exist(headrace_session, tmp_path):
    # Guards: Delta's RESTORE refuses versions that are older than deletedFileRetentionDuration, whatever exists.
    path = _path(tmp_path)
    _create(headrace_session, path, "id BIGINT")
    for number in (1, 2):
        headrace_session.sql(f"INSERT INTO delta.`{path}` VALUES ({number})")
    long_ago_s = time.time() - 30 * _DAY_S
    for version in (0, 1):
        os.utime(f"{path}/_delta_log/{version:020}.json", (long_ago_s, long_ago_s))
    set_contents(headrace_session, path, Contents(path, 1, {}))
    assert [row.id for row in headrace_session.read.format("delta").load(path).collect()] == [1]


def test_a_version_whose_files_are_gone_is_not_committed(headrace_session, tmp_path):
    """Guards that no commit names files that a VACUUM has deleted since the restore was planned, in any folder."""
    path = _path(tmp_path)
    _create(headrace_session, path, "id BIGINT, name STRING", "PARTITIONED BY (name)")
    headrace_session.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a b/c%'), (2, 'b')")
    headrace_session.sql(f"DELETE FROM delta.`{path}` WHERE id = 1")
    (file,) = (file for file in Path(path).rglob("*.parquet") if "name=a" in str(file))
    kept = file.rename(tmp_path / file.name)
    with pytest.raises(PipelineError) as refused:
        set_contents(headrace_session, path, Contents(path, 1, {}))
    assert (refused.value.code, refused.value.params["file"]) == (
        "STORAGE.FILES_MISSING",
        str(file.relative_to(path)),
    )
    assert newest_version(path) == 2
    kept.rename(file)
    set_contents(headrace_session, path, Contents(path, 1, {}))
    assert headrace_session.read.format("delta").load(path).count() == 2


def test_a_table_gets_the_contents_of_another_table(headrace_session, tmp_path):
    # Guards: id and history stay, columns and partitions are the other table's, and the files are its own.
    path, other = _path(tmp_path), _path(tmp_path, "other")
    _create(headrace_session, path, "id BIGINT, name STRING")
    headrace_session.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'a')")
    _create(headrace_session, other, "id DECIMAL(20, 0), kind STRING, name STRING", "PARTITIONED BY (kind)")
    headrace_session.sql(f"INSERT INTO delta.`{other}` VALUES (5, 'x', 'a'), (6, 'y', 'b')")
    table_id = table_version(path).table_id
    shutil.copytree(other, path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("_delta_log"))
    set_contents(headrace_session, path, Contents(other, 1, {"flow/1": 3}))
    shutil.rmtree(other)
    after = headrace_session.read.format("delta").load(path)
    assert [tuple(row) for row in after.orderBy("id").collect()] == [(5, "x", "a"), (6, "y", "b")]
    assert table_version(path).table_id == table_id


@pytest.mark.parametrize(
    ("layout", "other_layout"),
    [
        ("", "CLUSTER BY (name)"),
        ("CLUSTER BY (id)", "PARTITIONED BY (name)"),
        ("PARTITIONED BY (id)", "CLUSTER BY (name)"),
        ("CLUSTER BY (id)", ""),
    ],
)
def test_a_table_gets_the_clustering_of_another_table(headrace_session, tmp_path, layout, other_layout):
    """Guards what Delta's own action for a RESTORE gets wrong: a clustering that the table of now does not have."""
    path, other = _path(tmp_path), _path(tmp_path, "other")
    for table, how in ((path, layout), (other, other_layout)):
        _create(headrace_session, table, "id BIGINT, name STRING", how)
        headrace_session.sql(f"INSERT INTO delta.`{table}` VALUES (1, 'a'), (2, 'b')")
    shutil.copytree(other, path, dirs_exist_ok=True, ignore=shutil.ignore_patterns("_delta_log"))
    set_contents(headrace_session, path, Contents(other, 1, {}))
    headrace_session.sql(f"OPTIMIZE delta.`{path}`")
    headrace_session.sql(f"INSERT INTO delta.`{path}` VALUES (3, 'c')")
    found, wanted = (headrace_session.sql(f"DESCRIBE DETAIL delta.`{one}`").first() for one in (path, other))
    assert (found.clusteringColumns, found.partitionColumns) == (wanted.clusteringColumns, wanted.partitionColumns)
    assert table_layout(path).cluster_by == table_layout(other).cluster_by
    assert headrace_session.read.format("delta").load(path).count() == 3


def test_numbered_rows_of_another_table_are_refused(headrace_session, tmp_path):
    path, other = _path(tmp_path), _path(tmp_path, "other")
    _create(headrace_session, path, "id BIGINT")
    _create(headrace_session, other, "id BIGINT", "TBLPROPERTIES (delta.enableRowTracking = true)")
    with pytest.raises(PipelineError) as refused:
        set_contents(headrace_session, path, Contents(other, 0, {}))
    assert refused.value.code == "STORAGE.CONTENTS_NOT_REPLACED"
