"""Restores of tables with column mapping, clustering and deletion vectors, also over renamed and dropped columns."""

from __future__ import annotations

import pytest

from headrace.model.outcome import UpdateState
from headrace.project.savepoints.create import SavepointRequest
from headrace.project.savepoints.savepoints import RestoreRequest

pytestmark = [
    pytest.mark.spark,
    pytest.mark.long(
        guard="tests/spark/test_savepoints.py::test_an_interrupted_restore_is_finished_by_the_next_update"
    ),
]
CODE = """
    from pathlib import Path

    HERE = Path(__file__).parents[1]
    MAPPED = {"delta.columnMapping.mode": "name"}

    def events():
        return spark.readStream.schema("id LONG, n LONG, note STRING").json(str(HERE / "landing"))

    @dp.table(table_properties=MAPPED)
    def mapped():
        return events()

    @dp.table(cluster_by=["id"])
    def clustered():
        return events()

    @dp.table(table_properties={"delta.enableDeletionVectors": "true"})
    def marked():
        return events()

    @dp.table(table_properties={**MAPPED, "delta.enableDeletionVectors": "true"}, cluster_by=["id"])
    def everything():
        return events()
"""
NAMES = ("mapped", "clustered", "marked", "everything")


def land(pipeline, number):
    rows = [{"id": 10 * number + key, "n": key, "note": f"note {key}"} for key in range(6)]
    pipeline.land(f"landing/{number}.json", rows)


def ran(pipeline):
    outcome = pipeline.run().outcome
    assert outcome.state is UpdateState.COMPLETED, outcome.flows


def test_tables_with_features_go_back_also_over_renamed_and_dropped_columns(project):
    pipeline = project(CODE)
    land(pipeline, 0)
    ran(pipeline)
    session = pipeline.project.session()
    path = f"{pipeline.settings.layout.root}/tables/default"
    # A version with deletion vectors, and one after a compaction into clusters, are in the savepoint.
    for name in ("marked", "everything"):
        session.sql(f"DELETE FROM delta.`{path}/{name}` WHERE n = 1")
    session.sql(f"OPTIMIZE delta.`{path}/clustered`")
    savepoints = pipeline.project.savepoints
    savepoints.create(SavepointRequest("calm"))
    then = rows(session, path)
    land(pipeline, 1)
    ran(pipeline)
    after = rows(session, path)

    # What others do to the tables: the data files of the columns stay, their names in the log do not.
    for name in ("mapped", "everything"):
        session.sql(f"ALTER TABLE delta.`{path}/{name}` RENAME COLUMN n TO number")
        session.sql(f"ALTER TABLE delta.`{path}/{name}` DROP COLUMN note")
    for name in ("marked", "everything"):
        session.sql(f"DELETE FROM delta.`{path}/{name}` WHERE id > 3")
        session.sql(f"REORG TABLE delta.`{path}/{name}` APPLY (PURGE)")
    session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
    for name in NAMES:
        session.sql(f"VACUUM delta.`{path}/{name}` RETAIN 0 HOURS")
    assert savepoints.verify("calm") == ()
    savepoints.restore(RestoreRequest("calm"))

    assert rows(session, path) == then
    ran(pipeline)
    assert rows(session, path) == after
    properties = session.sql(f"DESCRIBE DETAIL delta.`{path}/everything`").collect()[0]
    assert properties.clusteringColumns == ["id"]
    assert {"columnMapping", "deletionVectors", "clustering"} <= set(properties.tableFeatures)


def rows(session, path):
    """The rows of each table with the names of their columns."""
    return {
        name: sorted(repr(row.asDict()) for row in session.read.format("delta").load(f"{path}/{name}").collect())
        for name in NAMES
    }
