"""Snapshots, one after another, become the rows that the vendor's documents show; what cannot be taken is refused."""

from __future__ import annotations

import pytest

from headrace.errors import Problems
from headrace.events.types import BatchDone
from headrace.model.outcome import UpdateState
from headrace.testing import Crashed, Failpoint

pytestmark = pytest.mark.spark

# Whole snapshots by their version, of the vendor's page on snapshots.
VERSIONS = {
    1: [(1, "a1", "b1"), (2, "a2", "b2"), (4, "a4", "b4")],
    2: [(2, "a2_new", "b2"), (3, "a3", "b3"), (4, "a4", "b4_new")],
}
TEXT = """
    from pathlib import Path

    FOLDER = Path(__file__).parents[1] / "snapshots"

    def next_snapshot(latest):
        number = (latest or 0) + 1
        path = FOLDER / f"{number}.json"
        return (spark.read.json(str(path)), number) if path.exists() else None

    def compare(target, source=next_snapshot, rules=None, **more):
        dp.create_streaming_table(target, expect_all_or_drop=rules)
        dp.create_auto_cdc_from_snapshot_flow(target=target, source=source, keys=["Key"], **more)

    compare("type_1")
    compare("type_2", stored_as_scd_type=2)
    compare("tracked", stored_as_scd_type="2", track_history_column_list=["TrackingCol"])
    rules = {"not b3": "NonTrackingCol <> 'b3'", "not new": "TrackingCol <> 'a2_new'"}
    compare("ruled", rules=rules, stored_as_scd_type=2)

    @dp.temporary_view
    def newest():
        path = max(FOLDER.glob("*.json"), key=lambda file: int(file.stem))
        return spark.read.json(str(path))

    compare("by_time", "newest", stored_as_scd_type=2)
    """


def snapshot(rows):
    return [{"Key": key, "TrackingCol": tracked, "NonTrackingCol": other} for key, tracked, other in rows]


def land(pipeline, number, rows):
    pipeline.land(f"snapshots/{number}.json", snapshot(rows))


def rows(result, name):
    order = ("Key", "TrackingCol", "NonTrackingCol", "more", "__START_AT", "__END_AT")
    found = [tuple(row[column] for column in order if column in row) for row in result.rows(name)]
    return sorted(found, key=str)


LONG = pytest.mark.long(guard="its other cases")


def taken(pipeline, *targets):
    """The update of these tables that takes both snapshots."""
    for number, found in VERSIONS.items():
        land(pipeline, number, found)
    return pipeline.run(*targets)


@pytest.fixture(scope="module")
def few(shared_project):
    return taken(shared_project(TEXT), "ruled")


@pytest.fixture(scope="module")
def rest(shared_project):
    return taken(shared_project(TEXT), "type_1", "type_2", "tracked")


@pytest.mark.parametrize(
    ("of", "table", "expected"),
    [
        pytest.param(
            *("rest", "type_1", [(2, "a2_new", "b2"), (3, "a3", "b3"), (4, "a4", "b4_new")]),
            marks=LONG,
        ),
        pytest.param(
            "rest",
            "tracked",
            [
                (1, "a1", "b1", 1, 2),
                (2, "a2", "b2", 1, 2),
                (2, "a2_new", "b2", 2, None),
                (3, "a3", "b3", 2, None),
                (4, "a4", "b4_new", 1, None),
            ],
            marks=LONG,
        ),
        pytest.param(
            "rest",
            "type_2",
            [
                (1, "a1", "b1", 1, 2),
                (2, "a2", "b2", 1, 2),
                (2, "a2_new", "b2", 2, None),
                (3, "a3", "b3", 2, None),
                (4, "a4", "b4", 1, 2),
                (4, "a4", "b4_new", 2, None),
            ],
            marks=LONG,
        ),
        # A row that a rule keeps out is there: the one before it stays.
        (
            "few",
            "ruled",
            [(1, "a1", "b1", 1, 2), (2, "a2", "b2", 1, None), (4, "a4", "b4", 1, 2), (4, "a4", "b4_new", 2, None)],
        ),
    ],
)
def test_the_documented_snapshots_produce_the_documented_rows(of, table, expected, request):
    result = request.getfixturevalue(of)

    assert rows(result, table) == expected


def test_the_rows_changed_by_a_snapshot_are_counted(few):
    counts = few.counts("ruled")

    # Three rows of the first snapshot; of the second one, which drops two, one row is written and two end.
    assert (counts.rows_written, counts.rows_dropped, counts.rows_upserted, counts.rows_deleted) == (4, 2, 6, 0)


