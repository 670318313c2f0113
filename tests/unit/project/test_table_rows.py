"""The first rows of a table without a JVM: those of the query that is shown, or the reason why they need Spark."""

from __future__ import annotations

import time
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.unit.delta_log.marked_rows import mark_deleted

from headrace.delta_log.select_rows import select_rows
from headrace.errors import PipelineError
from headrace.model.datasets import PRIVATE_PROPERTY
from headrace.project.inspection.plain_query import plain_query_rows
from headrace.project.inspection.sql_access import log_names
from headrace.project.inspection.table_rows import MOST_FILTERED_BYTES, RowFilter, RowsRequest, table_rows
from headrace.settings.load import nearest_settings
from headrace.sql.plain_select import Comparison

VALUES = {
    "id": pa.array([1, 2, None], pa.int64()),
    "a`b.c": pa.array(["x", None, "it's"]),
    "money": pa.array([Decimal("1.50"), None, Decimal("-2.00")], pa.decimal128(10, 2)),
    "at": pa.array([datetime(2026, 1, 1, tzinfo=UTC)] * 3, pa.timestamp("us", "UTC")),
    "day": pa.array([date(2026, 1, 1), None, date(2026, 1, 2)]),
    "ok": pa.array([True, False, None]),
    "raw": pa.array([b"\x00", None, b""], pa.binary()),
    'q"uote': pa.array([1, 2, 3]),
    "nested": pa.array([{"a": 1}] * 3),
}


class Shop:
    def __init__(self, folder, text="name: shop\n"):
        (folder / "pipeline.yml").write_text(text)
        self.settings = nearest_settings(folder, profile=None, overrides={}, environ={})
        self.environ = {}

    def name(self, text="orders"):
        return self.settings.naming.canonical(text)

    def path(self, text="orders"):
        return self.settings.layout.table(self.settings.naming, self.name(text))

    def write(self, columns=VALUES, **more):
        write_deltalake(self.path(), pa.table(columns), mode="append", **more)

    def rows(self, *columns, where=None, limit=20, name="orders"):
        request = RowsRequest(columns, where, limit)
        return table_rows(self.settings, self.environ, self.name(name), self.path(name), request)


@pytest.fixture
def shop(tmp_path):
    found = Shop(tmp_path)
    found.write()
    return found


def test_rows_have_all_columns_that_can_be_read_and_the_others_are_named(shop):
    found = shop.rows()

    assert found.rows.columns == ("id", "a`b.c", "money", "at", "day", "ok", "raw")
    assert found.rows.rows[0][:3] == (1, "x", Decimal("1.50"))
    assert [one.name for one in found.omitted] == ['q"uote', "nested"]
    assert (found.query, found.reason) == ("SELECT * FROM `orders` LIMIT 20", "")
    assert found.command == ("headrace", "sql", found.query)


def test_rows_are_those_of_the_reader_that_is_proven_for_queries(shop):
    found = shop.rows("a`b.c,ID", where=RowFilter("day", Comparison.AT_LEAST, "2026-01-01"))

    proven = plain_query_rows(found.query, shop.settings, {}, log_names(shop.settings), private=False, limit=None)
    assert (found.rows, len(proven.rows)) == (proven, 2)
    assert found.query == "SELECT `a``b.c`, `id` FROM `orders` WHERE `day` >= '2026-01-01' LIMIT 20"


@pytest.mark.parametrize(
    ("where", "ids"),
    [
        (RowFilter("ID", value=" 2 "), [2]),
        (RowFilter("a`b.c", value="x"), [1]),
        (RowFilter("a`b.c", Comparison.IS_NULL, "ignored"), [2]),
        (RowFilter("id", Comparison.IS_NOT_NULL), [1, 2]),
        (RowFilter("ok", value="FALSE"), [2]),
        (RowFilter("raw", Comparison.IS_NULL), [2]),
    ],
)
def test_a_filter_leaves_the_rows_that_meet_it(shop, where, ids):
    assert [row[0] for row in shop.rows("id", where=where).rows.rows] == ids


@pytest.mark.parametrize(
    ("columns", "where", "reason"),
    [
        (("nested",), None, 'The column "nested" needs Spark. Only Spark is known to read its type.'),
        (('q"uote',), None, "Its name has characters"),
        (("id",), RowFilter("money", value="1.5"), '"=" with the column "money" of type decimal(10,2) needs Spark.'),
        (("id",), RowFilter("ok", Comparison.LESS, "true"), '"<" with the column "ok" of type boolean needs Spark.'),
        (("id",), RowFilter("a`b.c", value="it's"), "The value, or the name of the table, has characters"),
        (("id",), RowFilter("nested", Comparison.IS_NULL), 'The column "nested" needs Spark.'),
    ],
)
def test_what_needs_spark_is_not_read_and_the_command_reads_it(shop, columns, where, reason):
    found = shop.rows(*columns, where=where)

    assert (found.rows, reason in found.reason) == (None, True)
    assert found.command[:2] == ("headrace", "sql")


