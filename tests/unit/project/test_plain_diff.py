"""Two versions of a table are compared without a JVM: the whole result, or none and the reason."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples
from tests.unit.delta_log.marked_rows import mark_deleted

from headrace.cdc.merge_keys import MERGE_KEYS_PROPERTY
from headrace.delta_log.select_rows import select_rows
from headrace.delta_log.tables import newest_version
from headrace.delta_log.version_difference import differing_files
from headrace.errors import PipelineError
from headrace.model.datasets import PRIVATE_PROPERTY
from headrace.model.table_diff import DiffRequest, KeyOrigin, RowCounts
from headrace.project.inspection.plain_diff import MOST_BYTES, MOST_VALUES, plain_diff
from headrace.settings.load import nearest_settings

KEYS = st.sampled_from([None, 1, 2])
ROWS = st.lists(st.tuples(KEYS, st.sampled_from([None, 0.0, -0.0, float("nan"), 1.0])), min_size=1, max_size=4)
STEPS = st.one_of(
    st.tuples(st.just("append"), ROWS),
    st.tuples(st.just("overwrite"), ROWS),
    st.tuples(st.just("delete"), st.sampled_from(["k = 1", "k IS NULL", "v = 1"])),
    st.tuples(st.just("compact"), st.none()),
)


class Shop:
    def __init__(self, folder, text="name: shop\n"):
        (folder / "pipeline.yml").write_text(text)
        self.settings = nearest_settings(folder, profile=None, overrides={}, environ={})

    def path(self, name="orders"):
        return self.settings.layout.table(self.settings.naming, self.settings.naming.canonical(name))

    def write(self, columns, name="orders", mode="append", **more):
        write_deltalake(self.path(name), pa.table(columns), mode=mode, **more)

    def set(self, name, properties):
        DeltaTable(self.path(name)).alter.set_table_properties(properties, raise_if_not_exists=False)

    def diff(self, *versions, key=(), name="orders", environ=None, **more):
        return plain_diff(self.settings, environ or {}, DiffRequest(name, versions, tuple(key), **more))


@pytest.fixture
def shop(tmp_path):
    return Shop(tmp_path)


@pytest.fixture(scope="module")
def shared_shop(tmp_path_factory):
    return Shop(tmp_path_factory.mktemp("shop")), count()


def of_rows(rows):
    return {"k": pa.array([k for k, _ in rows], pa.int64()), "v": pa.array([v for _, v in rows], pa.float64())}


def perform(shop, name, kind, given):
    table = DeltaTable(shop.path(name))
    if kind == "delete":
        table.delete(given)
    elif kind == "compact":
        table.optimize.compact()
    else:
        shop.write(of_rows(given), name, mode=kind)


def whole(shop, name, version):
    """All rows of a version, with values that equal themselves."""
    rows = select_rows(DeltaTable(shop.path(name), version), ["k", "v"], "", None)
    return Counter((k, "nan" if v is not None and v != v else v) for k, v in rows)  # noqa: PLR0124


@settings(max_examples=examples(6, 60), deadline=None)
@given(first=ROWS, steps=st.lists(STEPS, min_size=1, max_size=3))
def test_the_numbers_are_those_of_a_comparison_of_all_rows(shared_shop, first, steps):
    shop, numbers = shared_shop
    name = f"t{next(numbers)}"
    shop.write(of_rows(first), name)
    for step in steps:
        perform(shop, name, *step)
    newest = newest_version(shop.path(name))

    forward, back = (shop.diff(*versions, name=name).diff for versions in ((0, newest), (newest, 0)))

    before, after = whole(shop, name, 0), whole(shop, name, newest)
    expected = ((before & after).total(), (before - after).total(), (after - before).total())
    assert (forward.rows.unchanged, forward.rows.only_first, forward.rows.only_second) == expected
    assert (back.rows.only_first, back.rows.only_second) == (expected[2], expected[1])
    assert (forward.first.rows, forward.second.rows) == (before.total(), after.total())


def test_changed_rows_are_matched_by_the_key_of_the_table_or_of_the_request(shop):
    keys = {MERGE_KEYS_PROPERTY: '{"keys": ["id"], "scd_type": "1"}'}
    shop.write({"id": [1, 2, 3], "name": ["a", "b", None]})
    shop.set("orders", keys)
    shop.write({"id": [1, 2, 4], "name": ["a", "B", None]}, mode="overwrite")

    own, other = shop.diff(0, 2).diff, shop.diff(0, 2, key=["NAME"]).diff

    assert (own.rows, own.key, own.key_origin) == (RowCounts(1, 1, 1, 1), ("id",), KeyOrigin.AUTO_CDC)
    assert (own.examples[0].key, own.examples[0].first, own.examples[0].second) == (
        {"id": 2},
        {"name": "b"},
        {"name": "B"},
    )
    assert (other.rows, other.columns, other.key) == (RowCounts(1, 1, 1, 1), {"id": 1}, ("name",))


def test_only_files_that_differ_are_read_and_their_numbers_are_known(shop):
    for number in range(3):
        shop.write({"id": [number, number]})

    found = shop.diff(1).diff

    sides = [(one.version, one.rows, one.files, one.read_files) for one in (found.first, found.second)]
    assert sides == [(1, 4, 2, 0), (2, 6, 3, 1)]
    assert (found.rows, found.examples[0].rows) == (RowCounts(unchanged=4, only_second=2), (0, 2))


def test_columns_of_one_version_are_named_and_the_others_are_compared(shop):
    shop.write({"id": [1], "gone": ["x"]})
    shop.write({"id": [1], "new": [{"a": 1}]}, mode="overwrite", schema_mode="overwrite")

    found = shop.diff(0, 1).diff

    assert ([one.describe() for one in found.schema], found.rows, found.is_equal) == (
        ["- gone string", "+ new struct<a:bigint>"],
        RowCounts(unchanged=1),
        False,
    )


def test_deleted_rows_of_a_file_are_rows_of_one_version(shop):
    shop.write({"id": [1, 2, 3]})
    mark_deleted(shop.path(), [1], 1, in_file=True)

    found = shop.diff(0, 1).diff

    assert (found.rows, found.examples[0].first) == (RowCounts(unchanged=2, only_first=1), {"id": 2})


def test_two_times_of_an_hour_that_comes_twice_differ(shop, monkeypatch):
    monkeypatch.setenv("TZ", "Europe/Berlin")
    first, second = (datetime(2026, 10, 25, hour, 30, tzinfo=UTC) for hour in (0, 1))
    for one in (first, second):
        shop.write({"at": pa.array([one], pa.timestamp("us", "UTC"))}, mode="overwrite")

    found = shop.diff(0, 1).diff

    assert [(one.first, one.second) for one in found.examples] == [
        ({"at": "2026-10-25T00:30:00Z"}, {}),
        ({}, {"at": "2026-10-25T01:30:00Z"}),
    ]


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        ({"id": [1], "n": [{"a": 1}]}, {"id": [1], "n": [{"a": 2}]}, 'Only Spark is known to read the column "n"'),
        ({"id": [1]}, {"id": ["1"]}, 'The type of the column "id" differs.'),
        ({"id": [1]}, {"other": [1]}, "no column in common"),
    ],
)
def test_without_every_common_column_nothing_is_compared(shop, before, after, reason):
    shop.write(before)
    shop.write(after, mode="overwrite", schema_mode="overwrite")

    found = shop.diff(0, 1)

    assert (found.diff, reason in found.reason) == (None, True)
    assert found.command == ("headrace", "diff", "--version", "0", "--version", "1", "--", "orders")


def test_partitions_and_features_and_settings_and_private_tables_need_spark(shop):
    for name in ("parts", "private", "wide", "plain"):
        for _ in range(2):
            shop.write({"id": [1], "n": [1]}, name, partition_by=["id"] if name == "parts" else None)
    shop.set("private", {PRIVATE_PROPERTY: "true"})
    shop.set("wide", {"delta.enableTypeWidening": "true"})

    reasons = {name: shop.diff(name=name) for name in ("parts", "private", "wide")}
    spark = shop.diff(name="plain", environ={"SPARK_CONF_DIR": "/etc/spark"})

    assert [one.diff for one in (*reasons.values(), spark)] == [None] * 4
    assert "partitions" in reasons["parts"].reason
    assert reasons["private"].reason == "The table is private."
    assert "typeWidening" in reasons["wide"].reason
    assert "Settings of Spark" in spark.reason


@pytest.mark.parametrize(
    ("name", "number"), [("size", MOST_BYTES + 1), ("numRecords", MOST_VALUES + 1), ("numRecords", None)]
)
def test_above_a_size_or_without_known_numbers_nothing_is_read(shop, name, number):
    shop.write({"id": [1]})
    shop.write({"id": [2]})
    commit = Path(shop.path(), "_delta_log", f"{1:020d}.json")
    size = differing_files(shop.path(), 0, 1)[1].differing[0].size
    old = f'"size":{size}' if name == "size" else '\\"numRecords\\":1'
    assert old in commit.read_text()
    new = old.rpartition(":")[0] + f":{number}" if number else old.replace("numRecords", "other")
    commit.write_text(commit.read_text().replace(old, new))
    Path(shop.path(), differing_files(shop.path(), 0, 1)[1].differing[0].path).unlink()

    found = shop.diff(0, 1)

    assert found.diff is None
    assert ("Up to 16 MiB of files and 1,000,000 values" if number else "does not say how many rows") in found.reason


def test_files_that_are_gone_or_have_other_rows_than_the_log_says_give_no_numbers(shop):
    shop.write({"id": [1]})
    shop.write({"id": [2]})
    commit = Path(shop.path(), "_delta_log", f"{1:020d}.json")
    text = commit.read_text()
    commit.write_text(text.replace('\\"numRecords\\":1', '\\"numRecords\\":2'))
    other = shop.diff(0, 1)
    commit.write_text(text)
    Path(shop.path(), differing_files(shop.path(), 0, 1)[1].differing[0].path).unlink()
    gone = shop.diff(0, 1)

    assert [(one.diff, "the file is gone" in one.reason) for one in (other, gone)] == [(None, True)] * 2


def test_versions_and_keys_that_do_not_exist_are_refused(shop):
    shop.write({"id": [1]})
    shop.write({"id": [2]})
    codes = []
    for versions, key, name in (((0, 9), (), "orders"), ((0, 1), ("no",), "orders"), ((0, 1), (), "other")):
        with pytest.raises(PipelineError) as refused:
            shop.diff(*versions, key=key, name=name)
        codes.append(refused.value.code)

    assert codes == ["DIFF.NO_VERSION", "DIFF.NO_KEY_COLUMN", "DIFF.UNKNOWN"]
