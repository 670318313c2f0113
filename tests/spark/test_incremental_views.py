"""A view whose groups are refreshed one by one equals its query, whatever was done to its inputs and to the view."""

from __future__ import annotations

from collections import Counter
from itertools import count
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.tiers import ASKED, LONGEST_S, examples

from headrace.errors import Problems
from headrace.model.outcome import FlowState, UpdateState
from headrace.testing import Crashed, Failpoint

pytestmark = [pytest.mark.spark, pytest.mark.timeout(LONGEST_S)]

OTHERS = pytest.mark.long(guard="tests/spark/test_incremental_views.py::test_only_the_groups_that_changed_are_written")

INPUTS = """
    @dp.temporary_view
    def orders():
        return spark.read.format("delta").load(spark.conf.get("orders"))

    @dp.temporary_view
    def shops():
        return spark.read.format("delta").load(spark.conf.get("shops"))
    """
# The queries of the views that the short test refreshes, and those of the law.
FEW = {
    "by_shop": "SELECT shop, count(*) AS n, sum(amount) AS amount, max(id) AS newest FROM orders GROUP BY shop",
    "by_region": """
        SELECT s.region, count(*) AS n, count(s.shop) AS known, sum(o.amount) AS amount
        FROM orders o LEFT JOIN shops s ON o.shop = s.shop GROUP BY s.region
        """,
}
MORE = {
    "by_weight": "SELECT weight, count(note) AS notes, min(id) AS oldest FROM orders GROUP BY weight",
    "everything": """
        SELECT coalesce(o.shop, s.shop) AS shop, s.region, count(*) AS n, count(o.id) AS orders
        FROM orders o FULL OUTER JOIN shops s ON o.shop = s.shop GROUP BY 1, 2
        """,
    "chain": """
        SELECT coalesce(s.region, 'none') AS region, coalesce(t.shop, 'none') AS twin, count(*) AS n
        FROM orders o LEFT JOIN shops s ON o.shop = s.shop LEFT JOIN shops t ON o.note = t.shop GROUP BY 1, 2
        """,
    "unknown": "SELECT o.shop, count(*) AS n FROM orders o ANTI JOIN shops s ON o.shop <=> s.shop GROUP BY o.shop",
    "known": "SELECT o.shop, count(*) AS n FROM orders o SEMI JOIN shops s ON o.shop = s.shop GROUP BY o.shop",
    "pairs": """
        SELECT a.shop, count(*) AS n, count(DISTINCT b.note) AS notes
        FROM orders a JOIN orders b ON a.shop = b.shop AND a.id < b.id GROUP BY a.shop
        """,
    "both": """
        SELECT kind, name, count(*) AS n
        FROM (SELECT 'order' AS kind, shop AS name FROM orders UNION ALL SELECT 'shop', shop FROM shops)
        GROUP BY kind, name HAVING count(*) > 1
        """,
    "places": "SELECT DISTINCT shop, place, amount > 5 AS large FROM orders WHERE note <> 'x' OR note IS NULL",
    "twice": """
        WITH large AS (SELECT shop, amount FROM orders WHERE amount > 1)
        SELECT x.shop, count(*) AS n, avg(y.amount) AS mean FROM large x JOIN large y ON x.shop = y.shop GROUP BY x.shop
        """,
    "rolled": """
        SELECT shop, note, grouping_id() AS level, count(*) AS n FROM orders GROUP BY ROLLUP (shop, note)
        """,
    "odd_names": "SELECT shop AS `a.b`, ID % 3 AS `we``ird`, count(*) AS n FROM orders GROUP BY ALL",
    "plain": "SELECT id, shop, amount * 2 AS twice, -weight AS weight, place, tags FROM orders WHERE id % 3 < 2",
    "joined": "SELECT o.id, o.weight, s.region FROM orders o FULL OUTER JOIN shops s ON o.shop = s.shop",
    "stacked": "SELECT shop, note FROM orders UNION ALL SELECT shop, region FROM shops",
    "ranked": """
        SELECT shop, id, rank() OVER (PARTITION BY shop ORDER BY amount) AS place,
          sum(amount) OVER (PARTITION BY shop) AS total, count(*) OVER (PARTITION BY shop ORDER BY id DESC) AS newer
        FROM orders WHERE note IS NOT NULL QUALIFY place < 3
        """,
    "means": """
        SELECT note, count(*) AS n, sum(amount) AS amount, count(amount) AS paid, avg(amount) AS mean,
          sum(id) AS ids, count(id) AS known, avg(id) AS middle, sum(amount) / count(*) AS share
        FROM orders GROUP BY note
        """,
    "extremes": """
        SELECT shop, min(amount) AS least, max(note) AS last, min(id) FILTER (WHERE amount > 1) AS dear,
          count_if(note = 'x') AS marked, bool_or(amount > 7) AS large FROM orders GROUP BY shop
        """,
    "totals": "SELECT count(*) AS n, sum(amount) AS amount, min(id) AS oldest, max(note) AS last FROM orders",
    "nothing": "SELECT count(*) AS n, sum(id) AS ids, max(note) AS last FROM orders WHERE id < 0",
    "busy": "SELECT shop, note, count(*) AS n FROM orders GROUP BY shop, note HAVING count(*) > 1",
    "words": "SELECT word, count(*) AS n FROM orders LATERAL VIEW explode(tags) AS word GROUP BY word",
}
COLUMNS = """
    id INT, shop STRING, amount DECIMAL(10, 2), weight DOUBLE, note STRING, place STRUCT<x: INT, y: DOUBLE>,
    tags ARRAY<STRING>, extras MAP<STRING, INT>
    """
