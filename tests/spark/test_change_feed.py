"""Change events become the rows that the vendor's documents show, whatever order and batches they come in."""

from __future__ import annotations

import json
import os

import pytest

from headrace.testing import history

pytestmark = pytest.mark.spark

# The worked example of the vendor's page on AUTO CDC.
EVENTS = [
    ("124", "Raul", "Oaxaca", "INSERT", 1),
    ("123", "Isabel", "Monterrey", "INSERT", 1),
    ("125", "Mercedes", "Tijuana", "INSERT", 2),
    ("126", "Lily", "Cancun", "INSERT", 2),
    ("123", None, None, "DELETE", 6),
    ("125", "Mercedes", "Guadalajara", "UPDATE", 6),
    ("125", "Mercedes", "Mexicali", "UPDATE", 5),
    ("123", "Isabel", "Chihuahua", "UPDATE", 5),
]
TRUNCATE = (None, None, None, "TRUNCATE", 3)
NAMES = ("userId", "name", "city", "operation", "sequenceNum")

TEXT = """
    from pathlib import Path

    @dp.temporary_view
    def all_events():
        schema = "userId STRING, name STRING, city STRING, operation STRING, sequenceNum INT"
        rows = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
        return rows.json(str(Path(__file__).parents[1] / "landing"))

    @dp.temporary_view
    def events():
        return spark.readStream.table("all_events").filter("operation <> 'TRUNCATE'")

    def apply(target, source="events", hidden=("operation", "sequenceNum"), **more):
        dp.create_streaming_table(target)
        dp.create_auto_cdc_flow(
            target=target,
            source=source,
            keys=["userId"],
            sequence_by=F.col("sequenceNum"),
            apply_as_deletes=F.expr("operation = 'DELETE'"),
            except_column_list=list(hidden),
            **more,
        )

    truncates = "operation = 'TRUNCATE'"
    apply("type_1", stored_as_scd_type=1)
    apply("type_1_with_its_sequence", hidden=["operation"])
    apply("truncated", "all_events", apply_as_truncates=truncates)
    apply("truncated_with_its_sequence", "all_events", ["operation"], apply_as_truncates=truncates)
    apply("type_2", stored_as_scd_type=2)
    apply("type_2_without_the_city", stored_as_scd_type="2", track_history_except_column_list=["city"])
    """

CURRENT = [("124", "Raul", "Oaxaca"), ("125", "Mercedes", "Guadalajara"), ("126", "Lily", "Cancun")]
VERSIONS = [
    ("123", "Isabel", "Chihuahua", 5, 6),
    ("123", "Isabel", "Monterrey", 1, 5),
    ("124", "Raul", "Oaxaca", 1, None),
    ("125", "Mercedes", "Guadalajara", 6, None),
    ("125", "Mercedes", "Mexicali", 5, 6),
    ("125", "Mercedes", "Tijuana", 2, 5),
    ("126", "Lily", "Cancun", 2, None),
]
OPEN_CITY = [
    ("123", "Isabel", "Chihuahua", 1, 6),
    ("124", "Raul", "Oaxaca", 1, None),
    ("125", "Mercedes", "Guadalajara", 2, None),
    ("126", "Lily", "Cancun", 2, None),
]


def as_rows(events):
    return [dict(zip(NAMES, event, strict=True)) for event in events]


def rows(result, name="users"):
    return sorted((tuple(row.values()) for row in result.rows(name)), key=str)


FEW = ("truncated_with_its_sequence", "type_2_without_the_city")
REST = ("type_1", "type_1_with_its_sequence", "truncated", "type_2")
LONG = pytest.mark.long(guard="its other cases")


@pytest.fixture(scope="module")
def few(shared_project):
    return merged(shared_project(TEXT), FEW)


@pytest.fixture(scope="module")
def rest(shared_project):
    return merged(shared_project(TEXT), REST)


def merged(pipeline, targets):
    # The last half comes first, in a batch of its own, and the truncate with it.
    for number, events in enumerate([[*EVENTS[4:], TRUNCATE], EVENTS[:4]], 1):
        os.utime(pipeline.land(f"landing/{number}.json", as_rows(events)), (number, number))
    return pipeline.run(*targets)


@pytest.mark.parametrize(
    ("of", "table", "expected"),
    [
        ("few", "truncated_with_its_sequence", [(*CURRENT[1], 6)]),
        ("few", "type_2_without_the_city", OPEN_CITY),
        pytest.param("rest", "type_1", CURRENT, marks=LONG),
        pytest.param(
            *("rest", "type_1_with_its_sequence", [(*CURRENT[0], 1), (*CURRENT[1], 6), (*CURRENT[2], 2)]), marks=LONG
        ),
        pytest.param("rest", "truncated", [CURRENT[1]], marks=LONG),
        pytest.param("rest", "type_2", VERSIONS, marks=LONG),
    ],
)
def test_the_documented_events_produce_the_documented_rows(of, table, expected, request):
    result = request.getfixturevalue(of)

    assert rows(result, table) == expected


@pytest.mark.long(guard="tests/spark/test_change_inputs.py::test_update_preimages_are_not_applied_as_events")
@pytest.mark.parametrize("table", ["type_1", "type_1_with_its_sequence"])
def test_upserted_and_deleted_rows_are_counted(rest, table):
    counts = rest.counts(table)

    # Of the first batch one row, of the second one two.
    assert (counts.rows_written, counts.rows_upserted, counts.rows_deleted) == (8, 3, 0)


SQL = """
    CREATE STREAMING TABLE events AS SELECT * FROM STREAM read_files('{landing}', format => 'json',
      schema => 'userId STRING, name STRING, city STRING, operation STRING, sequenceNum INT');
    CREATE STREAMING TABLE users;
    CREATE FLOW user_changes AS AUTO CDC INTO users FROM STREAM(events) KEYS (userId)
      APPLY AS DELETE WHEN operation = 'DELETE' SEQUENCE BY sequenceNum COLUMNS * EXCEPT (operation, sequenceNum)
      STORED AS SCD TYPE 2;
    """


def test_a_sql_flow_produces_the_same_versions_and_history_lists_those_of_a_key(project, tmp_path):
    pipeline = project(files={"transformations/users.sql": SQL.format(landing=tmp_path / "landing")})
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "1.json").write_text("\n".join(map(json.dumps, as_rows(EVENTS))))

    result = pipeline.run()

    assert rows(result) == VERSIONS
    assert history(result.rows("users"), userId="123").splitlines() == [
        "userId='123'",
        "  1 to 5: name='Isabel', city='Monterrey'",
        "  5 to 6: city='Chihuahua'",
        "  from 6: no row",
    ]
    assert pipeline.plan().empty
