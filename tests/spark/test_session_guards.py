"""Loading a pipeline's code and calling its queries changes nothing in the session and writes nothing."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from headrace.errors import Problems
from headrace.model.outcome import UpdateState

pytestmark = pytest.mark.spark

# What Spark's own pipelines refuse, and what writes.
CHANGES = {
    "spark.conf.set": 'spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")',
    "spark.conf.unset": 'spark.conf.unset("spark.sql.session.timeZone")',
    'SparkSession.builder.config("spark.sql.ansi.enabled", ...)': (
        'type(spark).builder.appName("a").config("spark.sql.ansi.enabled", "false").getOrCreate()'
    ),
    "spark.catalog.setCurrentCatalog": 'spark.catalog.setCurrentCatalog("spark_catalog")',
    "spark.catalog.setCurrentDatabase": 'spark.catalog.setCurrentDatabase("default")',
    "spark.catalog.dropTempView": 'spark.catalog.dropTempView("others")',
    "spark.catalog.dropGlobalTempView": 'spark.catalog.dropGlobalTempView("others")',
    "spark.catalog.createTable": 'spark.catalog.createTable("made", path="/tmp/nowhere")',
    "DataFrame.createTempView": 'spark.range(1).createTempView("others")',
    "DataFrame.createOrReplaceTempView": 'spark.range(1).createOrReplaceTempView("others")',
    "DataFrame.createGlobalTempView": 'spark.range(1).createGlobalTempView("others")',
    "DataFrame.createOrReplaceGlobalTempView": 'spark.range(1).createOrReplaceGlobalTempView("others")',
}
WRITES = {
    "DataFrame.write.saveAsTable": 'spark.range(1).write.saveAsTable("made_by_file")',
    "DataFrame.write.parquet": "spark.range(1).write.parquet(PLACE)",
    "DataFrame.writeTo": 'spark.range(1).writeTo("made_by_file")',
    "DataFrame.writeStream.start": 'spark.readStream.format("rate").load().writeStream.format("noop").start()',
}
FUNCTIONS = {
    "spark.udf.register": 'spark.udf.register("twice", lambda n: 2 * n, "int")',
    "spark.udf.registerJavaFunction": 'spark.udf.registerJavaFunction("twice", "none")',
}
STATEMENTS = (
    "CREATE TABLE made_by_file (id INT)",
    "INSERT INTO kept VALUES (1)",
    "DROP TABLE kept",
    "SET spark.sql.ansi.enabled = false",
    "USE default",
    "CREATE TEMPORARY VIEW others AS SELECT 1",
)

# No dependency of ours; a stand-in has its classes, and says which of their methods were called.
DELTA = """
called = []


def noting(name):
    return lambda *arguments, **options: called.append(name)


class DeltaMergeBuilder:
    execute = noting("merge")

    def whenMatchedDelete(self):
        return self


class DeltaOptimizeBuilder:
    executeCompaction = noting("optimize")
    executeZOrderBy = noting("order")


class DeltaTableBuilder:
    execute = noting("create")


class DeltaTable:
    clone = noting("clone")
    delete = noting("delete")
    restoreToVersion = noting("restore")
    update = noting("update")
    vacuum = noting("vacuum")
    upgradeTableProtocol = noting("upgrade")

    @classmethod
    def forPath(cls, session, path):
        return cls()

    @classmethod
    def convertToDelta(cls, session, identifier):
        called.append("convert")

    @classmethod
    def create(cls, session):
        return DeltaTableBuilder()

    def merge(self, source, condition):
        return DeltaMergeBuilder()

    def optimize(self):
        return DeltaOptimizeBuilder()

    def detail(self):
        called.append("detail")
