"""However a batch of change events is written, the same rows come of it, and what was done is told."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import pytest
from deltalake import DeltaTable

from headrace.cdc.merge_commit import WritePath
from headrace.model.outcome import FlowState
from headrace.testing.result import table_path

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

TEXT = """
    from pathlib import Path

    def apply(target, properties={}, partitions=None, **more):
        @dp.temporary_view(name=f"{target}_events")
        def events():
            landing = str(Path(__file__).parents[1] / "landing")
            rows = spark.readStream.schema("id BIGINT, city STRING, version INT, gone BOOLEAN")
            return rows.option("maxFilesPerTrigger", 1).json(landing)

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
# Rows that no later batch changes.
OTHERS = [(key, "Oslo", 1) for key in range(100, 150)]
BATCHES = [
    [
        *OTHERS,
        *[(-1, "Oslo", 1), (2, "Rome", 1), (3, "Bern", 1), (-1, "Paris", 3), (4, "Kyiv", 2)],
        *[(5, "Nice", 1), (5, None, 3, True)],
    ],
    # A delete, a new key, and events that are older than the rows and deletes of the first batch, or as new.
    [
        *[(-1, "Turku", 2), (2, None, 2, True), (2, "Lima", 1), (3, "Bern", 1), (4, "Lviv", 2)],
        *[(5, "Lyon", 2), (6, "Graz", 1)],
    ],
]
ROWS = {
    "one": [(-1, "Paris", 3), (3, "Bern", 1), (4, "Lviv", 2), (6, "Graz", 1)],
    "two": [
        (-1, "Oslo", 1, 1, 2),
        (-1, "Paris", 3, 3, None),
        (-1, "Turku", 2, 2, 3),
        (2, "Rome", 1, 1, 2),
        (3, "Bern", 1, 1, None),
        (4, "Lviv", 2, 2, None),
        (5, "Lyon", 2, 2, 3),
        (5, "Nice", 1, 1, 2),
        (6, "Graz", 1, 1, None),
    ],
}
PATHS = {
    "replaced": WritePath.REPLACED,
    "without_vectors": WritePath.REPLACED,
    "mapped": WritePath.REPLACED,
    "feed": WritePath.FEED,
    "tracked": WritePath.TRACKED,
}
# Each type of tables: one whose files are replaced, and one that Delta merges into.
FEW = ("one_replaced", "two_tracked")
REST = tuple(target for kind in ROWS for how in PATHS if (target := f"{kind}_{how}") not in FEW)
LONG = pytest.mark.long(guard="its other cases")


@dataclass(frozen=True)
class Written:
    """Tables after all batches, the events of the update, and the files of each table after each batch."""

    pipeline: Any
    rows: dict[str, list[tuple]]
    events: list[Any]
    explained: dict[str, str]
    files: dict[str, list[set[str]]]


def land(pipeline, number, events):
    names = ("id", "city", "version", "gone")
    file = pipeline.land(f"landing/{number}.json", [dict(zip(names, one, strict=False)) for one in events])
    # In this order.
    os.utime(file, (number + 1, number + 1))


def rows(pipeline, target):
    found = [tuple(row.values()) for row in pipeline.rows(target)]
    return sorted((row for row in found if row[0] < OTHERS[0][0]), key=str)


def path_of(pipeline, target):
    return table_path(pipeline.settings.layout, pipeline.settings.naming, target)


def files_of(path):
    """The files of a table after each batch, which is a commit."""
    newest = DeltaTable(path).version()
    versions = range(newest - len(BATCHES) + 1, newest + 1)
    return [set(DeltaTable(path, version=version).file_uris()) for version in versions]


def write(pipeline, targets):
    events = []
    for number, batch in enumerate(BATCHES):
        land(pipeline, number, batch)
    pipeline.run(*targets, on_event=events.append)
    files = {target: files_of(path_of(pipeline, target)) for target in targets}
    found = {target: rows(pipeline, target) for target in targets}
    explained = {target: pipeline.project.explain(target).describe() for target in targets}
    return Written(pipeline, found, events, explained, files)


@pytest.fixture(scope="module")
def few(shared_project):
    return write(shared_project(TEXT), FEW)


@pytest.fixture(scope="module")
def rest(shared_project):
    return write(shared_project(TEXT), REST)


@pytest.mark.parametrize(
    ("of", "target"),
    [
        *[("few", target) for target in FEW],
        *[pytest.param("rest", target, marks=LONG) for target in REST],
    ],
)
def test_each_write_path_produces_the_same_rows_and_is_reported(of, target, request):
    kind, _, how = target.partition("_")

    written = request.getfixturevalue(of)

    paths = [one.write_path for one in written.events if getattr(one, "merge_path", None) and one.dataset == target]
    assert written.rows[target] == ROWS[kind]
    assert paths == [PATHS[how]] * len(BATCHES)
    assert PATHS[how].value in written.explained[target]


def test_a_batch_rewrites_only_the_rows_that_it_changes(few):
    first, now = few.files["one_replaced"]

    assert (first - now, len(now - first)) == (set(), 1)
    assert len(few.pipeline.rows("one_replaced")) >= len(OTHERS)


@pytest.fixture(scope="module")
def doubled(few, headrace_session):
    """One more update, after somebody has added rows with existing keys to two tables; with its events."""
    one, two = (path_of(few.pipeline, target) for target in ("one_replaced", "two_tracked"))
    row = headrace_session.createDataFrame([(-1, "Rome", 9)], "id BIGINT, city STRING, version INT")
    row.write.format("delta").mode("append").save(one)
    headrace_session.read.format("delta").load(two).write.format("delta").mode("append").save(two)
    land(few.pipeline, len(BATCHES), [(-1, "Ulm", 5), (7, "Kyiv", 5)])
    events = []
    return few.pipeline.run("one_replaced", "two_tracked", on_event=events.append), events


def test_duplicate_keys_from_another_writer_are_each_compared(doubled):
    result, events = doubled

    paths = [one.write_path for one in events if getattr(one, "merge_path", None) and one.dataset == "one_replaced"]
    wanted = [(-1, "Ulm", 5), (-1, "Rome", 9), *ROWS["one"][1:], (7, "Kyiv", 5)]
    assert rows(result, "one_replaced") == sorted(wanted, key=str)
    assert paths == [WritePath.DOUBLED]


def test_a_history_with_duplicates_from_another_writer_fails_and_stays_unchanged(doubled):
    result, _ = doubled

    assert result.flow("two_tracked").state is FlowState.FAILED
    assert rows(result, "two_tracked") == sorted(ROWS["two"] * 2, key=str)
