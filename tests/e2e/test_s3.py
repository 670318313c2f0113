"""A pipeline over a bucket, run by the command line as its user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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


def headrace(project: Path, *words: str) -> str:
    program = Path(sys.executable).with_name("headrace")
    done = subprocess.run([program, *words], cwd=project, capture_output=True, encoding="utf-8", check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_objects_of_a_bucket_become_rows_once(tmp_path, bucket):
    (tmp_path / "transformations").mkdir()
    (tmp_path / "pipeline.yml").write_text("name: shop\n")
    (tmp_path / "transformations" / "flows.py").write_text(FLOW.format(bucket=bucket.name))
    bucket.put_object(Key="in/day=2026-01-01/a.json", Body=b'{"id": 1}\n{"id": 2}\n')
    first = json.loads(headrace(tmp_path, "run", "--output", "json"))
    bucket.put_object(Key="in/day=2026-01-02/b.json", Body=b'{"id": 3}\n')

    headrace(tmp_path, "run")
    idle = json.loads(headrace(tmp_path, "run", "--output", "json"))
    rows = headrace(tmp_path, "sql", "select id, cast(day as string), file_path from bronze", "--output", "json")

    assert [document["flows"][0]["state"] for document in (first, idle)] == ["COMPLETED", "UP_TO_DATE"]
    assert sorted(tuple(row.values()) for row in json.loads(rows)) == [
        (1, "2026-01-01", f"s3://{bucket.name}/in/day=2026-01-01/a.json"),
        (2, "2026-01-01", f"s3://{bucket.name}/in/day=2026-01-01/a.json"),
        (3, "2026-01-02", f"s3://{bucket.name}/in/day=2026-01-02/b.json"),
    ]
