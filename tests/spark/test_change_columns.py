"""Change events whose columns come, go, or are named in another case, and declarations that change with a table."""

from __future__ import annotations

import pytest

from headrace.errors import Problems
from headrace.model.outcome import UpdateState

pytestmark = pytest.mark.spark

TEXT = """
    from pathlib import Path

    @dp.temporary_view
    def events():
        schema = "id INT, City STRING, size INT, version INT, operation STRING, sets ARRAY<STRING>"
        found = spark.readStream.schema(schema).json(str(Path(__file__).parents[1] / "landing"))
        return found

    def apply(target, *hidden, keys=("id",), rules=None, properties=None, **more):
        dp.create_streaming_table(target, expect_all=rules, table_properties=properties or {})
        dp.create_auto_cdc_flow(
            target=target,
            source="events",
            keys=list(keys),
            sequence_by="version",
            apply_as_deletes="operation = 'delete'",
            except_column_list=["operation", "sets", *hidden],
            **more,
        )

    marked = {"delta.enableDeletionVectors": "true"}
    apply("shown", rules={"has a city": "City IS NOT NULL"}, properties=marked)
    apply("kept", rules={"has a city": "City IS NOT NULL"}, ignore_null_updates=True)
    apply("partly", columns_to_update="sets")
    rules = {"is an upsert": "operation = 'upsert'", "has a city": "City IS NOT NULL"}
    apply("versions", "version", rules=rules, stored_as_scd_type=2)
    """


def event(number, city, size, version, operation="upsert", sets=None):
    return {"id": number, "City": city, "size": size, "version": version, "operation": operation, "sets": sets}


def rewrite(pipeline, old, new):
    file = pipeline.folder / "transformations" / "project.py"
    text = file.read_text()
    assert text.count(old) == 1
    pipeline.write("transformations/project.py", text.replace(old, new))


def rows(result, name):
    return sorted((tuple(row.values()) for row in result.rows(name)), key=str)


ADDING = """dp.create_streaming_table("partly")
dp.append_flow(target="partly", name="other")(lambda: spark.readStream.table("events").drop("operation", "sets"))"""
FEW = ("partly", "versions")
REST = ("shown", "kept")
LONG = pytest.mark.long(
    guard="tests/spark/test_change_columns.py"
    "::test_columns_removed_from_the_source_become_null_and_new_columns_are_added"
)


def with_history(pipeline, *names):
    """Make these tables; one key has had two cities."""
    first = [event(1, "Oslo", 7, 1), event(1, "Rome", 7, 5), event(2, "Bern", 7, 1), event(2, None, None, 6, "delete")]
    spelled = [event(3, "Bern", 7, 5), event(3, "Lima", 9, 7, sets=["CITY"]), event(3, "Oslo", 9, 8, sets=["town"])]
    pipeline.land("landing/1.json", [*first, *spelled])
    return pipeline.run(*names)


def with_other_columns(pipeline, *names):
    """Update these tables after their source has lost a column and gained another."""
    upper = 'withColumn("upper", F.when(F.col("version") < 8, F.upper("operation")))'
    rewrite(pipeline, "return found", f'return found.drop("City").{upper}')
    events = [event(1, "Bern", 9, 7), event(1, "Bern", 8, 3, sets=["size"]), event(4, "Bern", 9, 7)]
    pipeline.land("landing/2.json", [*events, event(4, "Bern", None, 8)])
    return pipeline.run(*names)


@pytest.fixture(scope="module")
def pipeline(shared_project):
    return shared_project(TEXT)


@pytest.fixture(scope="module")
def first(pipeline):
    """The update that has made the tables."""
    return with_history(pipeline, *FEW)


@pytest.fixture
def begun(pipeline, first):
    """A pipeline whose tables have a history."""
    assert first.state is UpdateState.COMPLETED
    return pipeline


@pytest.fixture(scope="module")
def second(pipeline, first):
    """The update after the columns have changed."""
    assert first.state is UpdateState.COMPLETED
    return with_other_columns(pipeline, *FEW)


