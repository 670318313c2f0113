"""Processes that are killed while they swap a stage in."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys

import pytest
from tests.command_line import in_process
from tests.tiers import examples

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(0),
    pytest.mark.long(
        guard="tests/spark/test_stages.py::test_a_swapped_dataset_goes_on_as_after_a_full_refresh_with_the_new_code"
    ),
]
CODE = """\
from headrace import pipelines as dp
from pyspark.sql import functions as F


@dp.table
@dp.expect_or_quarantine("positive", "n > {limit}")
def bronze():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json") \\
        .schema("id LONG, n LONG").load("{landing}")


@dp.table
def totals():
    return spark.readStream.table("bronze").groupBy("id").agg(F.sum("n").alias("n"))


@dp.table
def below():
    return spark.readStream.table("bronze").select("n")
"""
ROWS = """\
SELECT 'bronze' AS name, id, n FROM bronze UNION ALL SELECT 'totals', id, n FROM totals
UNION ALL SELECT 'below', 0, n FROM below ORDER BY 1, 2, 3
"""
# Kills itself at a step, counted from 0; prints the number of steps if there are fewer.
KILLED = """
import os, signal, sys
from headrace.project.open import Project
from headrace.project.staging.swaps import SwapRequest

steps = []

def reached(step):
    if len(steps) == int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
    steps.append(step)

Project.open(sys.argv[1]).stages.swaps.swap(SwapRequest("bronze"), reached)
print("steps", len(steps))
"""
NEVER = 10_000


@pytest.fixture
def shop(headrace_session, tmp_path):
    """A project whose code has changed since its only update."""
    (tmp_path / "transformations").mkdir()
    (tmp_path / "landing").mkdir()
    (tmp_path / "pipeline.yml").write_text("name: shop\n", encoding="utf-8")
    for limit in (0, 4):
        code = CODE.format(landing=tmp_path / "landing", limit=limit)
        (tmp_path / "transformations" / "shop.py").write_text(code, encoding="utf-8")
        if not limit:
            land(tmp_path, 0)
            run(tmp_path, "run")
    return tmp_path


def land(project, number):
    lines = [json.dumps({"id": key % 4, "n": key - 1}) for key in range(10 * number, 10 * number + 10)]
    (project / "landing" / f"{number}.json").write_text("\n".join(lines), encoding="utf-8")


def run(project, *words):
    done = in_process(project, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(project):
    return json.loads(run(project, "--output", "json", "sql", "--limit", "1000", ROWS))


def killed(project, place):
    """The number of steps of a swap that is killed at a step, or ends before it."""
    call = [sys.executable, "-c", KILLED, str(project), str(place)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode == -signal.SIGKILL:
        return None
    assert done.returncode == 0, done.stdout + done.stderr
    return int(done.stdout.split()[-1])


def test_the_next_update_finishes_what_a_killed_swap_has_begun(shop):
    run(shop, "stage", "create", "bronze", "totals")
    steps = killed(shop, NEVER)
    run(shop, "run")
    expected = rows(shop)
    # The stream that was not staged has the rows of the old code.
    assert [row["n"] for row in expected if row["name"] == "below"] == list(range(1, 9))
    assert [row["n"] for row in expected if row["name"] == "bronze"] == [7, 8, 5, 6]
    order = random.Random(11).sample(range(steps), steps)
    for place in order[: examples(few=1, many=1)]:
        run(shop, "stage", "create", "bronze", "totals")
        assert killed(shop, place) is None
        run(shop, "run")
        assert rows(shop) == expected, place
