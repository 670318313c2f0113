"""What is patched in PySpark takes effect inside of query functions, and nowhere else (docs/reference/patches.md)."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import functions as F

from headrace.errors import Problems

pytestmark = pytest.mark.spark

SPELLINGS = ["orders", "LIVE.orders", "shop.orders", "main.shop.orders", "`main`.`shop`.`orders`"]
READS = [
    'spark.table("{}")',
    'spark.read.table("{}")',
    'spark.sql("SELECT * FROM {}")',
    'spark.readStream.table("{}").where("n > 0")',
    'spark.sql("SELECT * FROM STREAM({}) WHERE n > 0")',
]


def readers():
    for number, (spelling, read) in enumerate((spelling, read) for spelling in SPELLINGS for read in READS):
        yield f"@dp.table\ndef reader_{number}():\n    return {read.format(spelling)}\n\n"


def test_query_functions_can_read_a_dataset_by_every_form_of_its_name(make_project):
    head = "from headrace import pipelines as dp\n\n@dp.materialized_view\ndef orders():\n    return spark.range(3)"
    text = f"{head}.withColumnRenamed('id', 'n')\n\n{''.join(readers())}"
    pipeline = make_project({"transformations/a.py": text}, {"catalog": "main", "schema": "shop"})

    graph = pipeline.project.validate().to_json()

    inputs = [flow["inputs"] for flow in graph["flows"] if flow["name"] != "orders"]
    assert len(inputs) == len(SPELLINGS) * len(READS)
    assert all(read == ["orders"] for read in inputs)


def test_spark_is_unpatched_outside_of_query_functions(headrace_session):
    assert headrace_session.range(3).count() == 3
    with pytest.raises(AnalysisException):
        headrace_session.table("LIVE.orders")


NEED_DATA = {
    "approxQuantile": 'numbers.approxQuantile("id", [0.5], 0.0)',
    "checkpoint": "numbers.checkpoint()",
    "corr": 'numbers.stat.corr("id", "n")',
    "cov": 'numbers.cov("id", "n")',
    "crosstab": 'numbers.crosstab("id", "n")',
    "localCheckpoint": "numbers.localCheckpoint()",
    "mergeInto": 'numbers.mergeInto("t", numbers.id == 1)',
    "pivot without values": 'numbers.groupBy("id").pivot("n").count()',
    "rdd": "numbers.rdd.map(lambda row: row).toDF()",
    "transpose": "numbers.transpose()",
    "writeTo": 'numbers.writeTo("t")',
}
STATEMENTS = [
    "DROP TABLE orders",
    "INSERT INTO orders VALUES (1)",
    "DELETE FROM orders",
    "CREATE SCHEMA made",
    "SET spark.sql.ansi.enabled = false",
]
BY_PATH = [
    'spark.read.format("delta").option("path", PLACE).load()',
    'spark.read.format("delta").options(path=PLACE).load()',
    'spark.read.format("delta").load(path=PLACE)',
    'spark.read.parquet("/elsewhere", PLACE)',
    "spark.read.orc([PLACE])",
    'spark.read.table(f"delta.`{PLACE}`")',
    'spark.readStream.format("delta").option("Path", PLACE).load()',
    'spark.readStream.schema("id INT").json(PLACE)',
]
SHOP = """
    @dp.materialized_view
    def orders():
        numbers = spark.range(3).withColumn("n", F.col("id"))
        return numbers.groupBy("id").pivot("n", [1, 2]).count()

"""


def told(project, *bodies):
    """The problems of a project whose query functions have these bodies: code, and what the error says it is about."""
    functions = "\n".join(
        f"    @dp.table\n    def t{number}():\n"
        f'        numbers = spark.range(3).withColumn("n", F.col("id"))\n        return {body}\n'
        for number, body in enumerate(bodies)
    )
    pipeline = project(SHOP + functions)
    file = pipeline.folder / "transformations" / "project.py"
    place = f"PLACE = {str(pipeline.folder / 'storage' / 'tables' / 'default' / 'orders')!r}\n"
    file.write_text(place + file.read_text(encoding="utf-8"), encoding="utf-8")
    with pytest.raises(Problems) as found:
        pipeline.project.validate()
    return list(found.value)


def test_validation_rejects_methods_that_need_data(project):
    problems = told(project, *NEED_DATA.values())

    assert [problem.code for problem in problems] == ["FLOW.ACTION"] * len(NEED_DATA)
    assert sorted(problem.params["action"] for problem in problems) == sorted(NEED_DATA)


def test_validation_rejects_sql_statements_without_running_them(project, headrace_session):
    problems = told(project, *(f"spark.sql({statement!r})" for statement in STATEMENTS))

    assert [problem.code for problem in problems] == ["FLOW.SQL_NOT_QUERY"] * len(STATEMENTS)
    assert not headrace_session.catalog.databaseExists("made")


def test_validation_rejects_reads_of_the_pipelines_own_tables_by_path(project):
    problems = told(project, *BY_PATH)

    assert [problem.code for problem in problems] == ["GRAPH.OWN_TABLE_BY_PATH"] * len(BY_PATH)


def test_call_sites_of_expressions_are_recorded_for_user_code_only(headrace_session):
    def place(module):
        names = {"__name__": module, "F": F}
        exec("ratio = F.lit(1) / F.col('id')", names)
        return names["ratio"]._jc.node().origin().pysparkErrorContext().isDefined()

    assert headrace_session
    assert [place("flows"), place("headrace_like.flows"), place("headrace.expectations.compile")] == [True, True, False]
