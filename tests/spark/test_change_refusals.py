"""Flows of changes and of snapshots that cannot be, or cannot go on, say so by name."""

from __future__ import annotations

import textwrap

import pytest

from headrace.errors import Problems

pytestmark = pytest.mark.spark

HEAD = """
    from pathlib import Path

    LANDING = str(Path(__file__).parents[1] / "landing")
    EVENTS = "id INT, size INT, version INT"
    TAKEN = []

    @dp.temporary_view
    def events():
        return spark.readStream.schema(EVENTS).json(LANDING)

    @dp.temporary_view
    def more():
        return spark.readStream.schema(EVENTS).json(LANDING).withColumn("more", F.lit(1))

    @dp.materialized_view
    def copy():
        return spark.range(3)

    def rows(version):
        return spark.createDataFrame([(1, 2)], "id INT, size INT"), version

    def apply(target="t", source="events", **arguments):
        arguments = {"keys": ["id"], "sequence_by": "version", **arguments}
        dp.create_auto_cdc_flow(target, source, **arguments)

    def compare(source, target="t", **more):
        dp.create_auto_cdc_from_snapshot_flow(target, source, ["id"], **more)

    dp.create_streaming_table("t")
    """


@pytest.fixture
def declared(project):
    """A project of the lines above and some others, in which an event waits."""

    def make(text):
        pipeline = project(textwrap.dedent(HEAD) + textwrap.dedent(text))
        pipeline.land("landing/1.json", [{"id": 1, "size": 2, "version": 1}])
        return pipeline

    return make


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        (
            """
            apply()

            @dp.append_flow(target="t")
            def others():
                return spark.readStream.table("events")
            """,
            {"CDC.NOT_ALONE"},
        ),
        ('apply()\napply(source="more", name="second")', {"CDC.OTHER_ROWS"}),
        ('apply()\napply(name="second", stored_as_scd_type=2)', {"CDC.OTHER_ROWS"}),
        ('apply()\napply(name="second", ignore_null_updates=True)', {"CDC.OTHER_ROWS"}),
        ('apply()\ncompare("copy", name="second")', {"CDC.SNAPSHOT_NOT_ALONE", "CDC.OTHER_ROWS", "CDC.NOT_ALONE"}),
        ('compare("events")', {"FLOW.STREAM_FOR_SNAPSHOT"}),
        ("compare(lambda latest: None)", {"CDC.NO_SNAPSHOT"}),
        ("compare(lambda latest: 7)", {"CDC.BAD_SNAPSHOT"}),
        ("compare(lambda latest: (7, 8, 9))", {"CDC.BAD_SNAPSHOT"}),
        ("compare(lambda latest: rows([1]))", {"CDC.BAD_VERSION"}),
        ('apply(target="nowhere")', {"FLOW.UNKNOWN_TARGET"}),
        ('apply(target="copy", name="second")', {"FLOW.TARGET_NOT_STREAMING"}),
        ('apply(where=F.col("id") > 1)', {"CDC.BAD_ARGUMENT"}),
        ("apply(source=lambda: None)", {"CDC.BAD_ARGUMENT"}),
        ('apply(name="one", flow_name="two")', {"CDC.BAD_ARGUMENT"}),
        ('compare("copy", snapshot_and_version=lambda latest: None)', {"CDC.BAD_ARGUMENT"}),
        ("apply(keys=[])", {"CDC.BAD_ARGUMENT"}),
        ('apply(keys=["id", F.col("ID")])', {"CDC.BAD_ARGUMENT"}),
        ("apply(stored_as_scd_type=3)", {"CDC.BAD_ARGUMENT"}),
        ('apply(column_list=["id"], except_column_list=["size"])', {"CDC.BAD_ARGUMENT"}),
        ('apply(ignore_null_updates_except_column_list=["nothing"])', {"CDC.BAD_ARGUMENT"}),
        ('apply(columns_to_update="size")', {"CDC.BAD_ARGUMENT"}),
        ('apply(sequence_by="map(id, id)")', {"CDC.BAD_ARGUMENT"}),
        ('apply(sequence_by="struct(id, map(id, id))")', {"CDC.BAD_ARGUMENT"}),
        ('apply(ignore_null_updates=True, ignore_null_updates_column_list=["size"])', {"CDC.BAD_ARGUMENT"}),
        ('apply(track_history_column_list=["size"])', {"CDC.BAD_ARGUMENT"}),
        ('compare("copy", track_history_except_column_list=["size"])', {"CDC.BAD_ARGUMENT"}),
        ('apply(columns_to_update="sets", ignore_null_updates=True)', {"CDC.BAD_ARGUMENT"}),
        (
            'apply(columns_to_update="array()", stored_as_scd_type="bitemporal", system_sequence_by="version")',
            {"CDC.BAD_ARGUMENT"},
        ),
        ('apply(keys=["nothing"])', {"CDC.BAD_ARGUMENT"}),
        ('apply(sequence_by="nothing + 1")', {"CDC.BAD_ARGUMENT"}),
        ('apply(except_column_list=["id"])', {"CDC.BAD_ARGUMENT"}),
        ('apply(apply_as_deletes="size")', {"CDC.BAD_ARGUMENT"}),
    ],
)
def test_an_invalid_cdc_declaration_is_refused_before_anything_runs(declared, text, codes):
    pipeline = declared(text)

    with pytest.raises(Problems) as raised:
        pipeline.plan()

    found = {problem.code for problem in raised.value}
    assert found & codes
    # A table that is left without a flow is a problem of its own.
    assert found <= codes | {"GRAPH.NO_FLOW"}


def test_the_hint_shows_how_to_declare_an_unknown_target(declared):
    pipeline = declared('apply(target="nowhere")')

    with pytest.raises(Problems) as raised:
        pipeline.plan()

    assert 'dp.create_streaming_table("nowhere")' in "".join(problem.hint for problem in raised.value)


@pytest.mark.long(
    guard=(
        "tests/spark/test_change_refusals.py::test_an_invalid_cdc_declaration_is_refused_before_anything_runs",
        "tests/spark/test_snapshots.py::test_an_invalid_snapshot_leaves_the_table_unchanged",
        "tests/unit/cdc/test_snapshot_versions.py::test_invalid_or_incomparable_snapshot_versions_are_rejected",
    )
)
@pytest.mark.parametrize(
    ("version", "code"),
    [("'one'", "CDC.BAD_VERSION"), ("object()", "CDC.BAD_VERSION"), ("1", "CDC.SNAPSHOT_ORDER")],
)
def test_a_snapshot_version_not_after_the_last_one_is_refused_and_the_table_is_unchanged(declared, version, code):
    pipeline = declared(f"compare(lambda latest: rows(1 if latest is None else {version}))")

    result = pipeline.run()

    assert result.error == code
    assert [(row["id"], row["size"]) for row in result.rows("t")] == [(1, 2)]


def test_a_table_that_a_snapshot_function_reads_only_later_is_reported(declared):
    text = """
    def source(latest):
        if latest is None:
            return rows(1)
        return (spark.read.table("copy").selectExpr("CAST(id AS INT) AS id", "1 AS size"), 2) if latest == 1 else None

    compare(source)
    """
    pipeline = declared(text)

    result = pipeline.run()

    assert result.error == "CDC.UNSEEN_INPUT"
    assert 'read "copy", which it did not read' in result.outcome.error["message"]
