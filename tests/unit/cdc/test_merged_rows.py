"""By what the rows of a table are merged: stored with it, and the same however it is written in the code."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.cdc.feed import ChangeFeed
from headrace.cdc.merge_keys import MergeKeys, has_same_signature
from headrace.cdc.scd_spec import ScdSpec, ScdType
from headrace.model.cdc import ALL_COLUMNS, Columns

TYPE_2 = ChangeFeed(
    ScdSpec(("id", "City"), ("id", "City", "size", "version"), ScdType.TWO, ("id", "City", "size", "version")),
    sequence="version",
    sequence_type='"integer"',
    source_json="{}",
    derivable_from_rows=True,
    derivable_in_merge=True,
    tracked=ALL_COLUMNS,
)
LISTED = Columns(("size", "City"), all_but=False)
BUT = Columns(("ID", "version"))


def keyed(*keys):
    return replace(TYPE_2, spec=replace(TYPE_2.spec, keys=keys))


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
        (replace(TYPE_2, ignore_null_columns=LISTED), replace(TYPE_2, ignore_null_columns=BUT), True),
        (replace(TYPE_2, ignore_null_columns=LISTED), TYPE_2, False),
        (replace(TYPE_2, sequence="Version"), TYPE_2, True),
        (replace(TYPE_2, sequence="size"), TYPE_2, False),
        (replace(TYPE_2, spec=replace(TYPE_2.spec, partial=True)), TYPE_2, False),
        (replace(TYPE_2, spec=replace(TYPE_2.spec, scd_type=ScdType.ONE)), TYPE_2, False),
    ],
)
def test_signature_changes_only_if_the_meaning_of_rows_changes(before, now, same):
    assert has_same_signature(before.signature, now) is same


def test_signature_of_version_0_1_ignores_the_order_of_keys():
    assert has_same_signature(
        "type 2 by (id, City) in the order of version, a version begins with a change of all columns", TYPE_2
    )


@pytest.mark.parametrize("feed", [TYPE_2, keyed("a"), replace(TYPE_2, spec=replace(TYPE_2.spec, bitemporal=True))])
def test_table_property_and_0_1_signature_give_the_same_merge_keys(feed):
    rows = MergeKeys.of(feed)

    assert MergeKeys.of_property(rows.to_property()) == rows
    assert MergeKeys.of_signature(feed.signature) == rows


def test_unreadable_properties_and_signatures_give_no_merge_keys():
    assert MergeKeys.of_property("{}") is None
    assert MergeKeys.of_signature("aggregate by a: count(*)") is None