SHOPS, NOTES = ("a", "b", "", "A", None, "c'`d"), ("x", "a", None, "b")
WEIGHTS = ("0.0D", "-0.0D", "NULL", "'NaN'", "1.5D", "'Infinity'")


class Views:
    """A pipeline of views over two tables that others write."""

    def __init__(self, project, session, folder, queries, policy="incremental"):
        self.session, self.queries = session, queries
        self.places = {name: str(folder / f"{name} table") for name in ("orders", "shops")}
        # Changes come from files with deletion vectors, and from a change feed.
        for name, columns, switch in (
            ("orders", COLUMNS, "delta.enableDeletionVectors"),
            ("shops", "shop STRING, region STRING", "delta.enableChangeDataFeed"),
        ):
            properties = f"TBLPROPERTIES ('{switch}' = 'true')"
            session.sql(f"CREATE TABLE delta.`{self.places[name]}` ({columns}) USING delta {properties}")
        files = "\n".join(
            f"CREATE MATERIALIZED VIEW `{name}` REFRESH POLICY {policy.upper()} AS {query};"
            for name, query in queries.items()
        )
        self.pipeline = project(INPUTS, configuration=self.places)
        (self.pipeline.folder / "transformations" / "views.sql").write_text(files, encoding="utf-8")

    def declare(self, statement):
        """Declare another view in the place of the others."""
        (self.pipeline.folder / "transformations" / "views.sql").write_text(statement, encoding="utf-8")

    def sql(self, text):
        for name, place in self.places.items():
            text = text.replace("{" + name + "}", f"delta.`{place}`")
        return self.session.sql(text).collect()

    def insert(self, *rows):
        self.sql(f"INSERT INTO {{orders}} VALUES {', '.join(rows)}")

    def place(self, view):
        return str(self.pipeline.folder / "storage" / "tables" / "default" / view)

    def run(self):
        result = self.pipeline.run()
        assert result.state is UpdateState.COMPLETED, result.outcome.error
        self.check()
        reasons = {view: found.reason for view in self.queries if (found := result.counts(view).refresh) is not None}
        # What no rule expects would be hidden by a full refresh.
        assert not {view: text for view, text in reasons.items() if "could not" in text or "cannot" in text}
        return result

    def check(self):
        """The rows of each view are those of its query."""
        for name, place in self.places.items():
            self.session.read.format("delta").load(place).createOrReplaceTempView(f"now_{name}")
        wrong = {}
        for view, query in self.queries.items():
            now = query
            for name in self.places:
                now = now.replace(f"FROM {name}", f"FROM now_{name}").replace(f"JOIN {name}", f"JOIN now_{name}")
            stored = self.session.read.format("delta").load(self.place(view))
            found, expected = texts(stored), texts(self.session.sql(now))
            wrong |= {view: (found - expected, expected - found)} if found != expected else {}
        assert wrong == {}

    def ways(self, result):
        return {view: result.counts(view).refresh.method.value for view in self.queries}


