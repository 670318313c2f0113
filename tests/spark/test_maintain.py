"""Maintenance with Delta's own code: what it rewrites, what streams see of it, and that it ends."""

from __future__ import annotations

from collections import Counter

import pytest
from deltalake import DeltaTable

from headrace.model.maintenance import MaintenanceRequest, Task

pytestmark = pytest.mark.spark

MANY = 24
TEXT = """
    from pathlib import Path
    from pyspark.sql import functions as F

    landing = str(Path(__file__).parents[1] / "landing")

    @dp.table(table_properties={"pipelines.autoOptimize.zOrderCols": "k, id"}, partition_cols=["part"])
    @dp.expect_or_quarantine("even", "id % 2 = 0")
    def landed():
        return spark.readStream.schema("id INT").json(landing).selectExpr("id", "id % 7 AS k", "id % 4 AS part")

    @dp.table(cluster_by=["id"])
    def later():
        return spark.readStream.table("landed")

    @dp.table(table_properties={"delta.enableDeletionVectors": "true"})
    def plain():
        return spark.readStream.table("later")

    @dp.materialized_view
    def totals():
        return spark.read.table("plain").groupBy("k").count()
    """


def maintained(pipeline, *tables, **given):
    project = pipeline.project
    return project.maintain(MaintenanceRequest(*tables, **given), project.plan)


def summary(actions):
    return {(action.table, action.task.value): action.state.value for action in actions}


def protocol(path):
    found = DeltaTable(path).protocol()
    return found.min_reader_version, found.min_writer_version, sorted(found.writer_features or ())


def scatter(session, path, count=MANY):
    rows = session.read.format("delta").load(path).repartition(count)
    rows.write.format("delta").mode("overwrite").option("dataChange", "false").save(path)


@pytest.mark.long(
    guard=(
        "tests/unit/project/test_maintain.py::test_a_dry_run_plans_what_the_run_does_and_changes_nothing",
        "tests/unit/plan/test_maintenance.py::test_only_changed_partitions_are_z_ordered",
        "tests/spark/test_compaction.py::test_an_update_compacts_a_table_and_its_quarantine_unless_compaction_is_disabled",
    )
)
def test_maintenance_rewrites_what_is_due_and_streams_see_nothing_of_it(project, headrace_session):
    pipeline = project(TEXT)
    pipeline.land("landing/1.json", [{"id": number} for number in range(200)])
    pipeline.run()
    tables = pipeline.folder / "storage" / "tables" / "default"
    paths = {name: str(tables / name) for name in ("landed", "landed_quarantine", "later", "plain", "totals")}
    # A rewrite would remove the clustering of "later".
    for name in ("landed_quarantine", "plain"):
        scatter(headrace_session, paths[name])
    headrace_session.sql(f"DELETE FROM delta.`{paths['plain']}` WHERE id < 4")
    quarantine = f"delta.`{paths['landed_quarantine']}`"
    headrace_session.sql(f"UPDATE {quarantine} SET quarantined_at = '2020-01-01', status = 'replayed' WHERE row.id < 9")
    protocols = {name: protocol(path) for name, path in paths.items()}

    planned = maintained(pipeline, dry_run=True)
    done = maintained(pipeline)

    wanted = {
        ("landed", "cluster"),
        ("landed_quarantine", "retention"),
        ("landed_quarantine", "compact"),
        ("later", "cluster"),
        ("plain", "compact"),
    }
    assert summary(planned) == dict.fromkeys(wanted, "PLANNED")
    assert summary(done) == dict.fromkeys(wanted, "DONE"), done
    assert {name: protocol(path) for name, path in paths.items()} == protocols
    assert all(action.after.files < action.before.files for action in done if action.task is Task.COMPACT)
    assert Counter(DeltaTable(paths["landed_quarantine"]).to_pyarrow_table().column("status").to_pylist()) == {
        "open": 96
    }
    assert not summary(maintained(pipeline))
    # New rows make only their partition due.
    pipeline.land("landing/2.json", [{"id": number} for number in range(200, 300, 4)])
    result = pipeline.run()
    (again,) = [a for a in maintained(pipeline, ("landed",)) if a.task is Task.CLUSTER]
    assert [dict(part) for part in again.partitions] == [{"part": "0"}]
    evens = [*range(0, 200, 2), *range(200, 300, 4)]
    assert sorted(row["id"] for row in result.rows("landed")) == evens
    assert sorted(row["id"] for row in result.rows("plain")) == [n for n in evens if n > 3]
    assert pipeline.run().rows("landed")
    assert pipeline.plan().empty, pipeline.plan().describe()