ONE = """
    from pathlib import Path

    FOLDER = Path(__file__).parents[1] / "snapshots"

    def next_snapshot(latest):
        numbers = sorted(int(file.stem) for file in FOLDER.glob("*.json"))
        later = [number for number in numbers if number > (latest or 0) or ALL]
        return (spark.read.json(str(FOLDER / f"{later[0]}.json")), later[0]) if later else None

    ALL = False
    dp.create_streaming_table("t")
    dp.create_auto_cdc_from_snapshot_flow("t", next_snapshot, ["Key"], 2)
    """


def test_an_invalid_snapshot_leaves_the_table_unchanged(project):
    pipeline = project(ONE)
    land(pipeline, 1, [(1, "a", "b"), (None, "c", "d")])
    land(pipeline, 2, [(2, "a", "b"), (2, "a", "c"), (None, "e", "f")])
    pipeline.run()

    # Tried once more, with what it had set aside.
    result = pipeline.run()

    assert result.error == "CDC.REPEATED_KEYS"
    assert result.outcome.error["message"].endswith("duplicate keys: 2")
    assert rows(pipeline, "t") == [(1, "a", "b", 1, None)]
    assert sorted(row["row"]["TrackingCol"] for row in pipeline.rows("t_quarantine")) == ["c", "e"]

    file = pipeline.folder / "transformations" / "project.py"
    pipeline.write("transformations/project.py", file.read_text().replace("ALL = False", "ALL = True"))
    result = pipeline.run()

    assert result.error == "CDC.SNAPSHOT_ORDER"


def test_a_snapshot_without_key_columns_deletes_nothing(project):
    pipeline = project(ONE)
    land(pipeline, 1, [(1, "a", "b")])
    (pipeline.folder / "snapshots" / "2.json").write_text('{"TrackingCol": "a", "NonTrackingCol": "b"}')

    result = pipeline.run()

    assert result.error == "CDC.BAD_ARGUMENT"
    assert rows(pipeline, "t") == [(1, "a", "b", 1, None)]


@pytest.mark.long(
    guard=(
        "tests/spark/test_snapshots.py::test_a_snapshot_without_key_columns_deletes_nothing",
        "tests/spark/test_snapshots.py::test_an_invalid_snapshot_leaves_the_table_unchanged",
    )
)
def test_a_failed_snapshot_is_requested_again_and_missing_key_columns_delete_nothing(project):
    pipeline, without_keys = project(ONE), '{"TrackingCol": "a", "NonTrackingCol": "b"}'
    land(pipeline, 1, [(1, "a", "b")])
    file = pipeline.folder / "snapshots" / "2.json"
    file.write_text(without_keys)
    among_others = pipeline.run().error
    kept = rows(pipeline, "t")
    land(pipeline, 2, [(2, "a", "b"), (2, "a", "c")])
    repeated = pipeline.run().error
    file.unlink()
    pipeline.run()
    file.write_text(without_keys)

    with pytest.raises(Problems) as alone:
        pipeline.run()
    land(pipeline, 2, [(2, "a", "b")])
    result = pipeline.run()

    codes = (among_others, repeated, *[problem.code for problem in alone.value])
    assert codes == ("CDC.BAD_ARGUMENT", "CDC.REPEATED_KEYS", "CDC.BAD_ARGUMENT")
    assert kept == [(1, "a", "b", 1, None)]
    assert result.state is UpdateState.COMPLETED
    assert rows(pipeline, "t") == [(1, "a", "b", 1, 2), (2, "a", "b", 2, None)]


@pytest.mark.long(
    guard=(
        "tests/spark/test_snapshots.py::test_the_documented_snapshots_produce_the_documented_rows",
        "tests/spark/test_change_columns.py::test_columns_removed_from_the_source_become_null_and_new_columns_are_added",
    )
)
def test_snapshots_with_added_and_with_removed_columns_are_applied(project):
    pipeline = project(ONE)
    land(pipeline, 1, [(1, "a", "b")])
    pipeline.land("snapshots/2.json", [{"KEY": 1, "TrackingCol": "a", "NonTrackingCol": "b", "more": 1.5}])
    pipeline.run()
    pipeline.land("snapshots/3.json", [{"Key": 1, "TrackingCol": "a", "more": 1.5}])

    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED
    assert rows(pipeline, "t") == [
        (1, "a", "b", 1.5, 2, 3),
        (1, "a", "b", None, 1, 2),
        (1, "a", None, 1.5, 3, None),
    ]
    assert pipeline.plan().empty