def texts(frame):
    return Counter(repr(tuple(row)) for row in frame.collect())


def order(number, shop="a", amount="1.50", weight="1.5D", note="x"):
    text = {None: "NULL"}
    shop, note = (text.get(one) or "'" + one.replace("'", "\\'") + "'" for one in (shop, note))
    weight = f"CAST({weight} AS DOUBLE)"
    place = f"named_struct('x', {number % 2}, 'y', {weight})" if number % 5 else "NULL"
    tags, extras = f"array({note}, {shop})", f"map('k', {number})"
    return f"({number}, {shop}, {amount}, {weight}, {note}, {place}, {tags}, {extras})"


@pytest.fixture
def views(project, headrace_session, tmp_path):
    numbers = count(1)

    def make(queries, policy="incremental"):
        return Views(project, headrace_session, tmp_path / f"tables {next(numbers)}", queries, policy)

    return make


def test_only_the_groups_that_changed_are_written(views):
    found = views(FEW)
    found.insert(order(1), order(2, "b"), order(3, None), order(4, "b", weight="'NaN'"))
    found.sql("INSERT INTO {shops} VALUES ('a', 'north'), ('c', 'south')")
    first = found.run()

    found.insert(order(5, "b"), order(6, "new"))
    found.sql("DELETE FROM {orders} WHERE shop IS NULL")
    second = found.run()

    assert found.ways(first) == dict.fromkeys(FEW, "full")
    assert found.ways(second) == dict.fromkeys(FEW, "groups")
    # A group with another row, a new one, and one that is gone.
    assert second.counts("by_shop").rows_written == 3
    assert second.flow("by_shop").to_json()["refresh"] == "groups"


@OTHERS
def test_a_change_that_leaves_the_rows_of_a_view_writes_nothing(views):
    found = views({"by_shop": FEW["by_shop"]})
    found.insert(order(1), order(2, "b"))
    found.run()

    found.sql("UPDATE {orders} SET note = 'other'")
    found.sql("OPTIMIZE {orders}")
    second, third = found.run(), found.pipeline.run()

    assert (second.counts("by_shop").rows_written, found.ways(second)) == (0, {"by_shop": "groups"})
    assert second.counts("by_shop").refresh.reason == "no row of its tables changed"
    assert third.states["by_shop"] is FlowState.UP_TO_DATE


@OTHERS
def test_a_crash_after_the_commit_changes_nothing_twice(views):
    found = views({"by_shop": FEW["by_shop"]})
    found.insert(order(1), order(2, "b"))
    found.run()

    found.insert(order(3, "b"))
    found.pipeline.crash_at(Failpoint.WRITTEN)
    with pytest.raises(Crashed):
        found.pipeline.run()
    found.pipeline.restart()
    # Back to what the record of the flow says, but not to what the view has.
    found.sql("DELETE FROM {orders} WHERE id = 3")
    after = found.run()

    assert found.ways(after) == {"by_shop": "groups"}
    # The row of the refresh that the crash kept out of the event log, and that of this one.
    assert after.counts("by_shop").rows_written == 2


