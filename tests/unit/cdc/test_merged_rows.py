"""By what the rows of a table are merged: stored with it, and the same however it is written in the code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.cdc.feed import ChangeFeed
from headrace.cdc.merge_keys import MergedRows, means_the_same
from headrace.cdc.scd_spec import ScdSpec, ScdType
from headrace.model.cdc import ALL_COLUMNS, Columns

TYPE_2 = ChangeFeed(
    ScdSpec(("id", "City"), ("id", "City", "size", "version"), ScdType.TWO, ("id", "City", "size", "version")),
    sequence="version",
    sequence_type='"integer"',
    source_json="{}",
    told_by_rows=True,
    told_in_merge=True,
    tracked=ALL_COLUMNS,
)
LISTED = Columns(("size", "City"), all_but=False)
BUT = Columns(("ID", "version"))


def keyed(*keys):
    return replace(TYPE_2, shape=replace(TYPE_2.shape, keys=keys))


@pytest.mark.parametrize(
    ("before", "now", "same"),
    [
        (keyed("id", "City"), keyed("City", "id"), True),
        (keyed("ID", "city"), keyed("City", "id"), True),
        (keyed("id"), keyed("City", "id"), False),
        (replace(TYPE_2, tracked=LISTED), replace(TYPE_2, tracked=BUT), True),
        (replace(TYPE_2, tracked=BUT), replace(TYPE_2, tracked=LISTED), True),
        (replace(TYPE_2, tracked=LISTED), TYPE_2, False),
        (replace(TYPE_2, tracked=Columns(("id", "City", "size", "version"), all_but=False)), TYPE_2, True),
        (replace(TYPE_2, null_keeps=LISTED), replace(TYPE_2, null_keeps=BUT), True),
        (replace(TYPE_2, null_keeps=LISTED), TYPE_2, False),
        (replace(TYPE_2, sequence="Version"), TYPE_2, True),
        (replace(TYPE_2, sequence="size"), TYPE_2, False),
        (replace(TYPE_2, shape=replace(TYPE_2.shape, partial=True)), TYPE_2, False),
        (replace(TYPE_2, shape=replace(TYPE_2.shape, scd_type=ScdType.ONE)), TYPE_2, False),
    ],
)
def test_what_a_row_means_does_not_depend_on_how_it_is_written(before, now, same):
    assert means_the_same(before.meaning, now) is same


def test_the_order_of_keys_in_a_record_of_0_1_says_nothing():
    assert means_the_same(
        "type 2 by (id, City) in the order of version, a version begins with a change of all columns", TYPE_2
    )


@pytest.mark.parametrize("feed", [TYPE_2, keyed("a"), replace(TYPE_2, shape=replace(TYPE_2.shape, bitemporal=True))])
def test_a_table_and_a_record_of_0_1_say_the_same(feed):
    rows = MergedRows.of(feed)

    assert MergedRows.of_property(rows.to_property()) == rows
    assert MergedRows.of_meaning(feed.meaning) == rows


def test_what_is_not_known_is_not_guessed():
    assert MergedRows.of_property("{}") is None
    assert MergedRows.of_meaning("aggregate by a: count(*)") is None
