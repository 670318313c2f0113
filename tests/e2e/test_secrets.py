"""No secret comes out anywhere: not in process lists, files, logs, events, traces, errors or what is printed."""

from __future__ import annotations

import json
import os
import time

import pytest
from tests import secrets_canary as canary
from tests.command_line import in_own_process
from tests.servers.receiver import running_receiver

from headrace.connectors.fetch import cache_folder
from headrace.testing.driver import write_project

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.long(
        guard="tests/spark/test_secrets.py::test_no_secret_is_revealed_when_flows_fail_with_errors_that_contain_secrets"
    ),
]


def test_no_process_leaks_a_secret(tmp_path) -> None:
    project, scratch = tmp_path / "project", tmp_path / "tmp"
    scratch.mkdir()
    environ = {**canary.ENVIRON, "TMPDIR": str(scratch), "_JAVA_OPTIONS": f"-Djava.io.tmpdir={scratch}"}
    began = time.time()
    with running_receiver() as server, canary.CommandLines() as lines:
        server.echoes, server.answer = True, lambda _request, _number: 401
        code = "from headrace import pipelines as dp\nfrom pyspark.sql import functions as F\n"
        code += canary.CODE.format(url=server.url, landing=project / "landing") + canary.KAFKA
        files = {"transformations/p.py": code, "landing/0.json": canary.ROWS}
        write_project(project, files, {**canary.SETTINGS, "connectors": ["kafka"]})
        # The second time there is a storage, in which Spark's log is.
        done = [in_own_process(project, "--output", "json", "run", environ=environ) for _ in range(2)]
        looks = ("-v plan", "--output json plan", "graph", "status", "--output json events", "explain signed")
        done += [in_own_process(project, *words.split(), environ=environ) for words in looks]

    states = {flow["flow"]: flow["state"] for flow in json.loads(done[1].stdout)["flows"]}
    assert states == dict.fromkeys(("signed", "planned", "post", "store", "topic"), "FAILED") | {
        "landing": "UP_TO_DATE"
    }
    assert "[REDACTED]" in (project / "storage/system/logs/spark.log").read_text()
    assert [run for run in done if canary.MARK in run.stdout + run.stderr] == []
    assert (lines.looks > 100, lines.shown) == (True, set())
    assert canary.files_that_show([project, scratch]) == set()
    assert canary.files_that_show([cache_folder(os.environ)], since=began) == set()
