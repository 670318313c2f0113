"""Change events become the rows that the vendor's documents show, whatever order and batches they come in."""

from __future__ import annotations

import json

import pytest

from headrace.model.outcome import UpdateState

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
    def events():
        schema = "userId STRING, name STRING, city STRING, operation STRING, sequenceNum INT"
        return spark.readStream.schema(schema).json(str(Path(__file__).parents[1] / "landing"))

    dp.create_streaming_table("users")
    dp.create_auto_cdc_flow(
        target="users",
        source="events",
        keys=["userId"],
        sequence_by=F.col("sequenceNum"),
        apply_as_deletes=F.expr("operation = 'DELETE'"),
        except_column_list=["operation", "sequenceNum"],
        {more}
    )
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


@pytest.mark.parametrize(
    ("more", "events", "expected"),
    [
        ("stored_as_scd_type=1,", EVENTS, CURRENT),
        ("apply_as_truncates=\"operation = 'TRUNCATE'\",", [*EVENTS, TRUNCATE], [CURRENT[1]]),
        ("stored_as_scd_type=2,", EVENTS, VERSIONS),
        ('stored_as_scd_type="2", track_history_except_column_list=["city"],', EVENTS, OPEN_CITY),
    ],
    ids=["type 1", "type 1 with a truncate", "type 2", "type 2 without the city"],
)
def test_the_documented_events_lead_to_the_documented_rows(project, more, events, expected):
    pipeline = project(TEXT.format(more=more))
    # The last half comes first, in an update of its own.
    pipeline.land("landing/2.json", as_rows(events[4:]))
    pipeline.run()
    pipeline.land("landing/1.json", as_rows(events[:4]))

    result = pipeline.run()

    assert rows(result) == expected


SQL = """
    CREATE STREAMING TABLE events AS SELECT * FROM STREAM read_files('{landing}', format => 'json',
      schema => 'userId STRING, name STRING, city STRING, operation STRING, sequenceNum INT');
    CREATE STREAMING TABLE users;
    CREATE FLOW user_changes AS AUTO CDC INTO users FROM STREAM(events) KEYS (userId)
      APPLY AS DELETE WHEN operation = 'DELETE' SEQUENCE BY sequenceNum COLUMNS * EXCEPT (operation, sequenceNum)
      STORED AS SCD TYPE 2;
    """


def test_sql_says_the_same(project, tmp_path):
    pipeline = project(files={"transformations/users.sql": SQL.format(landing=tmp_path / "landing")})
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing" / "1.json").write_text("\n".join(map(json.dumps, as_rows(EVENTS))))

    result = pipeline.run()

    assert rows(result) == VERSIONS
    assert pipeline.run().outcome.state is UpdateState.COMPLETED
