"""The verb `headrace mcp`."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from headrace.cli.main import call


def test_the_tools_are_listed_as_text_and_as_json(capsys: Any) -> None:
    codes = [call(["mcp", "--list-tools", "--allow-write"]), call(["mcp", "--list-tools", "--output", "json"])]

    text, _, document = capsys.readouterr().out.rpartition("\n[")
    names = [tool["name"] for tool in json.loads(f"[{document}")]
    lines = [line.split() for line in text.splitlines()]
    assert codes == [0, 0]
    assert ["run", "writes"] in [line[:2] for line in lines]
    assert "get_workflow" in names
    assert "run" not in names


def test_a_missing_package_is_an_error_with_the_command_that_installs_it(
    capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "headrace.mcp.server", raising=False)
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)

    code = call(["mcp", "--list-tools", "--output", "json"])

    error = json.loads(capsys.readouterr().out)["error"]
    assert (code, error["code"]) == (2, "MCP.NOT_INSTALLED")
    assert 'pip install "headrace[mcp]"' in error["hint"]
