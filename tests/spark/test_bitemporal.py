"""Tables with two times hold what was believed when, however events are ordered and parted into batches."""

from __future__ import annotations

from random import Random

import pytest
from tests.tiers import examples

from headrace.cdc.events import Change, Event
from headrace.cdc.history import bitemporal_history
from headrace.cdc.scd_spec import ScdSpec, ScdType

pytestmark = pytest.mark.spark

TEXT = """
    from pathlib import Path

    @dp.temporary_view
    def events():
        schema = "id INT, city STRING, at INT, known INT, operation STRING"
        stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", "1")
        return stream.json(str(Path(__file__).parents[1] / "landing"))

    dp.create_streaming_table("addresses")
    dp.create_auto_cdc_flow(
        target="addresses",
        source="events",
        keys=["id"],
        sequence_by="at",
        system_sequence_by="known",
        apply_as_deletes="operation = 'delete'",
        column_list=["id", "city"],
        stored_as_scd_type="bitemporal",
    )
    """
SHAPE = ScdSpec(("id",), ("id", "city"), ScdType.TWO, tracked=("id", "city"), bitemporal=True)
BATCHES = examples(few=2, many=4)
# Rome from the start; from 5 on Oslo, as was known at 6; at 8 it turns out that it was Bern first; gone at 9.
WORKED = [
    (0, "Rome", 1, 1, "upsert"),
    (0, "Oslo", 5, 6, "upsert"),
    (0, "Bern", 1, 8, "upsert"),
    (0, None, 9, 10, "delete"),
]
EXPECTED = [
    (0, "Rome", 1, None, 1, 6),
    (0, "Rome", 1, 5, 6, 8),
    (0, "Bern", 1, 5, 8, None),
    (0, "Oslo", 5, None, 6, 10),
    (0, "Oslo", 5, 9, 10, None),
]
NAMES = ("id", "city", "at", "known", "operation")


def random_events(random):
    """Of seven keys each up to nine events, with ties, repetitions, corrections and deletes."""
    found = []
    for key in range(1, 8):
        for _ in range(random.randint(1, 9)):
            operation = random.choice(["upsert", "upsert", "upsert", "delete"])
            city = random.choice(["Oslo", "Rome", None]) if operation == "upsert" else None
            found.append((key, city, random.randint(1, 5), random.randint(1, 5), operation))
    return found + random.sample(found, 5)


def defined(events):
    """The rows by the definition."""
    found = []
    for key in sorted({event[0] for event in events}):
        own = [
            Event((key,), at, Change(operation), {"id": key, "city": city}, system=known)
            for number, city, at, known, operation in events
            if number == key
        ]
        for belief in bitemporal_history(own, SHAPE):
            version = belief.version
            found.append((*version.row, version.start, version.end, belief.since, belief.until))
    return found


def test_rows_record_what_was_known_at_each_system_time(project):
    random = Random(20261122)
    events = [*WORKED, *random_events(random)]
    shuffled = random.sample(events, len(events))
    pipeline = project(TEXT)
    lacking = [(None, "Oslo", 1, 1, "upsert"), (9, "Oslo", 1, None, "upsert")]
    for number in range(BATCHES):
        batch = shuffled[number::BATCHES] + lacking[number : number + 1]
        pipeline.land(f"landing/{number}.json", [dict(zip(NAMES, event, strict=True)) for event in batch])

    result = pipeline.run()

    found = [tuple(row.values()) for row in result.rows("addresses")]
    assert sorted(found, key=str) == sorted(defined(events), key=str)
    assert sorted((row for row in found if row[0] == 0), key=str) == sorted(EXPECTED, key=str)
    broken = sorted(row["broken"] for row in result.rows("addresses_quarantine"))
    assert broken == [["cdc.null_key"], ["cdc.null_system_sequence"]]
