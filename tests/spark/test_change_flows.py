"""Flows of changes that change themselves: wider types go on, another meaning is refused."""

from __future__ import annotations

import pytest

from headrace.errors import Problems

pytestmark = pytest.mark.spark

TEXT = """
    from pathlib import Path

    @dp.temporary_view
    def events():
        schema = "id INT, size INT, version INT, operation STRING"
        return spark.readStream.schema(schema).json(str(Path(__file__).parents[1] / "landing"))

    def apply(target, *hidden, **more):
        dp.create_streaming_table(target)
        dp.create_auto_cdc_flow(
            target=target,
            source="events",
            keys=["id"],
            sequence_by="version",
            apply_as_deletes="operation = 'delete'",
            except_column_list=["operation", *hidden],
            **more,
        )

    apply("shown")
    apply("hidden", "version")
    apply("versions", "version", stored_as_scd_type=2)
    """
BIG = 3_000_000_000


def event(number, size, version, operation="upsert"):
    return {"id": number, "size": size, "version": version, "operation": operation}


def rewrite(pipeline, old, new):
    file = pipeline.folder / "transformations" / "project.py"
    text = file.read_text()
    assert text.count(old) == 1
    pipeline.write("transformations/project.py", text.replace(old, new))


def rows(result, name):
    return sorted((tuple(row.values()) for row in result.rows(name)), key=str)


ROWS = {
    "shown": [(2, BIG, 7)],
    "hidden": [(2, BIG)],
    "versions": [
        (1, 7, 5, 6),
        (1, 8, 4, 5),
        (2, BIG, 7, None),
        (2, 7, 5, 6),
        (2, 9, 6, 7),
        (3, BIG, 6, 8),
    ],
}


def begin(pipeline, *targets):
    """Delete a key, and keep another."""
    pipeline.land("landing/1.json", [event(1, 7, 5), event(1, None, 6, "delete"), event(2, 7, 5)])
    pipeline.run(*targets)
    return pipeline


@pytest.fixture(scope="module")
def begun(shared_project):
    return begin(shared_project(TEXT), "hidden")


def test_a_changed_cdc_definition_is_refused_before_anything_is_merged(begun):
    old, new = 'apply("hidden", "version")', 'apply("hidden", "version", ignore_null_updates=True)'
    rewrite(begun, old, new)

    with pytest.raises(Problems) as raised:
        begun.run("hidden")
    rewrite(begun, new, old)

    (problem,) = raised.value
    before = "type 1 by (id) in the order of version"
    assert problem.code == "FLOW.STATE_CHANGED"
    assert problem.params["changes"] == (
        f'"{before}, which the table does not show" is now "{before}, NULL leaves all columns as it was"'
    )


def widened(pipeline, *targets):
    """Update these tables after a column has become wider; some events are older than those before."""
    rewrite(pipeline, "size INT", "size BIGINT")
    gone = [event(3, BIG, 7), event(3, None, 8, "delete"), event(3, BIG, 6)]
    pipeline.land("landing/2.json", [event(1, 8, 4), event(2, BIG, 7), event(2, 9, 6), *gone])
    return pipeline.run(*targets)


def test_events_with_wider_types_are_compared_with_narrower_retained_events(begun):
    result = widened(begun, "hidden")

    assert rows(result, "hidden") == ROWS["hidden"]


@pytest.mark.long(
    guard="tests/spark/test_change_flows.py::test_events_with_wider_types_are_compared_with_narrower_retained_events"
)
@pytest.mark.parametrize("name", ["shown", "versions"])
def test_events_with_wider_types_are_compared_with_narrower_rows(project, name):
    pipeline = begin(project(TEXT), name)

    result = widened(pipeline, name)

    assert rows(result, name) == ROWS[name]
