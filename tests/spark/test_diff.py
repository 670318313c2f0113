"""Versions of a table are compared by their schemas and their rows; only files that they do not share are read."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.tiers import examples

from headrace.delta_log.table_files import live_files
from headrace.delta_log.tables import newest_version
from headrace.errors import PipelineError
from headrace.model.table_diff import DiffRequest, KeyOrigin, RowCounts

OF_EVERY_TYPE = "tests/spark/test_diff.py::test_values_of_every_type_are_compared_and_shown"
NAIVE = "tests/spark/test_diff.py::test_the_result_is_that_of_a_comparison_of_all_rows"
VERSIONS = "tests/unit/project/test_diff_versions.py::test_versions_that_left_the_log_are_refused_with_the_range"
pytestmark = pytest.mark.spark

# Loading it would end the test.
PIPELINE = "@dp.table\ndef orders():\n    raise SystemExit\n\nraise SystemExit\n"
TYPES = {
    "id": "INT",
    "i": "INT",
    "d": "DECIMAL(10,2)",
    "f": "DOUBLE",
    "s": "STRUCT<a: INT, b: STRING>",
    "m": "MAP<STRING, ARRAY<DOUBLE>>",
    "v": "VARIANT",
    "b": "BINARY",
    "n": "TIMESTAMP_NTZ",
    "t": "TIMESTAMP",
    "c": "CHAR(3)",
    "`a.b ``c' d`": "ARRAY<MAP<INT, STRING>>",
}
SAME = "X'00FF', TIMESTAMP_NTZ '2024-01-01 10:00:00.5', TIMESTAMP '9999-12-31 23:59:59Z', 'a'"
FIRST = f"""
    (1, 1, 1.00, double('NaN'), NULL, map('x', array(1D), 'y', array(double('NaN'), 0D)),
     parse_json('{{"a": 1, "b": [2]}}'), {SAME}, array(map(1, 'x', 2, NULL)))"""
REWRITTEN = f"""
    (1, 1, 1.00, double('NaN'), NULL, map('y', array(double('NaN'), -0D), 'x', array(1D)),
     parse_json('{{"b":[2],"a":1}}'), {SAME}, array(map(2, NULL, 1, 'x')))"""
CHANGED = """
    (1, NULL, 2.00, -0D, struct(NULL, NULL), map('x', array(1D), 'y', NULL), parse_json('{"a": 1, "b": [3]}'),
     X'00FE', TIMESTAMP_NTZ '2024-01-01 10:00:00.25', TIMESTAMP '0001-01-02 00:00:00Z', 'b', array(map(1, 'x')))"""
SHOWN = [
    ("i", 1, None),
    ("d", "1.00", "2.00"),
    ("f", "NaN", -0.0),
    ("s", None, {"a": None, "b": None}),
    ("m", {"x": [1.0], "y": ["NaN", 0.0]}, {"x": [1.0], "y": None}),
    ("v", {"a": 1, "b": [2]}, {"a": 1, "b": [3]}),
    ("b", "AP8=", "AP4="),
    ("n", "2024-01-01T10:00:00.5", "2024-01-01T10:00:00.25"),
    ("t", "9999-12-31T23:59:59Z", "0001-01-02T00:00:00Z"),
    ("c", "a  ", "b  "),
    ("a.b `c' d", [{"1": "x", "2": None}], [{"1": "x"}]),
]


class Tables:
    """A project whose tables a test writes by SQL."""

    def __init__(self, pipeline, session):
        self.project = pipeline.project
        self.session = session

    def path(self, name="orders"):
        return f"{self.project.settings.layout.root}/tables/default/{name}"

    def sql(self, *texts, name="orders"):
        for text in texts:
            self.session.sql(text.replace("$T", f"delta.`{self.path(name)}`"))

    def diff(self, *versions, key=(), name="orders", **more):
        return self.project.diffs.compare(DiffRequest(name, versions, tuple(key), **more))

    def rows(self, version, name="orders"):
        return self.session.read.format("delta").option("versionAsOf", version).load(self.path(name)).collect()


@pytest.fixture
def tables(project, headrace_session):
    settings = "name: shop\nprofiles:\n  prod: {storage: production}\n"
    return Tables(project(PIPELINE, {"pipeline.yml": settings}), headrace_session)


def read_files(diff):
    return [(side.read_files, side.files) for side in (diff.first, diff.second)]


def test_values_of_every_type_are_compared_and_shown(tables):
    columns = ", ".join(f"{name} {kind}" for name, kind in TYPES.items())
    tables.sql(f"CREATE TABLE $T ({columns}) USING delta TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    tables.sql(*(f"INSERT OVERWRITE $T VALUES {rows}" for rows in (FIRST, REWRITTEN, CHANGED)))

    same, changed = tables.diff(1, 2), tables.diff(2, 3, key=["ID"])

    assert (same.is_equal, same.rows) == (True, RowCounts(unchanged=1))
    assert changed.rows == RowCounts(changed=1)
    (example,) = json.loads(json.dumps(changed.to_json()))["examples"]
    assert example["key"] == {"id": 1}
    assert [(name, example["first"][name], value) for name, value in example["second"].items()] == SHOWN


@pytest.mark.long(guard=OF_EVERY_TYPE)
def test_changed_columns_are_matched_by_name_or_by_their_id(tables):
    tables.sql(
        "CREATE TABLE $T (id INT NOT NULL, n INT, old STRING, gone STRING, s STRUCT<a: INT>, p STRING) USING delta "
        "PARTITIONED BY (p) TBLPROPERTIES "
        "('delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true')",
        "INSERT INTO $T VALUES (1, 1, 'a', 'x', struct(1), 'p1'), (2, 2, 'b', 'y', struct(2), 'p2')",
        "ALTER TABLE $T ALTER COLUMN n TYPE BIGINT",
        "ALTER TABLE $T RENAME COLUMN old TO new",
        "ALTER TABLE $T ADD COLUMNS (s.b INT)",
        "UPDATE $T SET n = 3000000000, s = named_struct('a', 2, 'b', 9) WHERE id = 2",
        "ALTER TABLE $T DROP COLUMN gone",
        "ALTER TABLE $T ADD COLUMNS (gone STRING)",
    )

    widened, again = tables.diff(1, 5, key=["id"]), tables.diff(1, key=["id"])

    assert [line.describe() for line in widened.schema] == ["~ n int -> bigint", "~ new was old", "+ s.b int"]
    assert (widened.rows, widened.columns) == (RowCounts(unchanged=1, changed=1), {"n": 1})
    assert read_files(widened) == [(1, 2), (1, 2)]
    # A file of the first version has other values under this name than one of the last.
    assert (again.columns, read_files(again)) == ({"gone": 2, "n": 1}, [(2, 2), (2, 2)])


@pytest.mark.long(guard=OF_EVERY_TYPE)
def test_types_without_a_common_one_and_tables_without_a_common_column(tables):
    write = "CREATE OR REPLACE TABLE $T USING delta AS SELECT"
    tables.sql(
        f"{write} 1 AS id, '10' AS n, 1.50 AS d", f"{write} 1L AS id, 10D AS n, 1.5D AS d", f"{write} 7 AS other"
    )

    text, nothing = tables.diff(0, 1, key=["id"]), tables.diff(1, 2)

    assert (text.rows, text.compared_as_text) == (RowCounts(unchanged=1), ("n", "d"))
    assert {line.column: (line.first, line.second) for line in text.schema}["d"] == ("decimal(3,2)", "double")
    assert (nothing.rows, read_files(nothing)) == (RowCounts(only_first=1, only_second=1), [(0, 1), (0, 1)])


@pytest.mark.long(guard=NAIVE)
def test_repeated_rows_and_repeated_keys_are_counted_and_named(tables):
    tables.sql(
        "CREATE TABLE $T (id INT, n INT) USING delta",
        "INSERT INTO $T VALUES (1, 1), (1, 1), (1, 1), (2, 2), (NULL, 3), (4, 4), (4, 5)",
        "INSERT OVERWRITE $T VALUES (1, 1), (2, 2), (2, 2), (NULL, 4), (4, 6), (4, 5)",
    )

    rows, keys, few = tables.diff(), tables.diff(key=["id"]), tables.diff(key=["id"], examples=1)

    assert rows.rows == RowCounts(unchanged=3, only_first=4, only_second=3)
    assert [(one.first, one.rows) for one in rows.examples if one.first] == [
        ({"id": None, "n": 3}, (1, 0)),
        ({"id": 1, "n": 1}, (2, 0)),
        ({"id": 4, "n": 4}, (1, 0)),
    ]
    # An equal row cancels first: of the key 4, only one row of each side is left.
    assert keys.rows == RowCounts(unchanged=3, changed=2, only_first=2, only_second=1, repeated_keys=1)
    assert [(one.kind.value, one.key["id"], one.rows) for one in keys.examples] == [
        ("changed", None, (1, 1)),
        ("changed", 4, (1, 1)),
        ("only_second", 2, (0, 1)),
        ("repeated_key", 1, (2, 0)),
    ]
    assert len(few.examples) == 1


VALUES = st.sampled_from(["NULL", "0D", "-0D", "double('NaN')", "1D"])
KEYS = st.sampled_from(["NULL", "1", "2"])
ROWS = st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=4)
STEPS = st.one_of(
    st.builds(lambda rows: f"INSERT INTO $T VALUES {', '.join(f'({k}, {v})' for k, v in rows)}", ROWS),
    st.builds(lambda key: f"DELETE FROM $T WHERE k <=> {key}", KEYS),
    st.builds(lambda key, value: f"UPDATE $T SET v = {value} WHERE k <=> {key}", KEYS, VALUES),
    st.just("OPTIMIZE $T"),
)


@settings(max_examples=examples(1, 3))
@given(before=st.lists(ROWS, min_size=2, max_size=3), steps=st.lists(STEPS, min_size=1, max_size=3))
def test_the_result_is_that_of_a_comparison_of_all_rows(prepared_tables, before, steps):
    tables, number = prepared_tables
    name = f"t{next(number)}"
    tables.sql(
        "CREATE TABLE $T (k INT, v DOUBLE) USING delta TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')",
        *(f"INSERT INTO $T VALUES {', '.join(f'({k}, {v})' for k, v in rows)}" for rows in before),
        *steps,
        name=name,
    )
    newest = newest_version(tables.path(name))

    by_key = tables.diff(len(before), newest, key=["k"], name=name)
    whole = tables.diff(len(before), newest, name=name)

    expected, repeated = naive([[(row.k, plain(row.v)) for row in tables.rows(v, name)] for v in (len(before), newest)])
    assert by_key.rows == expected
    assert (whole.rows.unchanged, whole.rows.only_first) == (
        expected.unchanged,
        expected.changed + expected.only_first,
    )
    assert {one.key["k"] for one in by_key.examples if one.kind.value == "repeated_key"} == repeated


def plain(value):
    return "NaN" if value is not None and math.isnan(value) else value


def naive(sides):
    """What a comparison of all rows in memory finds."""
    first, second = map(Counter, sides)
    left = [first - second, second - first]
    keys = defaultdict(lambda: [0, 0])
    for side, rows in enumerate(left):
        for (key, _), count in rows.items():
            keys[key][side] += count
    changed = sum(counts == [1, 1] for counts in keys.values())
    repeated = {key for key, counts in keys.items() if max(counts) > 1}
    only_first, only_second = (rows.total() - changed for rows in left)
    return RowCounts((first & second).total(), changed, only_first, only_second, len(repeated)), repeated


@pytest.fixture(scope="module")
def prepared_tables(shared_project, headrace_session):
    return Tables(shared_project(PIPELINE), headrace_session), iter(range(1000))


@pytest.mark.long(guard=NAIVE)
def test_tables_of_other_profiles_and_projects_are_compared_without_their_code(tables, project, headrace_session):
    cdc = """TBLPROPERTIES ('headrace.cdc.rows' = '{"keys": ["id"], "scd_type": "1"}')"""
    tables.sql("CREATE TABLE $T (id INT, n INT) USING delta", "INSERT INTO $T VALUES (1, 1), (2, 2)")
    other = Tables(project(PIPELINE, {"secrets": ""}), headrace_session)
    for path in (f"{Path(tables.path()).parents[3]}/production/tables/default/orders", other.path()):
        headrace_session.sql(f"CREATE TABLE delta.`{path}` (id BIGINT, n INT) USING delta {cdc}")
        headrace_session.sql(f"INSERT INTO delta.`{path}` VALUES (2, 3), (1, 1)")

    profile = tables.diff(other_profile="prod")
    folder = tables.diff(1, 0, other_project=str(other.project.settings.root))

    assert (profile.rows, profile.key, profile.key_origin) == (
        RowCounts(unchanged=1, changed=1),
        ("id",),
        KeyOrigin.AUTO_CDC,
    )
    assert (profile.first.label, profile.second.label) == ("default version 1", "prod version 1")
    assert folder.rows == RowCounts(only_first=2)
    with pytest.raises(PipelineError) as unknown:
        tables.diff(other_profile="prod", name="missing")
    assert unknown.value.code == "DIFF.UNKNOWN"


@pytest.mark.long(guard=VERSIONS)
def test_a_version_whose_files_are_gone_is_refused_with_the_earliest_that_can_be_read(tables):
    tables.sql(
        "CREATE TABLE $T (id INT) USING delta",
        "INSERT INTO $T VALUES (1)",
        "INSERT OVERWRITE $T VALUES (2)",
        "INSERT INTO $T VALUES (3)",
    )
    before = tables.diff(1, 2)
    (file,) = live_files(tables.path(), 1)
    Path(tables.path(), file.path).unlink()

    with pytest.raises(PipelineError) as refused:
        tables.diff(1, 3)

    assert before.rows == RowCounts(only_first=1, only_second=1)
    assert (refused.value.code, refused.value.params["earliest"]) == ("DIFF.FILES_GONE", "2")
    assert tables.diff(2, 3).rows == RowCounts(unchanged=1, only_second=1)
    (added,) = {file.path for file in live_files(tables.path(), 3)} - {
        file.path for file in live_files(tables.path(), 2)
    }
    Path(tables.path(), added).write_bytes(b"PAR1 and no more")
    with pytest.raises(PipelineError) as damaged:
        tables.diff(2, 3)
    assert damaged.value.code == "DIFF.FAILED"
