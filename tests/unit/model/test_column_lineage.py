"""How uses of columns combine, what is left out if it is too much, and how views are seen through."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from headrace.model.column_lineage import ColumnLineage, ColumnUse, OutputColumn, Use, seen_through
from headrace.model.dataset_id import DatasetId

TOPIC = DatasetId("kafka://b:9092", "orders")


def use(column, how=Use.IDENTITY, dataset="orders"):
    return ColumnUse(dataset, column, how)


@pytest.mark.parametrize(
    ("inner", "outer", "both"),
    [
        (Use.IDENTITY, Use.IDENTITY, Use.IDENTITY),
        (Use.IDENTITY, Use.TRANSFORMATION, Use.TRANSFORMATION),
        (Use.AGGREGATION, Use.TRANSFORMATION, Use.AGGREGATION),
        (Use.TRANSFORMATION, Use.AGGREGATION, Use.AGGREGATION),
        (Use.AGGREGATION, Use.FILTER, Use.FILTER),
        (Use.WINDOW, Use.TRANSFORMATION, Use.WINDOW),
        (Use.WINDOW, Use.JOIN, Use.JOIN),
    ],
)
def test_a_use_of_a_use(inner, outer, both):
    assert inner.then(outer) is both
    assert use("a", inner).then(outer) == use("a", both)


def test_a_column_is_found_in_any_case_and_an_unknown_one_comes_from_nothing():
    lineage = ColumnLineage((OutputColumn("Total", (use("a"),)), OutputColumn("one")))

    assert lineage.of("total") == (use("a"),)
    assert lineage.of("one") == lineage.of("nowhere") == ()


def test_what_is_too_large_loses_what_only_decides_first_and_says_so():
    columns = tuple(OutputColumn(f"c{n}", (use(f"c{n}"), use("key", Use.CONDITIONAL))) for n in range(100))
    whole = ColumnLineage(columns, (use("key", Use.FILTER),))

    small, tiny = whole.bounded(6_000), whole.bounded(500)

    assert whole.bounded() is whole
    assert not small.is_complete
    assert all(use(f"c{n}") in column.uses for n, column in enumerate(small.columns))
    assert len([column for column in small.columns if len(column.uses) == 1]) > 50
    assert 0 < len(tiny.columns) < 100
    assert tiny.columns[0].uses == ()


names = st.sampled_from(["a", "b", "c"])
column_uses = st.lists(st.builds(ColumnUse, st.sampled_from(["v", "w", "t", TOPIC]), names, st.sampled_from(Use)))
lineages = st.builds(
    ColumnLineage,
    st.lists(st.builds(OutputColumn, names, column_uses.map(tuple)), max_size=3).map(tuple),
    column_uses.map(tuple),
)


@settings(max_examples=examples(30, 1000))
@given(lineages, lineages, lineages, st.integers(0, 500))
def test_no_view_is_left_and_what_is_bounded_says_nothing_else(lineage, first, second, size):
    # Views may not read each other in a circle; what does is left as it is.
    found = seen_through(lineage, {"v": first, "w": second})
    bounded = lineage.bounded(size)

    circular = {"v", "w"} if {"v", "w"} & {*first.datasets, *second.datasets} else set()
    assert not {"v", "w"} & set(found.datasets) - circular
    for column, whole in zip(bounded.columns, lineage.columns, strict=False):
        assert set(column.uses) <= set(whole.uses)
    assert set(bounded.rows) <= set(lineage.rows)
    assert bounded.is_complete == (bounded == lineage)


def test_views_of_views_are_seen_through_with_what_decides_about_their_rows():
    views = {
        "inner": ColumnLineage((OutputColumn("id", (use("key", dataset=TOPIC),)),), (use("v", Use.FILTER, TOPIC),)),
        "outer": ColumnLineage((OutputColumn("n", (use("id", Use.AGGREGATION, "inner"),)),), is_complete=False),
    }
    lineage = ColumnLineage((OutputColumn("m", (use("n", Use.TRANSFORMATION, "outer"), use("x"))),))

    found = seen_through(lineage, views)

    assert found.columns == (OutputColumn("m", (use("key", Use.AGGREGATION, TOPIC), use("x"))),)
    assert found.rows == (use("v", Use.FILTER, TOPIC),)
    assert not found.is_complete


def test_lineage_is_shown_as_text_and_as_json():
    columns = (OutputColumn("sum", (use("v", Use.AGGREGATION), use("key", dataset=TOPIC))), OutputColumn("one"))
    lineage = ColumnLineage(columns, (use("id", Use.GROUP_BY),), is_complete=False)

    assert list(lineage.describe()) == [
        ("from", "sum: orders.v (aggregation), orders.key"),
        ("", "one: no column"),
        ("rows by", "orders.id (group by)"),
        ("", "and more: it is unknown, or too much to show"),
    ]
    assert lineage.to_json() == {
        "columns": [
            {
                "column": "sum",
                "from": [
                    {"dataset": "orders", "column": "v", "use": "AGGREGATION"},
                    {"namespace": "kafka://b:9092", "dataset": "orders", "column": "key", "use": "IDENTITY"},
                ],
            },
            {"column": "one", "from": []},
        ],
        "rows": [{"dataset": "orders", "column": "id", "use": "GROUP_BY"}],
        "complete": False,
    }
