"""However a batch of change events is written, the same rows come of it, and what was done is told."""

from __future__ import annotations

import pytest

from headrace.cdc.merged import WritePath
from headrace.model.outcome import UpdateState
from headrace.spark.delta_tables import delta_table
from headrace.testing.result import table_path

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

TEXT = """
    from pathlib import Path

    def apply(target, properties={}, partitions=None, **more):
        @dp.temporary_view(name=f"{target}_events")
        def events():
            landing = str(Path(__file__).parents[1] / "landing")
            return spark.readStream.schema("id BIGINT, city STRING, version INT, gone BOOLEAN").json(landing)

        dp.create_streaming_table(target, table_properties=properties, partition_cols=partitions)
        events = {"keys": ["id"], "sequence_by": "version", "apply_as_deletes": "gone"}
        dp.create_auto_cdc_flow(target, f"{target}_events", **events, except_column_list=["gone"], **more)

    for name, stored in [("one", 1), ("two", 2)]:
        apply(f"{name}_replaced", stored_as_scd_type=stored)
        apply(f"{name}_without_vectors", {"delta.enableDeletionVectors": "false"}, stored_as_scd_type=stored)
        apply(f"{name}_mapped", {"delta.columnMapping.mode": "name"}, ["city"], stored_as_scd_type=stored)
        apply(f"{name}_feed", {"delta.enableChangeDataFeed": "True"}, stored_as_scd_type=stored)
        apply(f"{name}_tracked", {"delta.enableRowTracking": "true"}, stored_as_scd_type=stored)
    """
BATCHES = [
    [(-1, "Oslo", 1), (2, "Rome", 1), (3, "Bern", 1)],
    [(-1, "Paris", 3), (2, None, 2, True), (4, "Kyiv", 2)],
    # Late, older than what is there, and as new as that.
    [(-1, "Turku", 2), (2, "Lima", 1), (3, "Bern", 1), (4, "Lviv", 2)],
]
ONE = [(-1, "Paris", 3), (3, "Bern", 1), (4, "Lviv", 2)]
TWO = [
    (-1, "Oslo", 1, 1, 2),
    (-1, "Paris", 3, 3, None),
    (-1, "Turku", 2, 2, 3),
    (2, "Rome", 1, 1, 2),
    (3, "Bern", 1, 1, None),
    (4, "Lviv", 2, 2, None),
]


def land(pipeline, number, events):
    names = ("id", "city", "version", "gone")
    pipeline.land(f"landing/{number}.json", [dict(zip(names, one, strict=False)) for one in events])


def rows(pipeline, target):
    return sorted((tuple(row.values()) for row in pipeline.rows(target)), key=str)


@pytest.fixture(scope="module")
def written(shared_project):
    """A pipeline with the tables of all ways after all batches, and what it has told."""
    pipeline, said = shared_project(TEXT), []
    for number, events in enumerate(BATCHES):
        land(pipeline, number, events)
        pipeline.run(on_event=said.append)
    return pipeline, said


@pytest.mark.parametrize(("rows_of", "expected"), [("one", ONE), ("two", TWO)])
@pytest.mark.parametrize(
    ("how", "path"),
    [
        ("replaced", WritePath.REPLACED),
        ("without_vectors", WritePath.REPLACED),
        ("mapped", WritePath.REPLACED),
        ("feed", WritePath.FEED),
        ("tracked", WritePath.TRACKED),
    ],
)
def test_the_same_rows_come_of_each_way_and_the_way_is_told(how, path, rows_of, expected, written):
    (pipeline, said), target = written, f"{rows_of}_{how}"
    told = [one.write_path for one in said if getattr(one, "merge_path", None) and one.dataset == target]

    assert rows(pipeline, target) == expected
    assert told == [path] * len(BATCHES)
    assert path.value in pipeline.project.explain(target).describe()


def test_rows_with_one_key_that_somebody_has_added_are_each_compared(project, headrace_session):
    pipeline, said = project(TEXT), []
    land(pipeline, 0, [(-1, "Oslo", 1)])
    pipeline.run("one_replaced")
    path = table_path(pipeline.settings.layout, pipeline.settings.naming, "one_replaced")
    row = headrace_session.createDataFrame([(-1, "Rome", 9)], "id BIGINT, city STRING, version INT")
    row.write.format("delta").mode("append").save(path)
    land(pipeline, 1, [(-1, "Bern", 5), (2, "Kyiv", 5)])

    pipeline.run("one_replaced", on_event=said.append)

    assert rows(pipeline, "one_replaced") == [(-1, "Bern", 5), (-1, "Rome", 9), (2, "Kyiv", 5)]
    assert [one.write_path for one in said if getattr(one, "merge_path", None)] == [WritePath.DOUBLED]


def test_rows_of_a_history_that_somebody_has_doubled_are_not_written_twice(project, headrace_session):
    pipeline = project(TEXT)
    land(pipeline, 0, [(-1, "Oslo", 1)])
    pipeline.run("two_replaced")
    path = table_path(pipeline.settings.layout, pipeline.settings.naming, "two_replaced")
    headrace_session.read.format("delta").load(path).write.format("delta").mode("append").save(path)
    land(pipeline, 1, [(-1, "Bern", 5)])

    result = pipeline.run("two_replaced")

    assert result.state is UpdateState.FAILED
    assert rows(pipeline, "two_replaced") == [(-1, "Oslo", 1, 1, None)] * 2


def test_a_batch_moves_no_rows_beside_those_that_it_changes(project, headrace_session):
    pipeline = project(TEXT)
    land(pipeline, 0, [(key, "Oslo", 1) for key in range(50)])
    pipeline.run("one_replaced")
    path = table_path(pipeline.settings.layout, pipeline.settings.naming, "one_replaced")
    first = set(delta_table(headrace_session, path).toDF().inputFiles())
    land(pipeline, 1, [(7, "Bern", 2), (50, "Bern", 2)])

    pipeline.run("one_replaced")

    now = set(delta_table(headrace_session, path).toDF().inputFiles())
    assert (first - now, len(now - first)) == (set(), 1)
    assert len(rows(pipeline, "one_replaced")) == 51
