"""Resources that clients attach, and prompts that users choose."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

PROMPTS = {
    "design_streaming_table": {"goal": "count orders"},
    "handle_late_events": {"table": "orders", "column": "at"},
    "investigate_flow": {"flow": "orders"},
    "plan_change": {"change": "add a column"},
    "practise": {},
}


def read(assistant: Any, uri: str, **options: bool) -> Any:
    return assistant.use(lambda client: client.read_resource(uri), **options).contents[0]


def error(assistant: Any, uri: str) -> str:
    async def failed(client: Any) -> str:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
        return str(caught.value)

    return assistant.use(failed)


def test_every_resource_is_listed_and_can_be_read(assistant: Any) -> None:
    assistant.verbs.texts["graph"] = 'flowchart LR\n  a["\u202eorders"]\n'
    assistant.verbs.documents["status"] = {"state": "COMPLETED"}

    async def everything(client: Any) -> Any:
        templates = [one.uri_template for one in (await client.list_resource_templates()).resource_templates]
        return [*templates, *(str(one.uri) for one in (await client.list_resources()).resources)]

    assert sorted(assistant.use(everything)) == [
        "headrace://errors/{code}",
        "headrace://knowledge/{category}/{name}",
        "headrace://lint/{rule}",
        "headrace://project/graph.mmd",
        "headrace://project/status",
    ]
    assert read(assistant, "headrace://knowledge/pipeline/streaming-tables").text.startswith("# Streaming tables\n\n")
    assert json.loads(read(assistant, "headrace://errors/LEASE.HELD").text)["code"] == "LEASE.HELD"
    assert json.loads(read(assistant, "headrace://lint/no-collect").text)["message"] == "m"
    assert read(assistant, "headrace://project/graph.mmd").text == 'flowchart LR\n  a["\\u202eorders"]\n'
    assert json.loads(read(assistant, "headrace://project/status").text) == {"state": "COMPLETED"}
    assert [" ".join(call) for call in assistant.verbs.calls] == [
        "explain -- LEASE.HELD",
        "explain -- no-collect",
        "graph --format=mermaid",
        "status",
    ]


@pytest.mark.parametrize(
    "uri",
    [
        "headrace://errors/orders",
        "headrace://lint/orders",
        "headrace://knowledge/a/..%2F..%2Fb",
        "headrace://knowledge/a/b",
    ],
)
def test_a_name_that_could_be_a_dataset_or_a_path_calls_no_verb(assistant: Any, uri: str) -> None:
    assert (bool(error(assistant, uri)), assistant.verbs.calls) == (True, [])


def test_a_resource_that_fails_says_why(assistant: Any) -> None:
    assistant.verbs.fail("status", "SETTINGS.NOT_FOUND", "there is no pipeline.yml")

    assert "SETTINGS.NOT_FOUND" in error(assistant, "headrace://project/status")


def test_the_knowledge_server_has_documents_only(assistant: Any) -> None:
    async def everything(client: Any) -> Any:
        templates, resources = await client.list_resource_templates(), await client.list_resources()
        return len(templates.resource_templates), resources.resources, (await client.list_prompts()).prompts

    assert assistant.use(everything, knowledge_only=True) == (1, [], [])


def test_every_prompt_names_existing_tools_and_its_arguments(assistant: Any) -> None:
    async def everything(client: Any) -> Any:
        tools = {tool.name for tool in (await client.list_tools()).tools}
        names = {prompt.name for prompt in (await client.list_prompts()).prompts}
        texts = [(await client.get_prompt(name, given)).messages[0].content.text for name, given in PROMPTS.items()]
        return tools, names, dict(zip(PROMPTS, texts, strict=True))

    tools, names, texts = assistant.use(everything)

    assert names == set(PROMPTS)
    assert [value for name, given in PROMPTS.items() for value in given.values() if value not in texts[name]] == []
    called = {
        word
        for text in texts.values()
        for word in re.findall(r"\b[Cc]all (\w+)|\b(\w+)\(", text)
        for word in word
        if word
    }
    assert called <= tools
