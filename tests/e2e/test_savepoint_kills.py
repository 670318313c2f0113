"""Processes that are killed while they create or restore a savepoint, on a disk and on S3.

`make campaign ARGS="--only savepoints"` kills 40 on each, so that each numbered step is hit at least twice.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.tiers import ASKED, examples

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.timeout(0),
    pytest.mark.long(
        guard="tests/spark/test_savepoints.py::test_an_interrupted_restore_is_finished_by_the_next_update"
    ),
]
TABLES = 3
# So many kills hit each step twice.
WHOLE = 40


def table(steps):
    """The steps, and how often each was hit."""
    lines = [f"{what:8} {number:4}  {name:24} {hits:5}" for what, number, name, hits in steps]
    return "\n".join([f"{'':8} {'step':>4}  {'':24} {'hits':>5}", *lines])


@pytest.mark.parametrize("storage", ["disk", "s3"])
def test_what_a_killed_process_leaves_is_repaired_by_the_next_one(storage, tmp_path, request, capsys):
    root = "storage" if storage == "disk" else f"{request.getfixturevalue('lake')}/shop"
    seed = request.config.getoption("--hypothesis-seed") or "31"
    script = Path(__file__).with_name("savepoint_kills.py")
    kills = examples(few=1, many=1)

    words = [sys.executable, script, tmp_path / "shop", root, seed, str(kills)]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", check=False)
    found = json.loads(done.stdout or "{}")

    assert found, done.stderr[-5000:]
    with capsys.disabled():
        sys.stdout.write(f"\n{kills} kills on {storage}, seed {seed}\n{table(found['steps'])}\n")
    assert found["faults"] == []
    hits = [hits for *_, hits in found["steps"]]
    assert sum(hits) == kills
    assert found["rows"] > TABLES
    if ASKED is not None and kills >= WHOLE:
        assert min(hits) >= 2
