"""What a script's text says before it runs."""

from __future__ import annotations

import ast
import textwrap

from headrace.scripts.literals import literals_of


def said(text, folder):
    return literals_of([ast.parse(textwrap.dedent(text))], folder)


def test_required_connectors_are_found_from_formats_and_imports(tmp_path):
    text = """
        from pyspark.sql.avro.functions import from_avro
        spark.readStream.format("eventhubs").load()
        spark.read.load("x", format="delta")
        """

    assert said(text, tmp_path).connectors == {"kafka", "avro"}


def test_settings_are_read_from_literals_and_the_last_value_wins(tmp_path):
    text = """
        spark = (SparkSession.builder.master("local[2]").config("spark.executor.memory", "2g")
                 .config("spark.a", 1).config("spark.b", True).config(key="spark.c", value="x").getOrCreate())
        spark.conf.set("spark.executor.memory", "8g")
        spark.conf.set("spark.computed", 2 * 3)
        seen.set("other", "value")
        """

    assert said(text, tmp_path).confs == {
        "spark.master": "local[2]",
        "spark.executor.memory": "8g",
        "spark.a": "1",
        "spark.b": "true",
        "spark.c": "x",
    }


def test_local_modules_and_pipeline_imports_are_detected(tmp_path):
    (tmp_path / "mine.py").touch()

    assert said("import mine.part", tmp_path).local_modules
    assert not said("import os", tmp_path).local_modules
    assert said("\nfrom pyspark import pipelines as dp", tmp_path).pipeline_line == 2
