"""A client of another process talks to the server over stdio, as editors do."""

from __future__ import annotations

import hashlib
import json
import os
import signal
import subprocess
from pathlib import Path

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters
from tests.command_line import PROGRAM, in_own_process

pytestmark = pytest.mark.e2e

CONTRACT = "tests/unit/mcp/test_tools.py::test_tools_and_their_schemas_are_what_clients_know"
LIFE = "tests/unit/mcp/test_end_of_input.py::test_sigterm_is_the_end_of_input"


def digest(folder: Path) -> dict[str, str]:
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(folder.rglob("*"))
        if file.is_file()
    }


@pytest.mark.long(guard=CONTRACT)
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_over_stdio_uses_a_project_and_changes_no_byte_of_it(tmp_path, mode):
    assert in_own_process(tmp_path, "init", "shop").returncode == 0
    project = tmp_path / "shop"
    # Code that prints does not disturb the protocol.
    code = project / "transformations" / "noise.py"
    code.write_text("print('{\"noise\": 1}')\n", encoding="utf-8")
    server = StdioServerParameters(command=str(PROGRAM), args=["mcp"], cwd=project, env=dict(os.environ))

    async def everything():
        async with Client(server, mode=mode) as client:
            calls = {"status": {}, "lint": {}, "explain": {"name": "LEASE.HELD"}, "validate": {}}
            tools = {tool.name for tool in (await client.list_tools()).tools}
            found = {name: await client.call_tool(name, words) for name, words in calls.items()}
            return tools, found, await client.call_tool("sql", {"query": "DROP TABLE orders"})

    before = digest(project)
    tools, found, refused = anyio.run(everything)

    assert {name: result.content for name, result in found.items() if result.is_error} == {}
    values = {name: result.structured_content for name, result in found.items()}
    assert (values["status"]["has_update"], values["explain"]["code"]) == (False, "LEASE.HELD")
    assert "orders" in {dataset["name"] for dataset in values["validate"]["datasets"]}
    assert json.loads(refused.content[0].text)["error"]["code"] == "SQL.NOT_READ_ONLY"
    assert "run" not in tools
    assert digest(project) == before


@pytest.mark.long(guard=LIFE)
@pytest.mark.parametrize("ends", ["input", "signal"])
def test_the_server_ends_with_its_client(tmp_path, ends):
    with subprocess.Popen(
        [PROGRAM, "mcp", "--only", "knowledge"],
        cwd=tmp_path,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as server:
        client = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
        request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": client}
        server.stdin.write(json.dumps(request).encode() + b"\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        if ends == "input":
            server.stdin.close()
        else:
            server.send_signal(signal.SIGTERM)
        code = server.wait(timeout=60)

    assert (answer["result"]["serverInfo"]["name"], code) == ("data-knowledge-base", 0 if ends == "input" else 130)
