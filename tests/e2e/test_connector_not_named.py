"""A pipeline that uses what a connector brings, and does not name it, is told which line to add."""

from __future__ import annotations

import json

import pytest
from tests.command_line import in_own_process

pytestmark = pytest.mark.e2e

FILE = """\
from headrace import pipelines as dp
from pyspark.sql import functions as F
from pyspark.sql.avro.functions import from_avro


@dp.table
def read():
    return spark.readStream.format("kafka").load()


@dp.table
def hub():
    return spark.readStream.format("eventhubs").load()


@dp.materialized_view
def parsed():
    return spark.range(1).select(from_avro(F.lit(b""), '"long"').alias("id"))


@dp.materialized_view
def files():
    return spark.read.format("avro").load("/nowhere")
"""


@pytest.mark.long(
    guard="tests/unit/test_failures.py::test_a_format_of_a_missing_connector_is_reported_with_the_line_to_add"
)
def test_each_missing_connector_is_reported_with_the_line_to_add(tmp_path):
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "all.py").write_text(FILE)
    (tmp_path / "pipeline.yml").write_text("name: without")

    done = in_own_process(tmp_path, "--output", "json", "validate")
    problems = {problem["location"]["line"]: problem for problem in json.loads(done.stdout)["problems"]}

    assert done.returncode == 2
    assert {line: problem["code"] for line, problem in problems.items()} == dict.fromkeys(
        (8, 13, 18, 23), "CONNECTOR.NOT_NAMED"
    )
    assert "connectors: [kafka]" in problems[8]["hint"]
    assert "connectors: [avro]" in problems[18]["hint"]
