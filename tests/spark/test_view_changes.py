"""The change of a view, computed from changed rows, makes its rows those of a recompute: any query, any change.

The tables are lists of rows here, without Delta, so that many queries can be tried.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F
from tests.tiers import ASKED, LONGEST_S, examples

from headrace.spark.analysis.refresh_rules import grouped_query
from headrace.spark.cdc.batch_cache import cached_frames
from headrace.spark.jvm.plan_nodes import node_kind
from headrace.spark.refresh.changed_plans import ChangedPlans
from headrace.spark.refresh.compute_change import ChangeComputation, ViewFacts
from headrace.spark.refresh.pinned_query import PinnedQuery
from headrace.spark.refresh.pinned_tables import MORE, ChangeKind
from headrace.spark.refresh.plan_builder import PlanNodes
from headrace.spark.refresh.signed_rows import TableChange
from headrace.spark.refresh.view_change import in_groups

pytestmark = [pytest.mark.spark, pytest.mark.timeout(LONGEST_S)]

SCHEMAS = {
    "orders": """
        id INT, shop STRING, amount DECIMAL(10, 2), large DECIMAL(20, 3), number INT, weight DOUBLE, note STRING
        """,
    "shops": "shop STRING, region STRING",
}
SOURCES = (
    "orders o",
    "orders o JOIN shops s ON o.shop = s.shop",
    "orders o LEFT JOIN shops s ON o.shop = s.shop AND o.id > 2",
    "shops s RIGHT JOIN orders o ON o.shop = s.shop",
    "shops s LEFT JOIN orders o ON o.note = s.shop",
    "shops s FULL JOIN orders o ON o.shop = s.shop",
    "orders o SEMI JOIN shops s ON o.shop = s.shop",
    "orders o ANTI JOIN shops s ON o.shop <=> s.shop",
    "orders o JOIN orders p ON o.shop = p.note",
    "orders o JOIN shops s ON o.shop = s.shop LEFT JOIN shops t ON o.note = t.shop",
    "(SELECT * FROM orders UNION ALL SELECT id + 1, note, amount, large, number, weight, shop FROM orders) o",
    "(SELECT *, explode(array(id, number)) AS part FROM orders) o",
)
KEYS = ("o.shop", "o.note", "o.weight", "o.id % 3", "o.amount > 1", "lower(o.shop)")
AGGREGATES = (
    *("count(*)", "count(o.note)", "count(o.amount)", "sum(o.amount)", "sum(o.id)", "avg(o.amount)", "avg(o.id)"),
    *("sum(o.large)", "count(o.large)", "avg(o.large)", "sum(o.number)", "count(o.number)", "avg(o.number)"),
    *("min(o.id)", "max(o.note)", "min(o.amount)", "max(o.large)", "min(o.weight)", "count(DISTINCT o.note)"),
    *("sum(o.id) FILTER (WHERE o.note = 'x')", "count_if(o.amount > 1)", "bool_and(o.number > 2)", "count(o.id)"),
    *("sum(o.amount) / count(*)", "1 + max(o.id)", "bit_xor(o.id)", "concat(min(o.note), '-', max(o.note))"),
)
FILTERS = ("", "WHERE o.id % 5 > 0", "WHERE o.amount > 1 OR o.note IS NULL")


@st.composite
def queries(draw):
    source, condition = draw(st.sampled_from(SOURCES)), draw(st.sampled_from(FILTERS))
    keys = draw(st.lists(st.sampled_from(KEYS), unique=True, max_size=2))
    aggregates = draw(st.lists(st.sampled_from(AGGREGATES), unique=True, max_size=6))
    columns = ", ".join(f"{one} AS c{number}" for number, one in enumerate([*keys, *aggregates]))
    if not aggregates:
        distinct = draw(st.sampled_from(("", "DISTINCT ")))
        return f"SELECT {distinct}{columns or 'o.id, o.weight'} FROM {source} {condition}"
    having = draw(st.sampled_from(("", "", "HAVING count(*) > 1"))) if keys else ""
    groups = f"GROUP BY {', '.join(keys)}" if keys else draw(st.sampled_from(("", "GROUP BY ROLLUP (o.shop, o.note)")))
    return f"SELECT {columns} FROM {source} {condition} {groups} {having}"


def decimals(*texts):
    return st.sampled_from([None, *map(Decimal, texts)])


ROWS = {
    "orders": st.tuples(
        st.integers(0, 6),
        st.sampled_from(("a", "b", "", "A", None)),
        decimals("0.50", "7.25", "-1.00"),
        decimals("2.125", "99999999999999999.999", "-0.001"),
        st.sampled_from((None, 0, 3, -(2**31), 2**31 - 1)),
        st.sampled_from((None, 0.0, -0.0, float("nan"), 1.5)),
        st.sampled_from(("x", "a", None, "b")),
    ),
    "shops": st.tuples(st.sampled_from(("a", "b", None, "x")), st.sampled_from(("north", "south", None))),
}
# Rows that are added to each table, and how many of its first rows are removed; none if rows are only appended.
CHANGES = st.fixed_dictionaries(
    {
        name: st.tuples(st.lists(rows, max_size=4), st.one_of(st.just(0), st.integers(0, 4)))
        for name, rows in ROWS.items()
    }
)


class ListTable:
    """A table whose rows of now and of the last refresh are lists."""

    version = 1

    def __init__(self, session, name, before, now):
        self.session, self.table_id, self.path, self.before, self.now = session, name, name, before, now
        # Large enough for its rows to be reduced before they are joined.
        self.size_bytes = 100 << 20

    def rows(self):
        return self.session.createDataFrame(self.now, SCHEMAS[self.table_id])

    def rows_at(self, _version):
        return self.session.createDataFrame(self.before, SCHEMAS[self.table_id])

    def change(self, cache):
        before, now = Counter(map(repr, self.before)), Counter(map(repr, self.now))
        row_of = {repr(row): row for row in (*self.before, *self.now)}
        more = {text: now[text] - before[text] for text in row_of if now[text] != before[text]}
        if not more:
            return None
        rows = [(*row_of[text], number) for text, number in more.items()]
        frame = self.session.createDataFrame(rows, f"{SCHEMAS[self.table_id]}, {MORE} BIGINT")
        if min(more.values()) > 0:
            copies = F.explode(F.array_repeat(F.lit(1).cast("bigint"), F.col(MORE).cast("int")))
            return TableChange(frame.withColumn(MORE, copies), ChangeKind.APPENDED, 100, is_small=True)
        return TableChange(cache.eager(frame), ChangeKind.ANY, 100, is_small=True)


def texts(rows):
    return Counter(repr(tuple(row)) for row in rows)


def changed_view(frame, stored, tables, *, is_small):
    """The rows of a view after a change of its tables."""
    session = frame.sparkSession

    def is_table(leaf):
        return node_kind(leaf) == "LogicalRelation"

    query = grouped_query(frame, is_table)
    plans = ChangedPlans(PlanNodes(session), is_table)
    leaves = tuple(plans.tables(query.plan))
    named = tuple(tables["shops" if leaf.output().size() == 2 else "orders"] for leaf in leaves)
    pinned = PinnedQuery(query, PlanNodes(session), plans, leaves, named)
    view = session.createDataFrame(stored, frame.schema)
    with cached_frames() as cache:
        changes = {name: change for name in pinned.inputs if (change := tables[name].change(cache)) is not None}
        computation = ChangeComputation(pinned, view, cache, ViewFacts("view", is_small=is_small))
        change = computation.change_after(changes, dict.fromkeys(tables, 0))
        if change is None:
            return stored
        kept = stored
        if change.removed:
            columns = change.keys.columns if change.keys is not None else []
            kept = in_groups(view, change.keys, columns, matching=False).collect() if columns else []
        assert len(kept) == len(stored) - change.removed
        return [*kept, *change.rows.collect()]


@pytest.fixture
def pinned_views(headrace_session, tmp_path):
    """The tables as empty files, over which queries are analyzed."""
    for name, columns in SCHEMAS.items():
        headrace_session.createDataFrame([], columns).write.parquet(str(tmp_path / name))
        headrace_session.read.schema(columns).parquet(str(tmp_path / name)).createOrReplaceTempView(name)
    yield headrace_session
    for name in SCHEMAS:
        headrace_session.catalog.dropTempView(name)
        headrace_session.catalog.dropTempView(f"now_{name}")


@settings(
    max_examples=examples(few=2, many=12),
    derandomize=ASKED is None,
    deadline=None,
    database=None,
    print_blob=True,
    phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if ASKED else [])],
    suppress_health_check=list(HealthCheck),
)
@given(
    queries(),
    st.fixed_dictionaries({name: st.lists(rows, max_size=6) for name, rows in ROWS.items()}),
    st.lists(CHANGES, min_size=1, max_size=3),
    st.booleans(),
)
def test_the_rows_of_a_view_after_a_change_are_those_of_its_query(pinned_views, query, tables, changes, is_small):
    session, frame = pinned_views, pinned_views.sql(query)

    def computed(rows):
        found = query
        for name, columns in SCHEMAS.items():
            session.createDataFrame(rows[name], columns).createOrReplaceTempView(f"now_{name}")
            found = found.replace(f"FROM {name}", f"FROM now_{name}").replace(f"JOIN {name}", f"JOIN now_{name}")
        return session.sql(found).collect()

    if not hasattr(grouped_query(frame, lambda leaf: node_kind(leaf) == "LogicalRelation"), "plan"):
        return
    stored = computed(tables)
    for change in changes:
        before = tables
        tables = {name: [*rows[change[name][1] :], *change[name][0]] for name, rows in before.items()}
        pinned = {name: ListTable(session, name, before[name], tables[name]) for name in tables}
        stored = changed_view(frame, stored, pinned, is_small=is_small)
        assert texts(stored) == texts(computed(tables))
