"""Assistants reach the tools of a pipeline over HTTP, with what their token may do."""

from __future__ import annotations

import json
from typing import Any

import anyio
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import ElicitResult
from tests.unit.mcp.conftest import FakeVerbs
from tests.unit.serve.conftest import HOST

from headrace.errors import PipelineError
from headrace.events.reader import EventReader
from headrace.mcp import remote
from headrace.mcp.remote import check_remote
from headrace.serve.roles import Role

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}
ACCEPT = {"accept": "application/json, text/event-stream", "content_type": "application/json"}
VIEWERS = {"get_document", "search_documents", "status", "doctor", "check", "get_workflow", "explain_unavailable_tools"}
WRITES = {"run", "backfill", "quarantine_replay", "checkpoints_repair"}


@pytest.fixture
def verbs(monkeypatch):
    fake = FakeVerbs()
    monkeypatch.setattr(remote, "VerbProcesses", lambda _project, _environ: fake)
    return fake


async def with_client(browser, token, use, *, mode="auto", answer=None):
    """What an assistant gets that calls the application in this process."""
    asked = []

    async def ask(_context, params):
        asked.append(params.message)
        return answer

    transport = httpx2.ASGITransport(browser.app)
    headers = {"authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(transport=transport, headers=headers, timeout=60) as http:
        stream = streamable_http_client(f"http://{HOST}/mcp", http_client=http)
        async with Client(stream, mode=mode, elicitation_callback=ask if answer else None) as client:
            return await use(client), asked


def used(browser, token, use, **options) -> Any:
    return anyio.run(lambda: with_client(browser, token, use, **options))


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_tools_follow_the_role_of_the_token(busy_shop, served, verbs, mode):
    browser = served(busy_shop)
    now = busy_shop.clock.seconds()

    async def names(client):
        return {tool.name for tool in (await client.list_tools()).tools}

    found = {
        role: used(browser, browser.tokens.add(f"a-{role.value}", role, now), names, mode=mode)[0]
        for role in (Role.VIEWER, Role.OPERATOR)
    }

    assert found[Role.VIEWER] == VIEWERS
    assert found[Role.OPERATOR] > VIEWERS | WRITES | {"sql", "preview", "events"}
    assert "write_design" not in found[Role.OPERATOR]


def test_a_viewer_that_calls_what_it_may_not_gets_no_verb(busy_shop, served, verbs):
    browser = served(busy_shop)
    token = browser.tokens.add("eve", Role.VIEWER, busy_shop.clock.seconds())

    async def use(client):
        status = await client.call_tool("status", {})
        unavailable = await client.call_tool("explain_unavailable_tools", {})
        for tool in WRITES | {"sql", "preview"}:
            assert (await client.call_tool(tool, {})).is_error
        return status, unavailable

    (status, unavailable), _ = used(browser, token, use)

    assert not status.is_error
    found = {one["tool"]: one["turn_on"] for one in unavailable.structured_content["tools"]}
    assert "headrace tokens create" in found["run"]
    assert all(call[0] in ("status", "doctor", "check") for call in verbs.calls)


def test_a_tool_that_writes_asks_and_is_recorded_with_who_called_it(busy_shop, served, verbs):
    browser = served(busy_shop)
    token = browser.tokens.add("ann", Role.OPERATOR, busy_shop.clock.seconds())

    async def use(client):
        return await client.call_tool("run", {"refresh": ["orders"]})

    yes = ElicitResult(action="accept", content={"proceed": True})
    result, asked = used(browser, token, use, answer=yes)
    refused, _ = used(browser, token, use)

    assert (result.is_error, "headrace run --refresh=orders" in asked[0]) == (False, True)
    # A client that cannot ask its user writes nothing.
    assert json.loads(refused.content[0].text)["error"]["code"] == "MCP.CANNOT_ASK"
    assert [call for call in verbs.calls if call[0] == "run"] == [["run", "--refresh=orders"]]
    messages = [row["message"] for row in EventReader(str(busy_shop.root / "storage/system/operations")).events()]
    assert [one for one in messages if one.startswith("ann asked for")] == ["ann asked for: run --refresh=orders"]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["quarantine", "replay", "--set=a=reflect('java.lang.Runtime')", "--", "orders"], "MCP.LOCAL_ONLY"),
        (["run", "--accept-data-loss"], "MCP.LOCAL_ONLY"),
        (["lint", "--", "/etc/passwd"], "MCP.OUTSIDE"),
        (["lint", "--", "../other/secrets.py"], "MCP.OUTSIDE"),
    ],
)
def test_what_is_for_a_terminal_is_refused(words, code):
    with pytest.raises(PipelineError) as caught:
        check_remote(words)

    assert caught.value.code == code


def test_values_that_look_like_options_are_values():
    check_remote(["run", "--refresh=--set"])
    check_remote(["explain", "--", "--set"])


def call(browser, document=INITIALIZE, path="/mcp", **headers):
    return browser.call(path, "POST", json.dumps(document).encode(), **{**ACCEPT, **headers})


def test_nobody_gets_in_without_a_token_or_from_a_page(busy_shop, served, verbs):
    browser = served(busy_shop).sign_in()
    bearer = {"authorization": f"Bearer {browser.token}"}

    with_cookie = call(browser, sec_fetch_site="same-origin")
    page = call(browser, origin="http://evil.example", **bearer)
    rebound = call(browser, host="evil.example:8741", **bearer)
    browser.cookie = ""
    stranger = call(browser, sec_fetch_site="same-origin")
    wrong = call(browser, authorization="Bearer hr_wrong")
    right = call(browser, **bearer)

    assert [one.status for one in (with_cookie, page, rebound, stranger, wrong)] == [401, 403, 421, 401, 401]
    assert (right.status, "mcp-session-id" in right.headers, b'"headrace"' in right.body) == (200, False, True)
    assert {browser.call("/mcp", method, **bearer).status for method in ("GET", "DELETE")} == {405}


def test_the_url_names_the_pipeline_if_there_are_several(busy_shop, shop, served, verbs):
    (shop.root / "pipeline.yml").write_text("name: other\n")
    browser = served(busy_shop, shop)
    bearer = {"authorization": f"Bearer {browser.token}"}

    short, named, unknown = (call(browser, path=path, **bearer) for path in ("/mcp", "/mcp/other", "/mcp/no"))

    assert (short.status, short.json["error"]["code"]) == (404, "API.WHICH_PIPELINE")
    assert (named.status, unknown.status) == (200, 404)


def test_a_server_that_only_reads_has_no_tools(busy_shop, served):
    browser = served(busy_shop, is_read_only=True)

    assert call(browser, authorization=f"Bearer {browser.token}").status == 404


def test_without_the_package_the_answer_names_what_to_install(busy_shop, served, monkeypatch):
    def missing(_name):
        raise ModuleNotFoundError(name="mcp")

    monkeypatch.setattr("headrace.serve.assistants.import_module", missing)
    browser = served(busy_shop)

    answer = call(browser, authorization=f"Bearer {browser.token}")

    assert (answer.status, answer.json["error"]["code"]) == (503, "MCP.NOT_INSTALLED")
