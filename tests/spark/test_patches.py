"""What is patched in PySpark takes effect inside of query functions, and nowhere else (docs/reference/patches.md)."""

from __future__ import annotations

import pytest
from pyspark.errors import AnalysisException

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


def test_every_spelling_of_a_name_is_read_when_a_query_function_is_called(make_project):
    head = "from headrace import pipelines as dp\n\n@dp.materialized_view\ndef orders():\n    return spark.range(3)"
    text = f"{head}.withColumnRenamed('id', 'n')\n\n{''.join(readers())}"
    pipeline = make_project({"transformations/a.py": text}, {"catalog": "main", "schema": "shop"})

    graph = pipeline.project.validate().to_json()

    inputs = [flow["inputs"] for flow in graph["flows"] if flow["name"] != "orders"]
    assert len(inputs) == len(SPELLINGS) * len(READS)
    assert all(read == ["orders"] for read in inputs)


def test_spark_is_as_it_was_when_no_query_function_is_called(headrace_session):
    assert headrace_session.range(3).count() == 3
    with pytest.raises(AnalysisException):
        headrace_session.table("LIVE.orders")
