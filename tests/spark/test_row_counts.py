"""The number of rows in a table is known without Spark, with and without deletion vectors."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from headrace.delta_log.tables import count_rows
from headrace.errors import PipelineError
from headrace.spark.session.scoped_confs import with_confs

pytestmark = pytest.mark.spark

PART_SIZE = "spark.databricks.delta.checkpoint.partSize"


def deleted_from(session, path, properties, confs):
    """A table of 100 rows, of which 30 are deleted, 20 of them before its files are put together."""
    said = ", ".join(f"'{key}' = '{value}'" for key, value in properties.items())
    session.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta TBLPROPERTIES ({said})")
    session.range(100).selectExpr("int(id) id").repartition(2).write.format("delta").mode("append").save(path)
    with with_confs(session, confs):
        for digit in (0, 1):
            session.sql(f"DELETE FROM delta.`{path}` WHERE id % 10 = {digit}")
        session.sql(f"OPTIMIZE delta.`{path}`")
        session.sql(f"DELETE FROM delta.`{path}` WHERE id % 10 = 2")


@pytest.mark.parametrize(
    ("properties", "confs", "files", "checkpoints"),
    [
        ({"delta.checkpointInterval": "100", "delta.enableTypeWidening": "true"}, {}, "*", range(1)),
        pytest.param(
            *({"delta.checkpointInterval": "3"}, {}, "*", range(1, 9)),
            marks=pytest.mark.long(guard="its other cases"),
        ),
        pytest.param(
            *({"delta.checkpointInterval": "4"}, {PART_SIZE: "2"}, "*.*.parquet", range(2, 9)),
            marks=pytest.mark.long(guard="its other cases"),
        ),
        pytest.param(
            {"delta.checkpointInterval": "3", "delta.checkpointPolicy": "v2", "delta.enableTypeWidening": "true"},
            {},
            "*",
            range(1, 9),
            marks=pytest.mark.long(guard="its other cases"),
        ),
    ],
    ids=["commits", "checkpoint", "parts", "v2"],
)
def test_rows_in_deletion_vectors_are_not_counted(headrace_session, tmp_path, properties, confs, files, checkpoints):
    path = str(tmp_path / "a table")
    deleted_from(headrace_session, path, {**properties, "delta.enableDeletionVectors": "true"}, confs)

    assert count_rows(DeltaTable(path), path) == headrace_session.read.format("delta").load(path).count() == 70
    assert len(list((tmp_path / "a table" / "_delta_log").glob(f"0*.checkpoint.{files}"))) in checkpoints
    assert any((tmp_path / "a table").glob("deletion_vector_*"))


def test_a_delta_log_with_a_missing_commit_raises_an_error(headrace_session, tmp_path):
    path = str(tmp_path / "table")
    said = "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    headrace_session.sql(f"CREATE TABLE delta.`{path}` USING delta {said} AS SELECT id FROM range(10)")
    for number in (1, 2):
        headrace_session.sql(f"DELETE FROM delta.`{path}` WHERE id = {number}")
    table = DeltaTable(path)
    (tmp_path / "table" / "_delta_log" / f"{1:020d}.json").unlink()

    with pytest.raises(PipelineError, match="cannot be read"):
        count_rows(table, path)
