"""Tables that keep their rows while the columns of their queries change, and the streams that read such tables."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import pytest
from deltalake import DeltaTable

from headrace.errors import Problems
from headrace.model.outcome import FlowState, UpdateState
from headrace.model.type_changes import widens

pytestmark = pytest.mark.spark

TEXT = """
    @dp.table
    def bronze():
        return spark.readStream.schema("{schema}").json(spark.conf.get("landing"))

    @dp.table
    @dp.expect_or_quarantine("known", "id IS NOT NULL")
    def silver():
        return spark.readStream.table("bronze")

    @dp.table
    def ids():
        return spark.readStream.table("bronze").selectExpr("CAST(id AS STRING) AS id")

    @dp.materialized_view
    def summed():
        return spark.read.table("silver").selectExpr("sum(id) AS total")
    """
SMALL = "id INT, at STRUCT<x:INT>, day DATE, hops ARRAY<STRUCT<n:SMALLINT>>"
WIDE = "id BIGINT, at STRUCT<x:DOUBLE,y:STRING>, day TIMESTAMP_NTZ, hops ARRAY<STRUCT<n:INT,via:STRING>>, note STRING"


@pytest.fixture(scope="module")
def tables_after_one_update(prepared):
    def set_up(shared_project):
        pipeline = shared_project(TEXT.format(schema=SMALL))
        pipeline.settings = replace(pipeline.settings, configuration={"landing": f"{pipeline.folder}/landing"})
        row = {"at": {"x": 1}, "day": "2024-01-01", "hops": [{"n": 1}]}
        pipeline.land("landing/1.json", [{"id": 1, **row}, {"id": None, **row}])
        assert pipeline.run().state is UpdateState.COMPLETED
        return pipeline

    return prepared(set_up)


@pytest.fixture
def pipeline(tables_after_one_update):
    return tables_after_one_update.restored()


def with_schema(pipeline, schema):
    file = pipeline.folder / "transformations" / "project.py"
    head, _, rest = file.read_text().partition('.schema("')
    file.write_text(f'{head}.schema("{schema}"{rest.partition(chr(34))[2]}')
    return pipeline


def table_of(pipeline, name):
    return DeltaTable(str(pipeline.folder / "storage" / "tables" / "default" / name))


def columns(pipeline, table):
    fields = table_of(pipeline, table).schema().fields
    return {field.name: getattr(field.type, "type", field.type) for field in fields}


def test_wider_types_and_new_columns_reach_every_table_in_one_update(pipeline):
    with_schema(pipeline, WIDE)
    big = {"id": 2**40, "at": {"x": 0.5, "y": "new"}, "day": "2024-01-02", "hops": [{"n": 70000, "via": "x"}]}
    pipeline.land("landing/2.json", [{**big, "note": "first"}, {**big, "id": None}])

    plan = pipeline.plan().describe()
    result = pipeline.run()

    for table in ("bronze", "silver"):
        said = next(line for line in plan.splitlines() if line.startswith(f"evolve     {table}:"))
        assert 'adds "note"' in said
        assert 'adds "at.y"' in said
        assert 'widens "id" from int to bigint' in said
        assert 'widens "hops.element.n" from smallint to int' in said
    assert result.outcome.error is None
    found = [
        (row["id"], row["at"]["x"], row["at"]["y"], row["day"].isoformat(), row["hops"][0]["n"], row["note"])
        for row in pipeline.rows("silver")
    ]
    assert sorted(found) == [
        (1, 1.0, None, "2024-01-01T00:00:00", 1, None),
        (2**40, 0.5, "new", "2024-01-02T00:00:00", 70000, "first"),
    ]
    aside = [(row["row"]["at"]["x"], row["row"]["hops"][0]["n"]) for row in pipeline.rows("silver_quarantine")]
    assert sorted(aside) == [(0.5, 70000), (1.0, 1)]
    assert sorted(str(row["id"]) for row in pipeline.rows("ids")) == ["1", str(2**40), "None", "None"]
    assert {name: count for name, _, count in pipeline.project.tables()}["silver"] == 2
    assert pipeline.rows("summed") == [{"total": 2**40 + 1}]
    assert pipeline.plan().empty


@pytest.mark.long(
    guard=(
        "tests/unit/plan/test_schema_evolution.py::test_a_narrower_type_changes_nothing",
        "tests/spark/test_schema_change.py::test_a_column_removed_from_the_code_stays_in_the_table_for_its_readers",
    )
)
def test_values_of_narrower_types_are_written_into_wider_columns(pipeline):
    with_schema(pipeline, WIDE)
    pipeline.run("bronze", "silver")
    with_schema(pipeline, SMALL)
    pipeline.land("landing/3.json", [{"id": 3, "at": {"x": 7}, "day": "2024-01-03", "hops": [{"n": 2}]}])
    narrower = pipeline.run("bronze", "silver")

    assert narrower.state is UpdateState.COMPLETED
    assert columns(pipeline, "silver")["id"] == "long"
    found = [(row["at"], row["note"]) for row in pipeline.rows("silver") if row["id"] == 3]
    assert found == [({"x": 7.0, "y": None}, None)]
    assert pipeline.plan("bronze", "silver").empty


def test_a_column_removed_from_the_code_stays_in_the_table_for_its_readers(pipeline):
    file = pipeline.folder / "transformations" / "project.py"
    text = file.read_text()
    with_schema(pipeline, "id INT")
    file.write_text(file.read_text() + '\n@dp.table\ndef late():\n    return spark.readStream.table("bronze")\n')
    pipeline.land("landing/2.json", [{"id": 2}])

    result = pipeline.run("bronze", "late")

    assert result.flow("late").state is FlowState.COMPLETED
    assert columns(pipeline, "late") == columns(pipeline, "bronze")
    late = {row["id"]: row["day"] is None for row in pipeline.rows("late")}
    assert late == {None: False, 1: False, 2: True}
    assert pipeline.plan("bronze", "late").empty
    file.write_text(text)


def test_an_incompatible_type_is_rejected_with_both_schemas_before_any_write(pipeline):
    before = table_of(pipeline, "bronze").version()
    with_schema(pipeline, SMALL.replace("day DATE", "day BOOLEAN"))
    pipeline.land("landing/2.json", [{"id": 2}])

    with pytest.raises(Problems) as found:
        pipeline.run()

    problem = next(error for error in found.value if error.params["name"] == "bronze")
    assert problem.code == "TABLE.TYPE_CHANGED"
    assert problem.detail.splitlines() == [
        '"day" is date in the table and boolean in the query.',
        "The table has: id int, at struct<x:int>, day date, hops array<struct<n:smallint>>",
        "The query returns: id int, at struct<x:int>, day boolean, hops array<struct<n:smallint>>",
    ]
    assert "headrace run --full-refresh bronze" in problem.hint
    assert "--accept-data-loss" in problem.hint
    assert table_of(pipeline, "bronze").version() == before
    rebuilt = pipeline.run(full_refresh=["bronze"])
    assert rebuilt.state is UpdateState.COMPLETED
    assert columns(pipeline, "bronze")["day"] == "boolean"


def test_the_supported_type_widenings_are_those_of_delta(headrace_session):
    jvm = headrace_session._jvm
    names = ["byte", "short", "integer", "long", "float", "double", "string", "date", "timestamp", "timestamp_ntz"]
    names += ["binary", "boolean", "decimal(5,0)", "decimal(10,0)", "decimal(12,2)", "decimal(20,0)", "decimal(38,18)"]
    parsed = {name: jvm.org.apache.spark.sql.types.DataType.fromJson(f'"{name}"') for name in names}
    delta = jvm.org.apache.spark.sql.delta.TypeWidening

    ours = {(a, b) for a, b in product(names, names) if widens(a, b)}
    theirs = {(a, b) for a, b in product(names, names) if a != b and delta.isTypeChangeSupported(parsed[a], parsed[b])}

    assert ours == theirs
