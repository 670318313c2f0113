"""Processes that are killed while they create or restore a savepoint."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys

import pytest
from tests.command_line import in_own_process
from tests.tiers import examples

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(0),
    pytest.mark.long(
        guard="tests/spark/test_savepoints.py::test_an_interrupted_restore_is_finished_by_the_next_update"
    ),
]
CODE = """\
from headrace import pipelines as dp
from pyspark.sql import functions as F


@dp.table
@dp.expect_or_quarantine("positive", "n > 0")
def bronze():
    return spark.readStream.format("cloudFiles").option("cloudFiles.format", "json") \\
        .schema("id LONG, n LONG").load("{landing}")


@dp.table
def totals():
    return spark.readStream.table("bronze").groupBy("id").agg(F.sum("n").alias("n"))


dp.create_streaming_table("current")
dp.create_auto_cdc_flow("current", "bronze", keys=["id"], sequence_by="n")
"""
TABLES = ("bronze", "totals", "current")
ALL_ROWS = " UNION ALL ".join(f"SELECT '{name}' AS name, to_json(struct(*)) AS row FROM {name}" for name in TABLES)
# Kills itself at a step, counted from 0; prints the number of steps if there are fewer.
KILLED = """
import os, signal, sys
from headrace.project.open import Project
from headrace.project.savepoints.create import SavepointRequest
from headrace.project.savepoints.savepoints import RestoreRequest

steps = []

def reached(step):
    if len(steps) == int(sys.argv[3]):
        os.kill(os.getpid(), signal.SIGKILL)
    steps.append(step)

savepoints = Project.open(sys.argv[1]).savepoints
if sys.argv[2] == "restore":
    savepoints.restore(RestoreRequest("calm"), reached)
else:
    savepoints.create(SavepointRequest(sys.argv[4]), reached)
print("steps", len(steps))
"""
NEVER = 10_000


@pytest.fixture
def shop(tmp_path):
    """A project with a savepoint and an update after it, and the rows of its tables."""
    (tmp_path / "transformations").mkdir()
    (tmp_path / "landing").mkdir()
    (tmp_path / "pipeline.yml").write_text("name: shop\n", encoding="utf-8")
    code = CODE.format(landing=tmp_path / "landing")
    (tmp_path / "transformations" / "shop.py").write_text(code, encoding="utf-8")
    land(tmp_path, 0)
    run(tmp_path, "run")
    run(tmp_path, "savepoint", "create", "calm")
    land(tmp_path, 1)
    run(tmp_path, "run")
    return tmp_path


def land(project, number):
    lines = [json.dumps({"id": key % 4, "n": key - 1}) for key in range(10 * number, 10 * number + 10)]
    (project / "landing" / f"{number}.json").write_text("\n".join(lines), encoding="utf-8")


def run(project, *words):
    done = in_own_process(project, *words)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def rows(project):
    return json.loads(run(project, "--output", "json", "sql", "--limit", "1000", f"{ALL_ROWS} ORDER BY name, row"))


def killed(project, *words):
    """The number of steps of a process that is killed at a step, or ends before it."""
    call = [sys.executable, "-c", KILLED, str(project), *map(str, words)]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode == -signal.SIGKILL:
        return None
    assert done.returncode == 0, done.stdout + done.stderr
    return int(done.stdout.split()[-1])


def places(steps, few, many):
    """Steps in a random order, again and again."""
    order = random.Random(7).sample(range(steps), steps)
    return [order[number % steps] for number in range(examples(few, many))]


def test_the_next_update_finishes_what_a_killed_restore_has_begun(shop):
    expected = rows(shop)
    steps = killed(shop, "restore", NEVER)
    run(shop, "run")
    assert rows(shop) == expected
    for place in places(steps, few=1, many=2):
        assert killed(shop, "restore", place) is None
        run(shop, "run")
        assert rows(shop) == expected, place


def test_a_killed_savepoint_is_not_there_and_the_next_one_is_whole(shop):
    steps = killed(shop, "create", NEVER, "whole")
    for number, place in enumerate(places(steps, few=2, many=6)):
        assert killed(shop, "create", place, f"torn-{number}") is None
        names = {one["name"] for one in json.loads(run(shop, "--output", "json", "savepoint", "list"))}
        assert f"torn-{number}" not in names
    run(shop, "savepoint", "create", "after")
    run(shop, "savepoint", "verify", "after")
    left = {path.name for path in (shop / "storage" / "savepoints").iterdir() if path.name.startswith(".")}
    assert left == set()