@OTHERS
def test_rows_with_maps_are_added_one_by_one_and_computed_again_if_some_are_gone(views):
    found = views({"maps": "SELECT id, extras FROM orders WHERE id > 0"})
    found.insert(order(1), order(2))
    found.run()

    found.insert(order(3), order(3))
    added = found.run()
    found.sql("DELETE FROM {orders} WHERE id = 2")
    gone = found.pipeline.run()

    found.check()
    assert (added.counts("maps").rows_written, found.ways(added)) == (2, {"maps": "incremental"})
    assert "MAP<STRING, INT>" in gone.counts("maps").refresh.reason


@OTHERS
def test_expectations_count_all_rows_after_a_refresh_in_part(views):
    found = views({})
    found.declare(
        "CREATE MATERIALIZED VIEW counted (CONSTRAINT many EXPECT (n > 1), "
        "CONSTRAINT few EXPECT (n < 4) ON VIOLATION FAIL UPDATE) REFRESH POLICY INCREMENTAL "
        "AS SELECT shop, count(*) AS n FROM orders GROUP BY shop"
    )
    found.insert(order(1), order(2, "b"), order(3, "b"))
    found.pipeline.run()

    found.insert(order(4), order(5, "c"))
    second = found.pipeline.run().counts("counted")
    found.insert(order(6), order(7))
    third = found.pipeline.run()

    assert second.refresh.method.value == "groups"
    assert {one.name: (one.passed, one.failed) for one in second.expectations} == {"many": (2, 1), "few": (3, 0)}
    assert third.error == "EXPECTATION.FAILED"


@OTHERS
def test_a_partition_of_empty_texts_is_not_refreshed_in_part(views):
    found = views({})
    found.declare(
        "CREATE MATERIALIZED VIEW shops_of REFRESH POLICY INCREMENTAL PARTITIONED BY (shop) "
        "AS SELECT shop, count(*) AS n FROM orders GROUP BY shop"
    )
    found.insert(order(1), order(2, ""))
    found.pipeline.run()

    found.insert(order(3, ""))
    first = found.pipeline.run().counts("shops_of").refresh
    found.insert(order(4))
    second = found.pipeline.run().counts("shops_of").refresh

    assert "which Delta stores alike" in first.reason
    assert second.method.value == "groups"


@OTHERS
def test_a_view_that_another_writer_changed_is_computed_in_full(views):
    found = views({"by_shop": FEW["by_shop"]})
    found.insert(order(1), order(2, "b"))
    found.run()
    reasons = []
    for text in ("DELETE FROM delta.`{0}` WHERE shop = 'b'", "RESTORE TABLE delta.`{0}` TO VERSION AS OF 1"):
        found.session.sql(text.format(found.place("by_shop"))).collect()
        found.insert(order(3 + len(reasons), "a"))
        reasons.append(found.run().counts("by_shop").refresh.reason)

    assert ["written by DELETE" in reasons[0], "written by RESTORE" in reasons[1]] == [True, True]


@OTHERS
def test_a_strict_view_fails_by_name_where_all_rows_are_needed(views):
    found = views({"by_shop": FEW["by_shop"]}, "incremental strict")
    found.insert(order(1))
    found.run()
    found.session.sql(f"DELETE FROM delta.`{found.place('by_shop')}`").collect()
    found.insert(order(2))

    failed = found.pipeline.run()
    full = found.pipeline.run(full_refresh=["by_shop"])

    assert failed.error == "REFRESH.FULL_NEEDED"
    assert full.state is UpdateState.COMPLETED
    found.check()


