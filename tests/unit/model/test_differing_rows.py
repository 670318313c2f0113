"""Rows in memory are compared as by Spark: equal rows cancel out, and what is left is matched by the key."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from headrace.model.differing_rows import differing_rows
from headrace.model.table_diff import ExampleKind

NAN = float("nan")
ROWS = st.lists(
    st.tuples(st.sampled_from([None, 1, 2]), st.sampled_from([None, 0.0, -0.0, NAN, float("nan"), 1.0])), max_size=6
)


def compared(first, second, key=(), most=20):
    names = [f"c{number}" for number in range(len([*first, *second][0]))]
    return differing_rows(first, second, names, key, most)


def counts(found):
    return found.changed, found.only_first, found.only_second, found.repeated_keys


def naive(first, second):
    """What a comparison by the first column finds, of values as texts."""
    sides = [Counter((row[0], "nan" if row[1] != row[1] else row[1]) for row in rows) for rows in (first, second)]
    left = [sides[0] - sides[1], sides[1] - sides[0]]
    keys = defaultdict(lambda: [0, 0])
    for side, rows in enumerate(left):
        for (key, _), number in rows.items():
            keys[key][side] += number
    changed = sum(one == [1, 1] for one in keys.values())
    repeated = sum(max(one) > 1 for one in keys.values())
    return changed, left[0].total() - changed, left[1].total() - changed, repeated


@settings(max_examples=examples(40, 400), deadline=None)
@given(first=ROWS, second=ROWS)
def test_the_numbers_are_those_of_a_comparison_of_all_rows(first, second):
    by_key = differing_rows(first, second, ["k", "v"], [0], 20)
    by_row = differing_rows(first, second, ["k", "v"], (), 20)

    assert counts(by_key) == naive(first, second)
    assert counts(by_row) == (0, by_key.changed + by_key.only_first, by_key.changed + by_key.only_second, 0)
    assert by_key.columns == ({1: by_key.changed} if by_key.changed else {})
    kinds = Counter(one.kind for one in by_key.examples)
    assert (kinds[ExampleKind.CHANGED], kinds[ExampleKind.REPEATED_KEY]) == (by_key.changed, by_key.repeated_keys)


def test_repeated_rows_and_repeated_keys_are_counted_and_named_as_by_spark():
    """The rows and the result are those of a test of `headrace diff`."""
    first = [(1, 1), (1, 1), (1, 1), (2, 2), (None, 3), (4, 4), (4, 5)]
    second = [(1, 1), (2, 2), (2, 2), (None, 4), (4, 6), (4, 5)]

    rows, keys = compared(first, second), compared(first, second, [0])

    assert counts(rows) == (0, 4, 3, 0)
    assert [(one.first, one.rows) for one in rows.examples if one.first] == [
        ({"c0": None, "c1": 3}, (1, 0)),
        ({"c0": 1, "c1": 1}, (2, 0)),
        ({"c0": 4, "c1": 4}, (1, 0)),
    ]
    assert counts(keys) == (2, 2, 1, 1)
    assert [(one.kind.value, one.key["c0"], one.rows) for one in keys.examples] == [
        ("changed", None, (1, 1)),
        ("changed", 4, (1, 1)),
        ("only_second", 2, (0, 1)),
        ("repeated_key", 1, (2, 0)),
    ]


def test_of_changed_rows_the_columns_that_differ_are_shown():
    before = (1, NAN, None, b"\x00\xff", Decimal("1.50"), date(2026, 1, 1), "a")
    after = (1, float("nan"), "", b"\x00", Decimal("1.5"), date(2026, 1, 2), None)

    (one,) = compared([before], [after], [0]).examples

    assert (one.key, one.first) == ({"c0": 1}, {"c2": None, "c3": "AP8=", "c5": "2026-01-01", "c6": "a"})
    assert one.second == {"c2": "", "c3": "AA==", "c5": "2026-01-02", "c6": None}


def test_times_are_instants_also_in_an_hour_that_comes_twice():
    zone = timezone(timedelta(hours=2))
    same = compared([(datetime(2026, 1, 1, 2, tzinfo=zone),)], [(datetime(2026, 1, 1, 0, tzinfo=UTC),)])
    one = datetime(2026, 10, 25, 2, 30, 0, 500000, tzinfo=UTC)

    other = compared([(one,)], [(one + timedelta(hours=1),)])

    assert (same.examples, [example.first for example in other.examples if example.first]) == (
        (),
        [{"c0": "2026-10-25T02:30:00.5Z"}],
    )


def test_rows_are_shown_in_order_with_null_first_and_nan_last_and_so_many_of_a_kind():
    values = [(2.0,), (NAN,), (None,), (-math.inf,)]

    shown = [one.first["c0"] for one in compared(values, [(9.0,)]).examples if one.first]
    few = compared(values, [(9.0,)], most=2).examples

    assert shown == [None, "-Infinity", 2.0, "NaN"]
    assert [one.kind.value for one in few] == ["only_first", "only_first", "only_second"]
