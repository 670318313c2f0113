"""With which words and variables verbs run in the worker of the process that owns it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from headrace.worker.client import BUSY_VARIABLE, START_VARIABLE, run_warm
from headrace.worker.owned_workers import OwnedWorkers, OwnerOptions


def owner(**given) -> OwnedWorkers:
    return OwnedWorkers(OwnerOptions(0, **given), {"PATH": "/bin"}, lambda _line: None)


@pytest.mark.parametrize(
    ("words", "is_continuous", "expected", "variables"),
    [
        (["run", "--refresh=a"], False, ["run", "--wait", "--refresh=a"], {}),
        (["run", "--continuous"], False, ["run", "--cold", "--continuous"], {}),
        (["run"], True, ["run", "--cold"], {}),
        (["plan"], True, ["plan"], {BUSY_VARIABLE: "cold"}),
        (["plan", "--wait"], False, ["plan", "--wait"], {}),
        (["maintain", "--dry-run"], False, ["maintain", "--dry-run"], {}),
    ],
)
def test_updates_wait_for_the_worker_and_what_reads_does_not(words, is_continuous, expected, variables):
    found, environ = owner().prepared(Path("/shop"), words, is_continuous=is_continuous)

    assert (found, environ) == (expected, {"PATH": "/bin", **variables})


def test_without_workers_nothing_is_started_and_nothing_to_wait_for(tmp_path):
    workers = owner()

    assert not workers.wanted(tmp_path)
    assert START_VARIABLE not in workers.prepared(tmp_path, ["plan"])[1]
    workers.close()


def test_a_verb_waits_until_the_worker_listens_and_no_longer_than_it_is_told(tmp_path):
    (tmp_path / "pipeline.yml").write_text("name: shop\n")
    environ = {"HEADRACE_WORKER_DIR": str(tmp_path / "w"), START_VARIABLE: "0.1"}
    started = time.monotonic()

    answer = run_warm(["plan"], tmp_path, {**os.environ, **environ})

    assert (answer.code, answer.busy, answer.reason) == (None, None, "")
    assert time.monotonic() - started >= 0.1