REFUSED = {
    "first": ("SELECT shop, first(note) AS note FROM orders GROUP BY shop", "aggregate function first"),
    "total": ("SELECT count(DISTINCT note) AS n FROM orders", "aggregate without GROUP BY"),
    "hidden": ("SELECT count(*) AS n FROM orders GROUP BY shop", "key "),
    "limited": ("SELECT shop, count(*) AS n FROM (SELECT * FROM orders LIMIT 3) GROUP BY shop", "LIMIT"),
    "nested": (
        "SELECT n, count(*) AS m FROM (SELECT shop, count(*) AS n FROM orders GROUP BY shop) GROUP BY n",
        "aggregate below another operator that needs all rows",
    ),
    "today": ("SELECT shop, count(*) AS n FROM orders WHERE id < day(current_date()) GROUP BY shop", "current time"),
    "random": ("SELECT shop, count(*) AS n FROM orders WHERE rand() < 2 GROUP BY shop", "expression that is not"),
    "filtered": (
        "SELECT shop, count(*) AS n FROM orders WHERE id IN (SELECT 1) GROUP BY shop",
        "subquery in an expression",
    ),
    "everywhere": ("SELECT shop, rank() OVER (ORDER BY id) AS n FROM orders", "window function without PARTITION BY"),
    "numbered": (
        "SELECT shop, row_number() OVER (PARTITION BY shop ORDER BY note) AS n FROM orders",
        "window function row_number",
    ),
    "running": (
        """SELECT shop, sum(id) OVER (PARTITION BY shop ORDER BY note ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS n
        FROM orders""",
        "window function sum",
    ),
    "counted": (
        "SELECT s.region, o.n FROM shops s JOIN (SELECT shop, count(*) AS n FROM orders GROUP BY shop) o USING (shop)",
        "join above an aggregate",
    ),
    "newest": ("SELECT id FROM orders ORDER BY id DESC LIMIT 3", "LIMIT"),
}


def test_a_query_that_needs_all_rows_is_explained_by_its_operator(views):
    found = views({name: query for name, (query, _) in REFUSED.items()}, "auto")
    project = found.pipeline.project

    explained = {
        name: project.explain(name).to_json()["flows"][0]["incremental"]["obstacle"]["operator"] for name in REFUSED
    }

    assert {name: explained[name].startswith(start) for name, (_, start) in REFUSED.items()} == dict.fromkeys(
        REFUSED, True
    ), explained


def test_a_strict_policy_for_such_a_query_is_a_problem_of_the_project(views):
    found = views({"limited": REFUSED["limited"][0]}, "incremental strict")

    with pytest.raises(Problems) as problems:
        found.pipeline.plan()

    assert [error.code for error in problems.value] == ["REFRESH.NOT_INCREMENTAL"]


LAW = settings(
    max_examples=examples(few=2, many=2),
    derandomize=ASKED is None,
    deadline=None,
    database=None,
    print_blob=True,
    phases=[Phase.explicit, Phase.generate, *([Phase.shrink] if ASKED else [])],
    suppress_health_check=list(HealthCheck),
)
SOME_ROWS = st.lists(
    st.tuples(
        st.sampled_from(SHOPS),
        st.sampled_from(("0.50", "7.25", "NULL")),
        st.sampled_from(WEIGHTS),
        st.sampled_from(NOTES),
    ),
    min_size=1,
    max_size=6,
)
NUMBERS = st.integers(0, 6)
CHANGES = st.one_of(
    st.tuples(st.just("insert"), SOME_ROWS),
    st.tuples(st.just("again"), NUMBERS),
    st.tuples(st.sampled_from(("update", "delete", "merge", "move")), NUMBERS),
    st.tuples(st.just("shops"), st.lists(st.sampled_from(SHOPS), max_size=4)),
    st.tuples(st.sampled_from(("no shop", "overwrite", "optimize", "restore", "restore view", "column", "nothing"))),
    st.tuples(st.just("crash"), st.sampled_from((Failpoint.BEFORE_WRITE, Failpoint.WRITTEN, Failpoint.COUNTED))),
)


