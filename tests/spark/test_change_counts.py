"""What merging change events forgets, and what it counts."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable

from headrace.cdc.feed import MergePath
from headrace.model.outcome import ChangeCounts, FlowState
from headrace.testing import Crashed, Failpoint
from headrace.testing.result import table_path

pytestmark = pytest.mark.spark

APPLY = """
    from pathlib import Path

    @dp.temporary_view
    def events():
        schema = "id INT, city STRING, size INT, version INT, operation STRING"
        return spark.readStream.schema(schema).json(str(Path(__file__).parents[1] / "landing"))

    def apply(target, *hidden, properties=None, **more):
        dp.create_streaming_table(target, table_properties=properties or {})
        dp.create_auto_cdc_flow(
            target=target,
            source="events",
            keys=["id"],
            sequence_by="version",
            apply_as_deletes="operation = 'delete'",
            except_column_list=["operation", *hidden],
            **more,
        )
    """
FORGETTING = (
    APPLY
    + """
    at_once = {"pipelines.cdc.tombstoneGCThresholdInSeconds": "0"}
    apply("remembering")
    apply("shown", properties=at_once)
    apply("hidden", "version", properties=at_once)
    apply("kept", "version", properties=at_once, ignore_null_updates=True)
    apply("versions", "version", properties=at_once, stored_as_scd_type=2)
    """
)


def event(number, city, version, operation="upsert", size=None):
    return {"id": number, "city": city, "size": size, "version": version, "operation": operation}


def rows(result, name):
    return sorted((tuple(row.values()) for row in result.rows(name)), key=str)


# However late it comes, an old event replaces no row that is newer, and a row keeps what it was made of.
LATE_ROWS = {
    "remembering": [(2, None, 8, 6)],
    "shown": [(1, "Rome", None, 2), (2, None, 8, 6), (3, "Bern", None, 4)],
    "hidden": [(1, "Rome", None), (2, None, 8), (3, "Bern", None)],
    "kept": [(1, "Rome", None), (2, "Oslo", 8), (3, "Bern", None)],
    "versions": [
        (1, "Oslo", None, 1, 2),
        (1, "Rome", None, 2, 5),
        (2, "Oslo", None, 3, 4),
        (2, "Rome", 1, 2, 3),
        (2, None, 7, 4, 6),
        (2, None, 8, 6, None),
        (3, "Bern", None, 4, None),
    ],
}


@pytest.mark.parametrize(
    "targets",
    [
        ("versions",),
        pytest.param(
            ("hidden", "kept", "shown", "remembering"),
            marks=pytest.mark.long(guard="its other cases"),
        ),
    ],
    ids=["few", "rest"],
)
def test_events_later_than_the_tombstone_retention_are_compared_only_with_rows(project, targets):
    pipeline = project(FORGETTING)
    gone = [event(1, "Oslo", 1), event(1, None, 5, "delete"), event(3, None, 5, "delete")]
    pipeline.land("landing/1.json", [*gone, event(2, "Oslo", 3), event(2, None, 4, size=7)])
    pipeline.run(*targets)
    late = [event(1, "Rome", 2), event(3, "Bern", 4), event(2, "Rome", 2, size=1)]
    pipeline.land("landing/2.json", [*late, event(2, None, 6, size=8)])

    # A crash after forgetting changes nothing.
    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.EVENTS_EXPIRED).run(targets[0])

    result = pipeline.restart().run(*targets)

    assert {name: rows(result, name) for name in targets} == {name: LATE_ROWS[name] for name in targets}
    late_events = {name: result.counts(name).changes.late for name in targets if name != "kept"}
    assert late_events == {name: 0 if name == "remembering" else 3 for name in late_events}


COUNTING = (
    APPLY
    + """
    apply("shown")
    apply("versions", "version", stored_as_scd_type=2)
    apply("failing", properties={"headrace.cdc.on_tie": "fail"})
    apply("set_aside", properties={"headrace.cdc.on_tie": "quarantine"})

    @dp.temporary_view
    def stamped():
        # No event comes.
        later = Path(__file__).parents[1] / "later"
        later.mkdir(exist_ok=True)
        rows = spark.readStream.schema("id INT, city STRING, version INT").json(str(later))
        return rows.withColumn("read_at", F.current_timestamp()).filter("id IS NOT NULL")

    dp.create_streaming_table("by_chance")
    by = F.struct("read_at", "version")
    dp.create_auto_cdc_flow(target="by_chance", source="stamped", keys=["id"], sequence_by=by)
    """
)
TIES = [event(1, "Rome", 2), event(1, "Oslo", 2), event(1, "Rome", 2), event(2, "Bern", 3), event(2, None, 3, "delete")]
ALONE = [event(3, "Oslo", 1, size=1), event(3, None, 2, size=1), event(3, None, 2, size=1), event(3, None, 3)]


def test_sequence_conflicts_are_resolved_or_refused_or_quarantined_and_counted(project):
    pipeline = project(COUNTING)
    pipeline.land("landing/1.json", [*TIES, *ALONE, event(None, "Bern", 3)])
    said = []

    result = pipeline.run("shown", "failing", "set_aside", "by_chance", on_event=said.append)

    assert rows(result, "shown") == [(1, "Rome", None, 2), (3, None, None, 3)]
    assert result.counts("shown").changes == ChangeCounts(tied=3)
    assert rows(result, "set_aside") == [(3, None, None, 3)]
    assert result.failed("set_aside") == {"cdc.null_key": 1, "cdc.null_sequence": 0, "cdc.tie": 5}
    assert result.counts("set_aside").changes == ChangeCounts()
    assert "__headrace_tied" not in result.rows("set_aside_quarantine")[0]["row"]
    assert (result.flow("failing").state, rows(result, "failing")) == (FlowState.FAILED, [])
    assert (result.error, result.outcome.error["detail"]) == (
        "CDC.TIED",
        "In batch 0: {1} at 2, {2} at 3. The order of these events is undefined, and headrace.cdc.on_tie is fail.",
    )
    paths = {batch.flow: batch.merge_path.value for batch in said if getattr(batch, "merge_path", None)}
    assert paths["shown"] == "the newest event of a key decides"
    assert {one.flow for one in said if getattr(one, "code", "") == "CDC.ORDERED_BY_CHANCE"} == {"by_chance"}


@pytest.mark.parametrize(
    "target",
    [
        "versions",
        pytest.param(
            "shown",
            marks=pytest.mark.long(guard="its other cases"),
        ),
    ],
)
def test_the_next_update_counts_a_batch_that_was_merged_before_a_crash(target, project):
    configuration = {"spark.databricks.delta.commitInfo.userMetadata": "ticket 7"}
    pipeline = project(COUNTING, configuration=configuration)
    pipeline.land("landing/1.json", [*TIES, *ALONE])
    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.WRITTEN).run(target)
    said = []

    result = pipeline.restart().run(target, on_event=said.append)

    counts = {
        "shown": ChangeCounts(tied=3),
        "versions": ChangeCounts(3, 0, 2, 4, lone_changes=2, lone_column="city"),
    }
    assert result.counts(target).changes == counts[target]
    (path,) = {batch.merge_path for batch in said if getattr(batch, "merge_path", None)}
    texts = {"shown": "the newest event of a key decides", "versions": "the rows of changed keys are recomputed"}
    assert path.value == texts[target]
    assert path is (MergePath.LATEST_EVENT if target == "shown" else MergePath.RECOMPUTED_KEYS)
    (explained,) = pipeline.project.explain(target).to_json()["flows"]
    assert explained["merge"]["last"]["path"] == path.value
    settings = pipeline.settings
    newest = DeltaTable(table_path(settings.layout, settings.naming, target)).history(1)[0]
    assert json.loads(newest["userMetadata"])["user_metadata"] == "ticket 7"