@pytest.fixture(scope="module")
def rest(shared_project):
    """The same for the other tables."""
    pipeline = shared_project(TEXT)
    with_history(pipeline, *REST)
    return with_other_columns(pipeline, *REST)


@pytest.mark.parametrize(
    ("old", "new", "code", "said"),
    [
        (
            "stored_as_scd_type=2)",
            'stored_as_scd_type=2, track_history_column_list=["size"])',
            "FLOW.STATE_CHANGED",
            "a version begins with a change of (size)",
        ),
        (
            "return found",
            'return found.withColumn("version", F.col("version").cast("string"))',
            "FLOW.STATE_CHANGED",
            '("string")',
        ),
        (
            'apply("partly", columns_to_update="sets")',
            'apply("partly", name="another", stored_as_scd_type=2)',
            "CDC.OTHER_TABLE",
            "__END_AT, __START_AT",
        ),
        (
            'apply("partly", columns_to_update="sets")',
            'apply("partly", columns_to_update="sets", name="another", keys=["id", "City"])',
            "CDC.OTHER_KEYS",
            "keys (id), SCD type 1. The flow has keys (city, id), SCD type 1",
        ),
        (
            'apply("partly", columns_to_update="sets")',
            ADDING,
            "CDC.ROWS_WERE_MERGED",
            "keys (id), SCD type 1",
        ),
    ],
)
def test_a_definition_that_does_not_fit_the_existing_rows_is_refused(begun, old, new, code, said):
    rewrite(begun, old, new)

    try:
        with pytest.raises(Problems) as raised:
            begun.plan("partly", "versions")
    finally:
        rewrite(begun, new, old)

    assert any(said in problem.detail for problem in raised.value if problem.code == code)


def test_columns_to_update_match_case_insensitively_and_unknown_ones_are_quarantined(first):
    row = [(found["City"], found["size"], found["version"]) for found in first.rows("partly") if found["id"] == 3]

    assert row == [("Lima", 7, 5)]
    assert first.failed("partly")["cdc.unknown_column"] == 1


@pytest.mark.parametrize(
    ("update", "name", "expected"),
    [
        ("second", "partly", [(1, None, 9, 7, "UPSERT"), (4, None, None, 8, None)]),
        (
            "second",
            "versions",
            [
                (1, "Oslo", 7, 1, 3, None),
                (1, "Rome", 7, 5, 7, None),
                (1, None, 8, 3, 5, "UPSERT"),
                (1, None, 9, 7, None, "UPSERT"),
                (2, "Bern", 7, 1, 6, None),
                (4, None, 9, 7, 8, "UPSERT"),
                (4, None, None, 8, None, None),
            ],
        ),
        pytest.param("rest", "shown", [(1, None, 9, 7, "UPSERT"), (4, None, None, 8, None)], marks=LONG),
        pytest.param("rest", "kept", [(1, "Rome", 9, 7, "UPSERT"), (4, None, 9, 8, "UPSERT")], marks=LONG),
    ],
)
def test_columns_removed_from_the_source_become_null_and_new_columns_are_added(update, name, expected, request):
    result = request.getfixturevalue(update)

    assert result.state is UpdateState.COMPLETED
    assert [row for row in rows(result, name) if row[0] != 3] == expected


@pytest.mark.parametrize(
    ("update", "name"), [("second", "versions"), *[pytest.param("rest", name, marks=LONG) for name in REST]]
)
def test_each_event_violates_an_expectation_on_a_column_removed_from_the_source(update, name, request):
    result = request.getfixturevalue(update)

    assert result.failed(name)["has a city"] == 4


@LONG
def test_a_column_that_a_flow_newly_excludes_becomes_null(project):
    pipeline = project(TEXT)
    with_history(pipeline, "versions")
    rewrite(pipeline, 'apply("versions", "version",', 'apply("versions", "version", "City",')
    pipeline.land("landing/3.json", [event(1, "Bern", 9, 7)])

    result = pipeline.run("versions")

    assert [row for row in rows(result, "versions") if row[0] != 3] == [
        (1, "Oslo", 7, 1, 5),
        (1, "Rome", 7, 5, 7),
        (1, None, 9, 7, None),
        (2, "Bern", 7, 1, 6),
    ]
