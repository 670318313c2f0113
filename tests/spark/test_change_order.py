"""However events are ordered and parted into batches, tables hold what the set of them defines."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from headrace.cdc.events import Change, Event
from headrace.cdc.history import table
from headrace.cdc.shape import ScdType, Shape

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

COLUMNS = ("example", "key", "sequence", "city", "rank")
EXAMPLES, BATCHES = 25, 3
KEYS = ("example", "key")

FLOWS = """
    from pathlib import Path

    LANDING = Path(__file__).parents[1] / "landing"
    EVENT = "example INT, key INT, sequence INT, city STRING, rank INT, operation STRING, sets ARRAY<STRING>"

    def feed(number, name, **more):
        @dp.temporary_view(name=f"{name}_{number}_events")
        def events():
            reader = spark.readStream.schema(EVENT).option("maxFilesPerTrigger", "1")
            return reader.json(str(LANDING / str(number)))

        dp.create_streaming_table(f"{name}_{number}")
        dp.create_auto_cdc_flow(
            target=f"{name}_{number}",
            source=f"{name}_{number}_events",
            keys=["example", "key"],
            sequence_by="sequence",
            apply_as_deletes="operation = 'delete'",
            **more,
        )

    """


@dataclass(frozen=True)
class Kind:
    """Arguments of a flow, and the shape that they mean."""

    name: str
    arguments: str
    shape: Shape


def shape(columns, scd_type=ScdType.ONE, tracked=None, **more):
    columns = tuple(name for name in COLUMNS if name in columns)
    tracked = columns if tracked is None else tracked
    return Shape(KEYS, columns, scd_type, tracked=tuple(name for name in columns if name in tracked), **more)


HIDDEN = 'except_column_list=["operation", "sets", "sequence"]'
SHOWN = 'except_column_list=["operation", "sets"]'
WITHOUT_SEQUENCE = ("example", "key", "city", "rank")
KINDS = [
    Kind("current", SHOWN, shape(COLUMNS)),
    Kind(
        "kept",
        f'{HIDDEN}, ignore_null_updates_column_list=["city"]',
        shape(WITHOUT_SEQUENCE, null_keeps=frozenset({"city"})),
    ),
    Kind("versions", f"{HIDDEN}, stored_as_scd_type=2", shape(WITHOUT_SEQUENCE, ScdType.TWO)),
    Kind(
        "partly",
        f'{HIDDEN}, stored_as_scd_type=2, track_history_column_list=["rank"], columns_to_update="sets"',
        shape(WITHOUT_SEQUENCE, ScdType.TWO, ("rank",), partial=True),
    ),
]


def some_events(chance, example):
    """Up to 80 events of 5 keys, with ties, repetitions, deletes and NULLs."""
    found = []
    for _ in range(chance.randint(1, 80)):
        key, sequence = chance.randint(1, 5), chance.randint(1, 12)
        if chance.random() < 0.2:
            found.append({"example": example, "key": key, "sequence": sequence, "operation": "delete"})
            continue
        row = {"city": chance.choice([None, "Oslo", "Rome"]), "rank": chance.choice([None, 1, 2])}
        sets = chance.choice([None, ["city"], ["rank"], []])
        event = {"example": example, "key": key, "sequence": sequence, "operation": "upsert", "sets": sets, **row}
        found += [event] * chance.choice([1, 1, 1, 2])
    return found


def as_event(event, kind):
    key = (event["example"], event["key"])
    if event["operation"] == "delete":
        return Event(key, event["sequence"], Change.DELETE)
    sets = event["sets"]
    row = {name: event.get(name) for name in kind.shape.columns}
    return Event(
        key, event["sequence"], Change.UPSERT, row, frozenset(sets) if kind.shape.partial and sets is not None else None
    )


def expected(events, kind):
    versions = table([as_event(event, kind) for event in events], kind.shape)
    ends = kind.shape.scd_type is ScdType.TWO
    return sorted(
        ((*version.row, version.start, version.end) if ends else version.row for version in versions), key=str
    )


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_any_order_and_any_batches_lead_to_the_rows_of_the_set(project, kind):
    chance = random.Random(kind.name)
    events = [event for example in range(EXAMPLES) for event in some_events(chance, example)]
    orders = [sorted(events, key=lambda event: event["sequence"]), chance.sample(events, len(events))]
    calls = "\n    ".join(f'feed({number}, "{kind.name}", {kind.arguments})' for number in range(len(orders)))
    pipeline = project(FLOWS + calls)
    for number, ordered in enumerate(orders):
        size = -(-len(ordered) // (1 if number == 0 else BATCHES))
        for batch, begin in enumerate(range(0, len(ordered), size)):
            pipeline.land(f"landing/{number}/{batch}.json", ordered[begin : begin + size])

    result = pipeline.run()

    found = [sorted((tuple(r.values()) for r in result.rows(f"{kind.name}_{n}")), key=str) for n in range(len(orders))]
    assert found == [expected(events, kind)] * len(orders)
