"""No secret comes out of an update, whatever its flows fail with; the rest is in tests/e2e/test_secrets.py."""

from __future__ import annotations

import json

import pytest
from tests import secrets_canary as canary
from tests.command_line import in_process
from tests.servers.receiver import running_receiver

pytestmark = pytest.mark.spark


def test_no_secret_is_revealed_when_flows_fail_with_errors_that_contain_secrets(project, monkeypatch, tmp_path) -> None:
    for name, value in canary.ENVIRON.items():
        monkeypatch.setenv(name, value)
    with running_receiver() as server:
        server.echoes, server.answer = True, lambda _request, _number: 401
        (tmp_path / "0.json").write_text(canary.ROWS)
        made = project(canary.CODE.format(url=server.url, landing=tmp_path / "*.json"), **canary.SETTINGS)
        run = in_process(made.folder, "--output", "json", "run")
        events = in_process(made.folder, "--output", "json", "events")

    assert "flows" in run.stdout, run.stdout + run.stderr
    failed = {flow["flow"] for flow in json.loads(run.stdout)["flows"] if flow["state"] == "FAILED"}
    assert failed == {"signed", "planned", "post", "store"}
    assert [text for text in (run.stdout, run.stderr, events.stdout, events.stderr) if canary.MARK in text] == []
    assert canary.files_that_show([made.folder]) == set()
