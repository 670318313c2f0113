"""Calls of an assistant's tools, as documents show them in cells."""

from __future__ import annotations

import pytest

from headrace.errors import PipelineError
from headrace.project.loading import tool_calls
from headrace.project.loading.tool_calls import called, with_tool_calls

CALL = 'mcp__data-knowledge-base__get_document("pipeline", "streaming-tables")'


def ran(text):
    names = {tool_calls.NAME: lambda server, tool: lambda *given: (server, tool, *given)}
    exec(with_tool_calls(text), names)
    return names


def test_a_tool_call_with_hyphens_in_its_name_is_executed():
    names = ran(f"# first\nfound = {CALL}\ntwice = [{CALL}, {CALL}]\n")

    call = ("data-knowledge-base", "get_document", "pipeline", "streaming-tables")
    assert (names["found"], names["twice"]) == (call, [call, call])


@pytest.mark.parametrize(
    "text",
    [
        f"text = '{CALL}'\n",
        f"# {CALL}\n",
        "mcp__data = base__get = knowledge = 1\nn = mcp__data-knowledge-base__get\n",
        "n = a-b__c(1)\n",
        "mcp__plain__get_document('a', 'b')\n",
        "def (:\n",
        f'"""\n{CALL}\n"""\n',
    ],
)
def test_other_text_is_unchanged(text):
    assert with_tool_calls(text) == text


def test_get_document_returns_a_page_or_explains_why_there_is_none():
    get = called("data-knowledge-base", "get_document")

    assert get("pipeline", "streaming-tables").startswith("# Streaming tables\n")
    assert get("how-to", "backfill").startswith("# Backfill history\n")
    assert "does not exist" in get("a", "b")
    with pytest.raises(PipelineError) as raised:
        called("data-knowledge-base", "delete_document")
    assert raised.value.code == "SCRIPT.NO_TOOL"
