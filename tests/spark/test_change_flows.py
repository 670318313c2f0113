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


@pytest.fixture
def begun(project):
    """A project that has deleted a key, and kept another."""
    pipeline = project(TEXT)
    pipeline.land("landing/1.json", [event(1, 7, 5), event(1, None, 6, "delete"), event(2, 7, 5)])
    pipeline.run()
    return pipeline


def test_values_of_wider_types_meet_what_was_remembered_of_narrower_ones(begun):
    rewrite(begun, "size INT", "size BIGINT")
    begun.land("landing/2.json", [event(1, 8, 4), event(2, BIG, 7), event(3, BIG, 7), event(3, None, 8, "delete")])
    begun.run()
    begun.land("landing/3.json", [event(3, BIG, 6), event(2, 9, 6)])

    result = begun.run()

    assert rows(result, "shown") == [(2, BIG, 7)]
    assert rows(result, "hidden") == [(2, BIG)]
    assert rows(result, "versions") == [
        (1, 7, 5, 6),
        (1, 8, 4, 5),
        (2, BIG, 7, None),
        (2, 7, 5, 6),
        (2, 9, 6, 7),
        (3, BIG, 6, 8),
    ]


def test_another_meaning_of_events_is_refused_before_anything_is_merged(begun):
    rewrite(begun, 'apply("shown")', 'apply("shown", ignore_null_updates=True)')

    with pytest.raises(Problems) as raised:
        begun.run()

    (problem,) = raised.value
    before = "type 1 by (id) in the order of version"
    assert problem.code == "FLOW.STATE_CHANGED"
    assert problem.params["changes"] == f'"{before}" is now "{before}, NULL leaves all columns as it was"'