def test_texts_in_the_command_are_literals_of_spark(shop):
    found = shop.rows("id", where=RowFilter("a`b.c", value="it's \\ so"))
    number = shop.rows("id", where=RowFilter("money", value="1' OR 1=1"))

    assert found.query == "SELECT `id` FROM `orders` WHERE `a``b.c` = 'it\\'s \\\\ so' LIMIT 20"
    assert "WHERE `money` = CAST('1\\' OR 1=1' AS DECIMAL(10,2))" in number.query


@pytest.mark.parametrize(
    ("where", "code"),
    [
        (RowFilter("id", value="two"), "ROWS.VALUE"),
        (RowFilter("id", value="1 OR 1=1"), "ROWS.VALUE"),
        (RowFilter("ok", value="1"), "ROWS.VALUE"),
        (RowFilter("day", value="2026-02-30"), "ROWS.VALUE"),
        (RowFilter("no", value="1"), "ROWS.NO_COLUMN"),
    ],
)
def test_values_that_a_column_cannot_have_are_refused(shop, where, code):
    with pytest.raises(PipelineError) as refused:
        shop.rows(where=where)

    assert refused.value.code == code


def test_unknown_columns_and_missing_tables_are_refused(shop):
    with pytest.raises(PipelineError) as column:
        shop.rows("id,nosuch")
    with pytest.raises(PipelineError) as table:
        shop.rows(name="other")

    assert (column.value.code, column.value.params["column"], table.value.code) == (
        "ROWS.NO_COLUMN",
        "nosuch",
        "ROWS.NO_TABLE",
    )


def test_no_more_rows_than_the_limit_and_it_is_known_whether_there_are_more(shop):
    found = {limit: shop.rows(limit=limit) for limit in (2, 3)}

    assert {limit: (len(one.rows.rows), one.has_more) for limit, one in found.items()} == {2: (2, True), 3: (3, False)}


def test_private_tables_are_left_to_those_who_ask_for_them(shop):
    DeltaTable(shop.path()).alter.set_table_properties({PRIVATE_PROPERTY: "true"}, raise_if_not_exists=False)

    found = shop.rows("id")

    assert (found.rows, found.reason) == (None, "The table is private.")
    assert found.command == ("headrace", "sql", "--private", "SELECT `id` FROM `orders` LIMIT 20")


def test_a_table_with_features_that_others_may_read_differently_is_named(shop):
    DeltaTable(shop.path()).alter.set_table_properties({"delta.enableTypeWidening": "true"}, raise_if_not_exists=False)

    assert "only Spark is known to read: typeWidening." in shop.rows().reason


@pytest.mark.parametrize(
    ("text", "environ"),
    [("name: shop\nspark_conf: {spark.sql.ansi.enabled: 'false'}\n", {}), ("name: shop\n", {"SPARK_HOME": "/opt"})],
)
def test_settings_of_spark_that_may_change_the_result_leave_the_rows_to_it(tmp_path, text, environ):
    shop = Shop(tmp_path, text)
    shop.write()
    shop.environ = environ

    assert "Settings of Spark" in shop.rows().reason


def test_partition_columns_names_in_two_spellings_and_old_dates_are_left_to_spark(tmp_path):
    shop = Shop(tmp_path)
    shop.write({"id": [1, 2], "part": ["a", "b"], "old": [date(1800, 1, 1)] * 2}, partition_by=["part"])

    found = shop.rows("id")

    assert (len(found.rows.rows), shop.rows("part").rows, shop.rows("old").rows) == (2, None, None)
    assert "It is a partition column." in shop.rows("part").reason
    assert "a date before 1900" in shop.rows().reason


def test_deleted_rows_are_not_shown(shop):
    mark_deleted(shop.path(), [0, 2], 1, in_file=False)

    assert shop.rows("id").rows.rows == ((2,),)


def test_a_filter_does_not_read_large_tables(shop):
    log = next((shop.settings.root / "storage/tables/default/orders/_delta_log").glob("*.json"))
    size = DeltaTable(shop.path()).get_add_actions().column("size_bytes")[0].as_py()
    log.write_text(log.read_text().replace(f'"size":{size}', f'"size":{MOST_FILTERED_BYTES + 1}'))

    found = shop.rows("id", where=RowFilter("id", value="1"))

    assert "larger than 256 MiB" in found.reason
    assert "WHERE `id` = 1" in found.query


def test_times_that_python_does_not_have_here_are_left_to_spark(shop, monkeypatch, tmp_path):
    path = str(tmp_path / "late")
    write_deltalake(
        path, pa.table({"at": pa.array([datetime(9999, 12, 31, 23, tzinfo=UTC)], pa.timestamp("us", "UTC"))})
    )
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        assert select_rows(DeltaTable(path), ["at"], "", None) is None
    finally:
        monkeypatch.undo()
        time.tzset()
