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

    def apply(target, *hidden, rules=None, properties=None, **more):
        dp.create_streaming_table(target, expect_all=rules, table_properties=properties or {})
        dp.create_auto_cdc_flow(
            target=target,
            source="events",
            keys=["id"],
            sequence_by="version",
            apply_as_deletes="operation = 'delete'",
            except_column_list=["operation", "sets", *hidden],
            **more,
        )

    marked = {"delta.enableDeletionVectors": "true"}
    apply("shown", rules={"has a city": "City IS NOT NULL"}, properties=marked)
    apply("kept", ignore_null_updates=True)
    apply("partly", columns_to_update="sets")
    apply("versions", "version", rules={"is an upsert": "operation = 'upsert'"}, stored_as_scd_type=2)
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


def with_history(pipeline, *names):
    """Of which tables a key has had two cities."""
    pipeline.land("landing/1.json", [event(1, "Oslo", 7, 1), event(2, "Bern", 7, 1)])
    pipeline.run(*names)
    pipeline.land("landing/2.json", [event(1, "Rome", 7, 5), event(2, None, None, 6, "delete")])
    pipeline.run(*names)
    return pipeline


@pytest.fixture
def begun(project):
    """A project whose tables have a history."""
    return lambda *names: with_history(project(TEXT), *names)


@pytest.fixture(scope="module")
def planned(shared_project):
    """The same, of which plans are made alone."""
    return with_history(shared_project(TEXT), "partly", "versions")


def test_a_column_that_leaves_the_source_is_null_from_then_on_and_stays_what_it_was_before(begun):
    pipeline = begun()
    rewrite(pipeline, "return found", 'return found.drop("City")')
    pipeline.land("landing/3.json", [event(1, "Bern", 9, 7), event(1, "Bern", 8, 3, sets=["size"])])

    result = pipeline.run()

    assert result.state is UpdateState.COMPLETED
    assert rows(result, "shown") == [(1, None, 9, 7)]
    assert rows(result, "kept") == [(1, "Rome", 9, 7)]
    assert rows(result, "partly") == [(1, None, 9, 7)]
    assert rows(result, "versions") == [
        (1, "Oslo", 7, 1, 3),
        (1, "Rome", 7, 5, 7),
        (1, None, 8, 3, 5),
        (1, None, 9, 7, None),
        (2, "Bern", 7, 1, 6),
    ]
    assert result.failed("shown")["has a city"] == 2


def test_a_column_that_a_flow_begins_to_leave_out_is_null_as_well(begun):
    pipeline = begun("versions")
    rewrite(pipeline, 'apply("versions", "version",', 'apply("versions", "version", "City",')
    pipeline.land("landing/3.json", [event(1, "Bern", 9, 7)])

    result = pipeline.run("versions")

    assert rows(result, "versions") == [
        (1, "Oslo", 7, 1, 5),
        (1, "Rome", 7, 5, 7),
        (1, None, 9, 7, None),
        (2, "Bern", 7, 1, 6),
    ]


def test_a_column_that_comes_is_taken_by_flows_in_which_null_leaves_values(begun):
    pipeline = begun("kept")
    rewrite(pipeline, "return found", 'return found.withColumn("upper", F.upper("City"))')
    pipeline.land("landing/3.json", [event(1, "Bern", None, 7), event(1, None, 9, 8)])

    result = pipeline.run("kept")

    assert rows(result, "kept") == [(1, "Bern", 9, 8, "BERN")]


def test_columns_that_an_event_sets_are_found_in_any_case_and_unknown_ones_are_set_aside(begun):
    pipeline = begun("partly")
    pipeline.land(
        "landing/3.json",
        [event(1, "Bern", 9, 7, sets=["CITY"]), event(1, "Oslo", 9, 8, sets=["town"]), event(2, "Bern", 3, 7)],
    )

    result = pipeline.run("partly")

    assert rows(result, "partly") == [(1, "Bern", 7, 5), (2, "Bern", 3, 7)]
    assert result.failed("partly")["cdc.unknown_column"] == 1


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
    ],
)
def test_what_the_rows_of_a_table_could_not_go_on_with_is_refused(planned, old, new, code, said):
    rewrite(planned, old, new)

    try:
        with pytest.raises(Problems) as raised:
            planned.plan("partly", "versions")
    finally:
        rewrite(planned, new, old)

    assert any(said in problem.detail for problem in raised.value if problem.code == code)