@pytest.mark.long(
    guard=(
        "tests/spark/test_snapshots.py::test_counts_recovered_after_a_crash_come_from_the_commit_if_the_source_has_changed",
        "tests/spark/test_change_crashes.py::test_a_crash_changes_neither_rows_nor_counts",
    )
)
@pytest.mark.parametrize("point", [Failpoint.BEFORE_WRITE, Failpoint.WRITTEN])
def test_rows_and_counts_after_a_crash_are_the_same_as_without_one(project, point):
    pipeline = project(ONE)
    for number, found in VERSIONS.items():
        land(pipeline, number, found)
    with pytest.raises(Crashed):
        pipeline.crash_at(point, skip=1).run()
    pipeline = pipeline.restart()
    land(pipeline, 3, [(2, "a2_new", "b2")])

    pipeline.run()

    assert rows(pipeline, "t") == [
        (1, "a1", "b1", 1, 2),
        (2, "a2", "b2", 1, 2),
        (2, "a2_new", "b2", 2, None),
        (3, "a3", "b3", 2, 3),
        (4, "a4", "b4", 1, 2),
        (4, "a4", "b4_new", 2, 3),
    ]
    assert pipeline.project.events().flow_totals()["t"].rows_written == 7


@pytest.mark.long(
    guard=(
        "tests/spark/test_snapshots.py::test_snapshots_of_a_dataset_are_versioned_by_the_time_of_their_update",
        "tests/unit/cdc/test_snapshot_versions.py::test_snapshot_progress_survives_a_json_round_trip",
    )
)
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ('"2024-01-31"', '"2024-02-29"'),
        ("date(2024, 1, 31)", "date(2024, 2, 29)"),
        ("datetime(2024, 1, 31, 12)", "datetime(2024, 1, 31, 13)"),
        ('b"a"', 'b"b"'),
        ("0.5", "1.5"),
        ('Decimal("0.5")', 'Decimal("1.5")'),
    ],
)
def test_snapshot_versions_of_every_data_type_order_the_snapshots_of_both_scd_types(project, first, second):
    text = f"""
    from datetime import date, datetime
    from decimal import Decimal

    VERSIONS = [{first}, {second}]

    def next_snapshot(latest):
        later = [version for version in VERSIONS if latest is None or version > latest]
        number = VERSIONS.index(later[0]) if later else 0
        return (spark.range(number, number + 2).withColumnRenamed("id", "Key"), later[0]) if later else None

    for target, kept in (("one", 1), ("two", 2)):
        dp.create_streaming_table(target)
        dp.create_auto_cdc_from_snapshot_flow(target, next_snapshot, ["Key"], kept)
    """
    result = project(text).run()

    assert result.state is UpdateState.COMPLETED
    assert rows(result, "one") == [(1,), (2,)]
    assert [(row["Key"], row["__END_AT"] is None) for row in result.rows("two")] == [(0, False), (1, True), (2, True)]


@pytest.fixture(scope="module")
def by_time(shared_project):
    """The update after a crash in the first snapshot of a dataset, and its events."""
    pipeline = shared_project(TEXT)
    land(pipeline, 1, [(1, "a", "b"), (2, "a", "b")])
    with pytest.raises(Crashed):
        pipeline.crash_at(Failpoint.WRITTEN).run("by_time")
    pipeline = pipeline.restart()
    land(pipeline, 2, [(2, "new", "b"), (4, "a", "b"), (5, "a", "b")])
    events = []
    return pipeline.run("by_time", on_event=events.append), events


def test_counts_recovered_after_a_crash_come_from_the_commit_if_the_source_has_changed(by_time):
    _, events = by_time

    first, second = [event.counts for event in events if isinstance(event, BatchDone)]

    assert (first.rows_upserted, first.recovered) == (2, True)
    assert (second.rows_written, second.rows_upserted, second.recovered) == (3, 5, False)


def test_snapshots_of_a_dataset_are_versioned_by_the_time_of_their_update(by_time):
    result, _ = by_time

    found = {row[:2]: row[3:] for row in rows(result, "by_time")}

    begun, ended = found[1, "a"]
    assert begun < ended
    assert found[2, "a"] == (begun, ended)
    assert found[2, "new"] == found[5, "a"] == (ended, None)