class Story:
    """What is done to the tables of a pipeline, and to its views."""

    def __init__(self, views):
        self.views = views
        self.ids = count(1)
        self.columns = count(1)
        self.do("insert", [("a", "0.50", "0.0D", "x"), ("b", "7.25", "-0.0D", None), (None, "NULL", "'NaN'", "a")])
        self.do("shops", ["a", None])

    def do(self, what, *given):
        getattr(self, what.replace(" ", "_"))(*given)

    def insert(self, rows):
        extra = ", NULL" * (next(self.columns) - 1)
        self.columns = count(extra.count("NULL") + 1)
        rows = [order(next(self.ids), *row)[:-1] + extra + ")" for row in rows]
        self.views.insert(*rows)

    def again(self, number):
        self.views.sql(f"INSERT INTO {{orders}} SELECT * FROM {{orders}} WHERE id % 5 = {number} % 5")

    def update(self, number):
        self.views.sql(f"UPDATE {{orders}} SET amount = amount + 1, weight = -weight WHERE id % 4 = {number} % 4")

    def delete(self, number):
        self.views.sql(f"DELETE FROM {{orders}} WHERE id % 7 = {number}")

    def merge(self, number):
        self.views.sql(
            f"""MERGE INTO {{orders}} USING (SELECT {number} AS n) ON id = n
            WHEN MATCHED THEN UPDATE SET shop = 'a', note = NULL
            WHEN NOT MATCHED BY SOURCE AND id % 9 = 0 THEN DELETE"""
        )

    def move(self, number):
        self.views.sql(f"UPDATE {{orders}} SET shop = note, note = shop WHERE id % 3 = {number} % 3")

    def shops(self, names):
        shown = ["NULL" if name is None else "'" + name.replace("'", "\\'") + "'" for name in names]
        for number, name in enumerate(shown):
            self.views.sql(f"INSERT INTO {{shops}} VALUES ({name}, {'NULL' if number % 3 == 2 else number % 3})")

    def no_shop(self):
        self.views.sql("DELETE FROM {shops} WHERE shop <= 'b'")

    def overwrite(self):
        self.views.sql("INSERT OVERWRITE {shops} SELECT shop, region FROM {shops} WHERE shop IS NOT NULL")

    def optimize(self):
        self.views.sql("OPTIMIZE {orders}")

    def restore(self):
        newest = self.views.sql("DESCRIBE HISTORY {orders}")[0]["version"]
        self.views.sql(f"RESTORE TABLE {{orders}} TO VERSION AS OF {max(newest - 1, 1)}")

    def restore_view(self):
        view = next(iter(self.views.queries))
        if Path(self.views.place(view), "_delta_log").exists():
            place = f"delta.`{self.views.place(view)}`"
            newest = self.views.session.sql(f"DESCRIBE HISTORY {place}").collect()[0]["version"]
            self.views.session.sql(f"RESTORE TABLE {place} TO VERSION AS OF {max(newest - 1, 0)}").collect()

    def column(self):
        self.views.sql(f"ALTER TABLE {{orders}} ADD COLUMN more{next(self.columns)} INT")

    def nothing(self):
        self.views.run()

    def crash(self, point):
        self.views.pipeline.crash_at(point)
        try:
            self.views.pipeline.run()
        except (Crashed, AssertionError):
            # Without anything to do, it does not get there.
            self.views.pipeline.restart()


# An update of all views takes half a minute.
PARTS = 3


@OTHERS
@pytest.mark.parametrize("part", range(PARTS))
def test_views_equal_a_recompute_after_any_changes(views, part):
    queries = dict(list((FEW | MORE).items())[part::PARTS])

    @LAW
    @given(st.lists(st.lists(CHANGES, min_size=1, max_size=3), min_size=2, max_size=4))
    def law(rounds):
        story = Story(views(queries))
        story.views.run()
        for changes in rounds:
            for change in changes:
                story.do(*change)
            story.views.run()

    law()
