"""However events are ordered and parted into batches, tables hold what the set of them defines.

The examples are keys of their own in the tables of one project, and so is each way to order one and part it into
batches: many are tried by one update. `make campaign ARGS="--only orders"` tries hundreds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import strategies as st
from tests.drawn_examples import ASKED, EXAMPLES, drawn
from tests.tiers import EVERYTHING, LONGEST_S

from headrace.cdc.events import Change, Event
from headrace.cdc.history import target_rows
from headrace.cdc.scd_spec import END_AT, START_AT, ScdSpec, ScdType
from headrace.testing import difference

pytestmark = [pytest.mark.spark, pytest.mark.timeout(LONGEST_S)]

TOGETHER = 25  # examples in one project
BATCHINGS, BATCHES = (8, 5) if ASKED else (8, 3) if EVERYTHING else (4, 2)
COLUMNS = ("key", "sequence", "city", "rank")
WITHOUT_SEQUENCE = ("key", "city", "rank")

FLOWS = """
    from pathlib import Path

    LANDING = Path(__file__).parents[1] / "landing"
    ROW = "city STRING, rank INT, sets ARRAY<STRING>"
    EVENT = "batching INT, example INT, key INT, sequence INT, operation STRING, " + ROW

    def feed(name, folder, **more):
        @dp.temporary_view(name=f"{name}_events")
        def events():
            return spark.readStream.schema(EVENT).option("maxFilesPerTrigger", "1").json(str(LANDING / folder))

        dp.create_streaming_table(name)
        dp.create_auto_cdc_flow(
            target=name,
            source=f"{name}_events",
            keys=["batching", "example", "key"],
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
    shape: ScdSpec


HIDDEN = 'except_column_list=["operation", "sets", "sequence"]'
SHOWN = 'except_column_list=["operation", "sets"]'
CURRENT = Kind("current", SHOWN, ScdSpec(("key",), COLUMNS))
KEPT = Kind(
    "kept",
    f'{HIDDEN}, ignore_null_updates_column_list=["city"]',
    ScdSpec(("key",), WITHOUT_SEQUENCE, ignore_null_columns=frozenset({"city"})),
)
VERSIONS = Kind(
    "versions",
    f"{HIDDEN}, stored_as_scd_type=2",
    ScdSpec(("key",), WITHOUT_SEQUENCE, ScdType.TWO, tracked=WITHOUT_SEQUENCE),
)
PARTLY = Kind(
    "partly",
    f'{HIDDEN}, stored_as_scd_type=2, track_history_column_list=["rank"], columns_to_update="sets"',
    ScdSpec(("key",), WITHOUT_SEQUENCE, ScdType.TWO, tracked=("rank",), partial=True),
)
KINDS = [CURRENT, VERSIONS]
if ASKED or EVERYTHING:
    KINDS += [PARTLY, KEPT]


@dataclass(frozen=True)
class Example:
    """Events in the order of their sequences, and the same ones shuffled and parted into batches again and again."""

    number: int
    events: Sequence[Mapping[str, Any]]
    shuffled: Sequence[Sequence[Sequence[Mapping[str, Any]]]]


@st.composite
def many_events(draw):
    """Up to 80 events of 5 keys, with ties, repetitions, deletes and NULLs, in keys and sequences too."""
    size = draw(st.integers(0, 80))
    found = []
    while len(found) < size:
        event = {
            "key": draw(st.sampled_from([1, 2, 3, 4, 5] * 5 + [None])),
            "sequence": draw(st.sampled_from([*range(1, 13), *range(1, 13), None])),
            "operation": draw(st.sampled_from(["upsert"] * 4 + ["delete"])),
        }
        if event["operation"] == "upsert":
            event["city"] = draw(st.sampled_from([None, "Oslo", "Rome"]))
            event["rank"] = draw(st.sampled_from([None, 1, 2]))
            event["sets"] = draw(st.sampled_from([None, ["city"], ["rank"], []]))
        found += [event] * draw(st.sampled_from([1, 1, 1, 2]))
    return found[:size]


@cache
def examples():
    found = []
    for number, (events, seed) in enumerate(drawn(st.tuples(many_events(), st.integers(0, 2**32)))):
        chance = Random(seed)
        in_order = sorted(events, key=lambda event: event["sequence"] or 0)
        found.append(Example(number, in_order, [parted(in_order, chance) for _ in range(BATCHINGS)]))
    return found


def parted(events, chance):
    """The events in any order and any batches; some batches have none."""
    batches = [[] for _ in range(BATCHES)]
    used = chance.randint(1, BATCHES)
    for event in chance.sample(events, len(events)):
        batches[chance.randrange(used)].append(event)
    return batches


def landed(batching, example, events):
    return [{"batching": batching, "example": example.number, **event} for event in events]


def as_events(rows, shape):
    """What counts of rows of the feed: those with a key and a sequence."""
    for row in rows:
        if row["operation"] == "truncate":
            yield Event((), row["sequence"], Change.TRUNCATE)
        elif row["key"] is None or row["sequence"] is None:
            continue
        elif row["operation"] == "delete":
            yield Event((row["key"],), row["sequence"], Change.DELETE)
        else:
            sets = frozenset(row["sets"]) if shape.partial and row["sets"] is not None else None
            values = {name: row[name] for name in shape.columns}
            yield Event((row["key"],), row["sequence"], Change.UPSERT, values, sets)


def expected(rows, shape):
    ends = shape.scd_type is ScdType.TWO
    for version in target_rows(as_events(rows, shape), shape):
        row = dict(zip(shape.columns, version.row, strict=True))
        yield {**row, START_AT: version.start, END_AT: version.end} if ends else row


def by_batching(rows):
    """The rows of each way to order and part an example, by that way and the example."""
    found = defaultdict(list)
    for row in rows:
        kept = {name: value for name, value in row.items() if name not in {"batching", "example"}}
        found[row["batching"], row["example"]].append(kept)
    return found


def smallest_fault(found, kind, tried, batchings, more=()):
    """How the example with the fewest events that is wrong is wrong; empty when none is."""
    faults = []
    for example in tried:
        wanted = list(expected([*example.events, *more], kind.shape))
        for batching in batchings:
            text = difference(found[batching, example.number], wanted)
            if text:
                events = "\n".join(map(str, [*example.events, *more]))
                said = f"{kind.name}, example {example.number}, batching {batching}: {text}\nof\n{events}"
                faults.append((len(example.events), said))
    return min(faults, default=(0, ""))[1]


@pytest.fixture(scope="module", params=range(-(-EXAMPLES // TOGETHER)))
def tried(request):
    """The examples of one project."""
    return examples()[request.param * TOGETHER : (request.param + 1) * TOGETHER]


@pytest.fixture(scope="module")
def merged(tried, shared_project):
    """The tables of every kind, after an update; batching 0 is the sorted events in one batch."""
    calls = [f'feed("{kind.name}", "all", {kind.arguments})' for kind in KINDS]
    pipeline = shared_project("\n    ".join([FLOWS, *calls]))
    for batch in range(BATCHES):
        rows = [row for example in tried if batch == 0 for row in landed(0, example, example.events)]
        for example in tried:
            for number, batches in enumerate(example.shuffled, 1):
                rows += landed(number, example, batches[batch])
        pipeline.land(f"landing/all/{batch}.json", rows)
    return pipeline.run()


@pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
def test_the_rows_do_not_depend_on_event_order_or_batches(merged, tried, kind):
    found = by_batching(merged.rows(kind.name))

    assert not smallest_fault(found, kind, tried, range(BATCHINGS + 1))


def test_scd_type_1_rows_equal_the_open_scd_type_2_versions(merged):
    current, versions = merged.rows(CURRENT.name), merged.rows(VERSIONS.name)

    opened = [row for row in versions if row[END_AT] is None]

    assert not difference(
        [{name: value for name, value in row.items() if name != "sequence"} for row in current],
        [{name: value for name, value in row.items() if name not in {START_AT, END_AT}} for row in opened],
    )


@pytest.mark.parametrize(
    "kind",
    [VERSIONS, pytest.param(PARTLY, marks=pytest.mark.long(guard="its other cases"))],
    ids=["versions", "partly"],
)
def test_versions_of_a_key_do_not_overlap_and_only_the_last_is_open(merged, kind):
    spans = defaultdict(list)
    for row in merged.rows(kind.name):
        spans[row["batching"], row["example"], row["key"]].append((row[START_AT], row[END_AT]))

    ordered = [sorted(own, key=lambda span: span[0]) for own in spans.values()]

    assert len(ordered) > BATCHINGS
    assert all(end is None or start < end for own in ordered for start, end in own)
    assert all(one[1] is not None and one[1] <= other[0] for own in ordered for one, other in pairwise(own))


def test_events_without_key_or_sequence_are_quarantined(merged, tried):
    events = [event for example in tried for event in example.events]
    lacking = sum(event["key"] is None or event["sequence"] is None for event in events)

    counts = [merged.counts(kind.name) for kind in KINDS]

    aside, written = lacking * (BATCHINGS + 1), (len(events) - lacking) * (BATCHINGS + 1)
    assert [(count.rows_quarantined, count.rows_written) for count in counts] == [(aside, written)] * len(KINDS)


@pytest.mark.long(
    guard=(
        "tests/spark/test_change_order.py::test_the_rows_do_not_depend_on_event_order_or_batches",
        "tests/spark/test_change_feed.py::test_the_documented_events_produce_the_documented_rows",
    )
)
def test_the_rows_do_not_depend_on_event_order_when_events_truncate_the_table(tried, shared_project):
    # They take the rows of all examples, so that they come at the same time for each.
    chance = Random(tried[0].number)
    truncates = [{"sequence": chance.randint(1, 8), "operation": "truncate"} for _ in range(3)]
    comes = [chance.randrange(BATCHES) for _ in truncates]
    more = "apply_as_truncates=\"operation = 'truncate'\""
    kinds, folders = [CURRENT, KEPT], {"sorted": [0], "shuffled": range(1, BATCHINGS + 1)}
    calls = [
        f'feed("{kind.name}_{folder}", "{folder}", {kind.arguments}, {more})' for kind in kinds for folder in folders
    ]
    pipeline = shared_project("\n    ".join([FLOWS, *calls]))
    at_once = [row for example in tried for row in landed(0, example, example.events)]
    pipeline.land("landing/sorted/0.json", sorted([*at_once, *truncates], key=lambda row: row["sequence"] or 0))
    for batch in range(BATCHES):
        rows = [truncate for truncate, at in zip(truncates, comes, strict=True) if at == batch]
        for example in tried:
            for number, batches in enumerate(example.shuffled, 1):
                rows += landed(number, example, batches[batch])
        pipeline.land(f"landing/shuffled/{batch}.json", rows)

    result = pipeline.run()

    for kind in kinds:
        for folder, batchings in folders.items():
            found = by_batching(result.rows(f"{kind.name}_{folder}"))
            assert not smallest_fault(found, kind, tried, batchings, truncates)
