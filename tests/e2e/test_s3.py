"""A pipeline over a bucket, in a process whose Python workers find the bucket by the environment alone."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytestmark = pytest.mark.e2e

FLOW = """
from headrace import pipelines as dp


@dp.table
def bronze():
    return (
        spark.readStream.format("cloudFiles")
        .option("cloudFiles.format", "json")
        .option("cloudFiles.inferColumnTypes", "true")
        .load("s3://{bucket}/in")
        .select("*", "_metadata.file_path")
    )
"""


# Three updates; an object comes between the first and the second.
PROGRAM = """
import json
import boto3
from headrace import Project

bucket = boto3.resource("s3").Bucket({bucket!r})
project = Project.open(".")
bucket.put_object(Key="in/day=2026-01-01/a.json", Body=b'{{"id": 1}}\\n{{"id": 2}}\\n')
outcomes = [project.run()]
bucket.put_object(Key="in/day=2026-01-02/b.json", Body=b'{{"id": 3}}\\n')
outcomes += [project.run(), project.run()]
rows = project.sql("select id, cast(day as string), file_path from bronze").rows
print(json.dumps([[outcome.flows[0].state.value for outcome in outcomes], sorted(rows)]))
"""


@pytest.mark.long(
    guard=(
        "tests/unit/autoloader/test_stores.py::test_each_object_is_read_once_including_new_objects",
        "tests/spark/test_auto_loader.py::test_files_are_ingested_once_and_a_flow_without_new_files_is_up_to_date",
    )
)
def test_objects_in_a_bucket_are_ingested_once(tmp_path, bucket):
    (tmp_path / "transformations").mkdir()
    (tmp_path / "pipeline.yml").write_text("name: shop\n")
    (tmp_path / "transformations" / "flows.py").write_text(FLOW.format(bucket=bucket.name))
    program = [sys.executable, "-c", PROGRAM.format(bucket=bucket.name)]

    done = subprocess.run(program, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False)

    assert done.returncode == 0, done.stderr
    states, rows = json.loads(done.stdout.splitlines()[-1])
    assert states == ["COMPLETED", "COMPLETED", "UP_TO_DATE"]
    assert rows == [
        [1, "2026-01-01", f"s3://{bucket.name}/in/day=2026-01-01/a.json"],
        [2, "2026-01-01", f"s3://{bucket.name}/in/day=2026-01-01/a.json"],
        [3, "2026-01-02", f"s3://{bucket.name}/in/day=2026-01-02/b.json"],
    ]
