"""Laws of the rows that change events lead to."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from headrace.cdc.events import Change, Event
from headrace.cdc.history import Version, bitemporal_history, history, target_rows
from headrace.cdc.scd_spec import ScdSpec, ScdType

COLUMNS = ("id", "city", "rank")
ONE = ScdSpec(("id",), COLUMNS)
TWO = ScdSpec(("id",), COLUMNS, ScdType.TWO, tracked=COLUMNS)
# Each has up to 80 events of 5 keys.
few = settings(max_examples=examples(few=25, many=100))
SHAPES = [
    ONE,
    TWO,
    replace(TWO, tracked=("id", "rank")),
    replace(ONE, ignore_null_columns=frozenset({"city"})),
    replace(TWO, ignore_null_columns=frozenset({"city", "rank"})),
    replace(ONE, partial=True),
    replace(TWO, partial=True),
    replace(ONE, upserts_win=True),
    replace(TWO, upserts_win=True),
]


@st.composite
def events(draw, changes=(Change.UPSERT, Change.DELETE)):
    change = draw(st.sampled_from(changes))
    sequence = draw(st.integers(1, 9))
    if change is Change.TRUNCATE:
        return Event((), sequence, change)
    key = draw(st.integers(1, 5))
    if change is Change.DELETE:
        return Event((key,), sequence, change)
    row = {
        "id": key,
        "city": draw(st.sampled_from([None, "Oslo", "Rome"])),
        "rank": draw(st.sampled_from([None, 1, 2])),
    }
    sets = draw(st.sampled_from([None, frozenset({"city"}), frozenset({"rank"}), frozenset()]))
    return Event((key,), sequence, change, row, sets)


@st.composite
def many(draw, changes=(Change.UPSERT, Change.DELETE)):
    # Lists without a size are short most of the time.
    size = draw(st.integers(0, 80))
    return draw(st.lists(events(changes), min_size=size, max_size=size))


@few
@given(given_events=many(tuple(Change)), data=st.data())
def test_scd1_rows_do_not_depend_on_event_order_or_duplicates(given_events, data):
    shape = data.draw(st.sampled_from([shape for shape in SHAPES if shape.scd_type is ScdType.ONE]))
    shuffled = data.draw(st.permutations(given_events))
    again = data.draw(st.lists(st.sampled_from(given_events), max_size=20)) if given_events else []

    assert target_rows([*shuffled, *again], shape) == target_rows(given_events, shape)


@few
@given(given_events=many(), data=st.data())
def test_scd2_versions_do_not_depend_on_event_order(given_events, data):
    shape = data.draw(st.sampled_from([shape for shape in SHAPES if shape.scd_type is ScdType.TWO]))

    assert target_rows(data.draw(st.permutations(given_events)), shape) == target_rows(given_events, shape)


@few
@given(given_events=many(), which=st.sampled_from(range(len(SHAPES))))
def test_versions_of_a_key_do_not_overlap_and_only_the_last_is_open(given_events, which):
    own = [event for event in given_events if event.key == (1,)]

    found = history(own, SHAPES[which])

    assert all(first.end is not None and first.end <= second.start for first, second in pairwise(found))
    assert all(version.end is None or version.start < version.end for version in found)


@few
@given(given_events=many())
def test_scd1_rows_equal_the_open_scd2_versions(given_events):
    versions = target_rows(given_events, TWO)

    assert [(row.key, row.row) for row in target_rows(given_events, ONE)] == [
        (version.key, version.row) for version in versions if version.end is None
    ]


def upsert(sequence, city, rank=0, sets=None):
    row = {"id": 1, "city": city, "rank": rank}
    return Event((1,), sequence, Change.UPSERT, row, None if sets is None else frozenset(sets))


def delete(sequence):
    return Event((1,), sequence, Change.DELETE)


FROM_RANK = replace(TWO, tracked=("rank",))
CITY_KEPT = replace(ONE, ignore_null_columns=frozenset({"city"}))
ROME_BETWEEN = [upsert(1, "Oslo"), upsert(3, "Oslo"), upsert(2, "Rome")]
RENAMED = [upsert(1, "Oslo"), upsert(2, "Rome"), upsert(3, "Bern", 1)]
ANEW = [upsert(1, "Oslo", 1), delete(2), upsert(3, None, 2)]


@pytest.mark.parametrize(
    ("shape", "given_events", "expected"),
    [
        (TWO, [upsert(1, "Oslo"), upsert(3, "Oslo")], [("Oslo", 0, 1, None)]),
        (TWO, ROME_BETWEEN, [("Oslo", 0, 1, 2), ("Rome", 0, 2, 3), ("Oslo", 0, 3, None)]),
        (TWO, [upsert(1, "Oslo"), delete(4), delete(6), upsert(5, "Rome")], [("Oslo", 0, 1, 4), ("Rome", 0, 5, 6)]),
        (TWO, [upsert(2, "Oslo"), delete(2)], []),
        (TWO, [upsert(2, "Oslo"), upsert(2, "Rome"), upsert(2, None)], [("Rome", 0, 2, None)]),
        (FROM_RANK, RENAMED, [("Rome", 0, 1, 3), ("Bern", 1, 3, None)]),
        (CITY_KEPT, [upsert(1, "Oslo", 1), upsert(2, None, None)], [("Oslo", None, 1, None)]),
        (CITY_KEPT, ANEW, [("Oslo", 1, 1, 2), (None, 2, 3, None)]),
        (replace(ONE, partial=True), [upsert(1, "Oslo", 1), upsert(2, None, 5, ["city"])], [(None, 1, 1, None)]),
    ],
    ids=[
        "an upsert that changes nothing",
        "a late event parts a version",
        "a delete that found nothing ends a late upsert",
        "a delete wins a tie",
        "the greatest row wins a tie",
        "what is not tracked is updated in place",
        "a NULL keeps the value",
        "a NULL keeps nothing over a delete",
        "an event sets the columns that it names",
    ],
)
def test_events_produce_the_expected_versions(shape, given_events, expected):
    found = history(given_events, shape)

    assert found == [Version((1,), (1, city, rank), start, end) for city, rank, start, end in expected]


@few
@given(st.lists(events(), max_size=12), st.lists(st.integers(1, 4), min_size=12, max_size=12))
def test_bitemporal_history_shows_what_was_known_at_each_time(given_events, systems):
    shape = replace(TWO, bitemporal=True)
    own = [replace(event, key=(1,), system=system) for event, system in zip(given_events, systems, strict=False)]
    found = bitemporal_history(own, shape)

    for time in range(1, 5):
        known = {event.sequence: event.system for event in sorted(own, key=lambda e: e.system) if event.system <= time}
        corrected = [event for event in own if event.system == known.get(event.sequence)]
        then = [b.version for b in found if b.since <= time and (b.until is None or time < b.until)]
        assert then == history(corrected, shape)


@pytest.mark.parametrize(("upserts_win", "rows"), [(False, 0), (True, 1)])
def test_upserts_win_option_resolves_sequence_conflicts_with_deletes(upserts_win, rows):
    both = [Event((1,), 5, Change.UPSERT, {"id": 1, "city": None, "rank": None}), Event((1,), 5, Change.DELETE)]

    assert len(target_rows(both, replace(ONE, upserts_win=upserts_win))) == rows
