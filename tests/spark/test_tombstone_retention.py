"""What is forgotten after the window changes nothing for events that come within it."""

from __future__ import annotations

import random

import pytest
from deltalake import DeltaTable
from tests.tiers import examples

from headrace.cdc.events import Change, Event
from headrace.cdc.history import target_rows
from headrace.cdc.scd_spec import ScdSpec, ScdType

pytestmark = [pytest.mark.spark, pytest.mark.timeout(1200)]

KEYS, COLUMNS = examples(few=150, many=500), ("key", "city", "rank")
TEXT = """
    from pathlib import Path

    LANDING = str(Path(__file__).parents[1] / "landing")

    @dp.temporary_view
    def everything():
        event = "key INT, sequence INT, city STRING, rank INT, operation STRING, sets ARRAY<STRING>"
        return spark.readStream.schema(event).option("maxFilesPerTrigger", 1).json(LANDING)

    @dp.temporary_view
    def events():
        return spark.readStream.table("everything").filter("operation <> 'truncate'")

    def apply(target, source="events", shown=(), **more):
        dp.create_streaming_table(target)
        dp.create_auto_cdc_flow(
            target=target,
            source=source,
            keys=["key"],
            sequence_by="sequence",
            apply_as_deletes="operation = 'delete'",
            column_list=["key", *shown, "city", "rank"],
            **more,
        )

    apply("shown", shown=["sequence"])
    apply("hidden")
    apply("kept", ignore_null_updates_column_list=["city"])
    apply("truncated", "everything", apply_as_truncates="operation = 'truncate'")
    apply("versions", stored_as_scd_type=2, track_history_column_list=["rank"])
    apply("partly", stored_as_scd_type=2, track_history_column_list=["rank"], columns_to_update="sets")
    """
SHAPES = {
    "shown": ScdSpec(("key",), ("key", "sequence", "city", "rank")),
    "hidden": ScdSpec(("key",), COLUMNS),
    "kept": ScdSpec(("key",), COLUMNS, ignore_null_columns=frozenset({"city"})),
    "truncated": ScdSpec(("key",), COLUMNS),
    "versions": ScdSpec(("key",), COLUMNS, ScdType.TWO, tracked=("rank",)),
    "partly": ScdSpec(("key",), COLUMNS, ScdType.TWO, tracked=("rank",), partial=True),
}


def some_events(chance, first, last):
    """Events of all keys with sequences of a range, deletes, NULLs and ties among them, and one truncate."""
    found = [{"sequence": chance.randint(first, last - 1), "operation": "truncate"}]
    for key in range(KEYS):
        for _ in range(chance.randint(0, 4)):
            event = {"key": key, "sequence": chance.randint(first, last), "operation": "upsert"}
            event |= {"city": chance.choice([None, "Oslo", "Rome"]), "rank": chance.choice([None, 1, 1, 1, 2])}
            event["sets"] = chance.choice([None, ["city"], ["rank"], []])
            deleted = {"key": key, "sequence": event["sequence"], "operation": "delete"}
            found.append(deleted if chance.random() < 0.15 else event)
    return found


def as_event(event, name):
    if event["operation"] == "truncate":
        return Event((), event["sequence"], Change.TRUNCATE)
    if event["operation"] == "delete":
        return Event((event["key"],), event["sequence"], Change.DELETE)
    sets = event["sets"] if name == "partly" else None
    row = {column: event.get(column) for column in SHAPES[name].columns}
    return Event((event["key"],), event["sequence"], Change.UPSERT, row, None if sets is None else frozenset(sets))


def expected(events, name):
    known = [event for event in events if name == "truncated" or event["operation"] != "truncate"]
    versions = target_rows([as_event(event, name) for event in known], SHAPES[name])
    ends = SHAPES[name].scd_type is ScdType.TWO
    return sorted(((*one.row, one.start, one.end) if ends else one.row for one in versions), key=str)


@pytest.mark.long(
    guard=(
        "tests/spark/test_change_counts.py::test_events_later_than_the_tombstone_retention_are_compared_only_with_rows",
        "tests/unit/cdc/test_history.py::test_scd1_rows_do_not_depend_on_event_order_or_duplicates",
    )
)
@pytest.mark.parametrize(
    "names",
    [
        ("truncated",),
        pytest.param(
            ("shown", "hidden", "kept", "versions", "partly"),
            marks=pytest.mark.long(
                guard=(
                    "its other cases",
                    (
                        "tests/spark/test_change_counts.py"
                        "::test_events_later_than_the_tombstone_retention_are_compared_only_with_rows"
                    ),
                )
            ),
        ),
    ],
    ids=["few", "rest"],
)
def test_pruning_retained_events_does_not_affect_late_events_within_the_retention_window(project, names):
    chance = random.Random(7)
    old, new, late = (some_events(chance, first, first + 3) for first in (1, 9, 5))
    pipeline = project(TEXT)
    pipeline.land("landing/1.json", old)
    pipeline.land("landing/2.json", new)
    pipeline.run(*names)
    memories = {name: pipeline.folder / "storage" / "system" / "cdc" / "default" / name for name in names}
    for memory in memories.values():
        DeltaTable(memory).update({"remembered_at": "remembered_at - interval '3 days'"}, predicate="batch_id = 0")
    of_old = {name: _of_batch_0(memory) for name, memory in memories.items()}
    pipeline.land("landing/3.json", late)

    result = pipeline.run(*names)

    found = {name: sorted((tuple(row.values()) for row in result.rows(name)), key=str) for name in names}
    assert found == {name: expected([*old, *new, *late], name) for name in names}
    assert {name for name, memory in memories.items() if _of_batch_0(memory) < of_old[name]} == set(names)
    assert all(result.counts(name).changes.late == 0 for name in {"shown", "hidden"} & set(names))


def _of_batch_0(memory):
    return DeltaTable(memory).to_pyarrow_table(columns=["batch_id"])["batch_id"].to_pylist().count(0)