"""
DELTA_WRITES = {
    "DeltaTable.clone": 't.clone("/tmp/nowhere")',
    "DeltaTable.convertToDelta": 'DeltaTable.convertToDelta(spark, "parquet.`/tmp/nowhere`")',
    "DeltaTable.delete": 't.delete("id = 1")',
    "DeltaTable.restoreToVersion": "t.restoreToVersion(0)",
    "DeltaTable.update": 't.update(set={"id": "1"})',
    "DeltaTable.vacuum": "t.vacuum()",
    "DeltaTable.upgradeTableProtocol": "t.upgradeTableProtocol(1, 3)",
    "DeltaMergeBuilder.execute": 't.merge(spark.range(1), "true").whenMatchedDelete().execute()',
    "DeltaTableBuilder.execute": "DeltaTable.create(spark).execute()",
    "DeltaOptimizeBuilder.executeCompaction": "t.optimize().executeCompaction()",
    "DeltaOptimizeBuilder.executeZOrderBy": 't.optimize().executeZOrderBy("id")',
}


@pytest.fixture
def delta_tables(monkeypatch):
    """``delta.tables``, which notes what was called."""
    package, tables = ModuleType("delta"), ModuleType("delta.tables")
    exec(DELTA, vars(tables))
    package.tables = tables
    monkeypatch.setitem(sys.modules, "delta", package)
    monkeypatch.setitem(sys.modules, "delta.tables", tables)
    return tables


@pytest.fixture
def kept(headrace_session):
    """A table of somebody else, in the schema of the project: the current one may be that of an earlier test."""
    headrace_session.range(2).write.saveAsTable("default.kept")
    yield lambda: headrace_session.table("default.kept").count()
    headrace_session.sql("DROP TABLE IF EXISTS default.kept")


def problems(pipeline):
    with pytest.raises(Problems) as found:
        pipeline.project.validate()
    return list(found.value)


def test_files_cannot_write_or_change_the_session_when_they_are_loaded(project, headrace_session, kept, tmp_path):
    pipeline = project("@dp.materialized_view\ndef one():\n    return spark.range(1)\n")
    cases = [*CHANGES.values(), *WRITES.values(), *(f"spark.sql({text!r})" for text in STATEMENTS)]
    for number, text in enumerate(cases):
        pipeline.write(f"transformations/f{number:02}.py", text.replace("PLACE", repr(str(tmp_path / "made"))) + "\n")

    found = problems(pipeline)

    changed = [p.params["what"] for p in found if p.code == "FILE.SESSION_CHANGED"]
    assert changed == [*CHANGES, *WRITES]
    assert [p.code for p in found if p.code != "FILE.SESSION_CHANGED"] == ["FILE.SQL_NOT_QUERY"] * len(STATEMENTS)
    assert all(p.location.file.startswith("transformations/f") for p in found)
    assert kept() == 2
    assert not (tmp_path / "made").exists()
    assert not headrace_session.catalog.tableExists("made_by_file")
    assert headrace_session.conf.get("spark.sql.session.timeZone") == "UTC"


def test_query_functions_cannot_change_the_session_when_they_are_called(project):
    cases = {**CHANGES, **FUNCTIONS}
    functions = "\n".join(
        f"@dp.materialized_view\ndef v{number:02}():\n    {text}\n    return spark.range(1)\n"
        for number, text in enumerate(cases.values())
    )

    found = problems(project(functions))

    assert {(p.code, p.params["what"], p.params["code"]) for p in found} == {
        ("FILE.SESSION_CHANGED", what, "a query function") for what in cases
    }


def test_files_and_query_functions_cannot_write_with_the_delta_table_api(project, delta_tables):
    head = 'from delta.tables import DeltaTable\n\nt = DeltaTable.forPath(spark, "/tmp/nowhere")\nt.detail()\n'
    cases = list(DELTA_WRITES.values())
    functions = "\n".join(
        f"@dp.materialized_view\ndef v{number:02}():\n    {text}\n    return spark.range(1)\n"
        for number, text in enumerate(cases)
    )

    in_queries = problems(project(head + functions))
    pipeline = project("@dp.materialized_view\ndef one():\n    return spark.range(1)\n")
    for number, text in enumerate(cases):
        pipeline.write(f"transformations/f{number:02}.py", f"{head}{text}\n")
    in_files = problems(pipeline)

    assert {(p.params["what"], p.params["code"]) for p in in_queries} == {(w, "a query function") for w in DELTA_WRITES}
    assert [p.params["what"] for p in in_files] == list(DELTA_WRITES)
    assert set(delta_tables.called) == {"detail"}


def test_udfs_of_files_are_available_to_all_queries_and_removed_with_the_project(project, headrace_session):
    twice = 'spark.udf.register("doubled", lambda n: 2 * n, "int")\n'
    query = (
        "@dp.materialized_view\ndef t():\n    return spark.sql('SELECT doubled(id) AS n FROM {n}', n=spark.range(2))\n"
    )
    pipeline = project(twice + query)

    result = pipeline.run()
    pipeline.write("transformations/other.py", twice)
    again = problems(pipeline)
    project("@dp.materialized_view\ndef one():\n    return spark.range(1)\n").project.validate()

    assert sorted(row["n"] for row in result.rows("t")) == [0, 2]
    assert [p.code for p in again] == ["FILE.FUNCTION_TWICE"]
    assert not headrace_session.catalog.functionExists("doubled")


def test_tables_and_views_replaced_by_the_user_are_kept_when_the_next_project_runs(project, headrace_session):
    view = "@dp.temporary_view\ndef seen():\n    return spark.range(1)\n"
    result = project(f"{view}@dp.materialized_view\ndef soon():\n    return spark.table('seen')\n").run()
    headrace_session.sql("DROP TABLE soon")
    headrace_session.range(3).write.saveAsTable("soon")
    headrace_session.range(4).createOrReplaceTempView("flows")
    headrace_session.range(5).createOrReplaceTempView("seen")

    project("@dp.materialized_view\ndef one():\n    return spark.range(1)\n").run()

    try:
        assert result.state is UpdateState.COMPLETED
        assert headrace_session.table("soon").count() == 3
        assert headrace_session.table("flows").count() == 4
        assert headrace_session.table("seen").count() == 5
    finally:
        headrace_session.sql("DROP TABLE IF EXISTS soon")
        headrace_session.catalog.dropTempView("flows")
        headrace_session.catalog.dropTempView("seen")
