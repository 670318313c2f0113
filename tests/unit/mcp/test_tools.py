"""The contract of the server: its tools with their schemas, what they call, and what they return."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from headrace.mcp.availability import WRITE_TOOLS
from headrace.mcp.verbs import VerbOutput

GOLDEN = Path(__file__).with_name("tools.json")
QUERIES = "SELECT * FROM system.streaming.queries"
PROGRESS = "SELECT * FROM system.streaming.query_progress"


def listed(assistant: Any, **options: bool) -> list[Any]:
    return assistant.use(lambda client: client.list_tools(), **options).tools


def test_tools_and_their_schemas_are_what_clients_know(assistant: Any) -> None:
    tools = [
        tool.model_dump(mode="json", by_alias=True, exclude_none=True) for tool in listed(assistant, allow_write=True)
    ]
    text = json.dumps(tools, indent=1, ensure_ascii=False) + "\n"
    if os.environ.get("HEADRACE_GOLDEN") == "rewrite":
        GOLDEN.write_text(text, encoding="utf-8")

    assert GOLDEN.read_text(encoding="utf-8") == text


def test_no_tool_can_write_when_writing_is_not_allowed(assistant: Any) -> None:
    tools = listed(assistant)

    assert [tool.name for tool in tools if not tool.annotations.read_only_hint] == []
    assert not {tool.name for tool in tools} & set(WRITE_TOOLS)


def test_tools_that_write_have_a_destructive_hint_when_they_are_allowed(assistant: Any) -> None:
    hints = {tool.name: tool.annotations for tool in listed(assistant, allow_write=True)}

    writing = {name for name, hint in hints.items() if not hint.read_only_hint}
    assert writing == set(WRITE_TOOLS)
    assert all(hints[name].destructive_hint for name in writing)


@pytest.mark.parametrize(
    ("category", "name"),
    [
        ("pipeline", "streaming-tables"),
        ("medallion-architecture", "layer-specifications"),
        ("medallion-architecture", "data-flows"),
        ("pipeline", "lakeflow-pipelines"),
    ],
)
def test_the_knowledge_server_has_the_name_and_the_tools_of_agent_files(
    assistant: Any, category: str, name: str
) -> None:
    server = assistant.server(knowledge_only=True)
    names = [tool.name for tool in listed(assistant, knowledge_only=True)]
    page = assistant.value("get_document", {"category": category, "name": name}, knowledge_only=True)

    assert (server.name, names) == ("data-knowledge-base", ["get_document", "search_documents"])
    assert (page["category"], page["name"], len(page["body"]) > 500) == (category, name, True)


def test_a_search_finds_pages_and_a_missing_page_is_an_error_with_the_nearest(assistant: Any) -> None:
    found = assistant.value("search_documents", {"query": "my stream is behind", "limit": 2})
    error = assistant.error("get_document", {"category": "pipeline", "name": "streaming"})

    assert [page["category"] for page in found["pages"]][:1] == ["troubleshooting"]
    assert len(found["pages"]) == 2
    assert (error["code"], "streaming-tables" in error["hint"]) == ("DOCS.UNKNOWN_PAGE", True)


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("lint", {"files": ["--fix"], "select": ["a-b"]}, "lint --select=a-b -- --fix"),
        ("validate", {}, "validate"),
        ("graph", {}, "graph"),
        ("plan", {"refresh": ["a"], "full_refresh": ["--x"]}, "plan --refresh=a --full-refresh=--x"),
        ("plan", {"exclude": ["tag:a"]}, "plan --exclude=tag:a"),
        ("plan", {"reset_checkpoint": ["a=latest"]}, "plan --reset-checkpoint=a=latest"),
        ("explain", {"name": "--profile"}, "explain -- --profile"),
        ("preview", {"dataset": "-v", "rows": 3}, "preview --rows=3 -- -v"),
        ("lateness", {"table": "t", "column": "--c"}, "lateness --commits=1000 --share=0.001 -- t --c"),
        ("sql", {"query": "--write", "limit": 5}, "sql --limit=6 -- --write"),
        (
            "events",
            {"level": ["WARN"], "flow": "--f", "event_type": "t"},
            "events --limit=51 --level=WARN --flow=--f --type=t",
        ),
        ("streaming_queries", {}, f"sql --limit=101 -- {QUERIES} ORDER BY last_progress_at DESC, id"),
        (
            "streaming_queries",
            {"flow": "a b", "status": "FAILED", "limit": 1},
            f"sql --limit=2 -- {QUERIES} WHERE name = 'a b' AND status = 'FAILED' ORDER BY last_progress_at DESC, id",
        ),
        (
            "query_progress",
            {"flow": "a"},
            f"sql --limit=101 -- {PROGRESS} WHERE query_name = 'a' ORDER BY timestamp DESC, batch_id DESC",
        ),
        ("status", {}, "status"),
        ("doctor", {"flow": "--x"}, "doctor -- --x"),
        ("check", {"strict": True}, "check --strict"),
        ("design_diff", {}, "design --diff --defaults -- ./requirements.yml"),
        (
            "design_diff",
            {"directory": "orders", "sample": "landing"},
            "design --diff --defaults --sample=landing -- orders/requirements.yml",
        ),
    ],
)  # fmt: skip
def test_a_tool_calls_one_verb_and_no_argument_becomes_an_option(
    assistant: Any, tool: str, arguments: Any, words: str
) -> None:
    assistant.value(tool, arguments)

    assert [" ".join(call) for call in assistant.verbs.calls] == [words]


@pytest.mark.parametrize("flow", ["a' OR '1'='1", "a\\", "a`b", 'a"b', "a\n", "x" * 256])
def test_a_name_that_could_end_a_text_in_a_query_is_refused(assistant: Any, flow: str) -> None:
    results = [assistant.call(tool, {"flow": flow}) for tool in ("streaming_queries", "query_progress")]

    assert ([result.is_error for result in results], assistant.verbs.calls) == ([True, True], [])


def test_rows_are_cut_at_the_limit_and_say_so(assistant: Any) -> None:
    cut = assistant.value("sql", {"query": "SELECT 1", "limit": 100})
    whole = assistant.value("sql", {"query": "SELECT 1", "limit": 200})

    assert (len(cut["rows"]), cut["row_count"], cut["truncated"]) == (100, 100, True)
    assert (len(whole["rows"]), whole["truncated"]) == (101, False)


def test_the_newest_events_are_kept_when_there_are_more_than_the_limit(assistant: Any) -> None:
    row = {"timestamp": "t", "level": "INFO", "event_type": "e"}
    assistant.verbs.documents["events"] = [{**row, "message": str(number)} for number in range(4)]

    found = assistant.value("events", {"limit": 3})

    assert ([event["message"] for event in found["events"]], found["truncated"]) == (["1", "2", "3"], True)


def test_status_has_one_flow_when_it_is_named_and_none_before_the_first_update(assistant: Any) -> None:
    before = assistant.value("status")
    flows = [
        {
            "flow": name,
            "dataset": name,
            "state": "COMPLETED",
            "rows_written": 1,
            "rows_dropped": 0,
            "rows_quarantined": 0,
        }
        for name in ("a", "b")
    ]
    assistant.verbs.documents["status"] = {"state": "COMPLETED", "flows": flows}

    after = assistant.value("status", {"flow": "b"})

    assert before == {"untrusted": [], "truncated": False, "has_update": False}
    assert (after["has_update"], [flow["flow"] for flow in after["flows"]]) == (True, ["b"])


def test_a_result_that_is_too_long_loses_the_end_of_its_longest_list(assistant: Any) -> None:
    assistant.verbs.documents["sql"] = [{"a": "x" * 3_000, "n": number} for number in range(200)]

    found = assistant.value("sql", {"query": "SELECT 1", "limit": 1_000})

    assert found["truncated"]
    assert len(json.dumps(found)) < 101_000
    assert [row["n"] for row in found["rows"]] == list(range(len(found["rows"])))


def test_an_error_of_a_verb_reaches_the_assistant_with_code_and_hint(assistant: Any) -> None:
    assistant.verbs.fail("validate", "GRAPH.CYCLE", "a and b depend on each other")

    error = assistant.error("validate")

    assert error == {
        "code": "GRAPH.CYCLE",
        "message": "a and b depend on each other",
        "detail": None,
        "hint": "do it",
        "location": None,
        "exit_code": 2,
    }


def test_a_sample_of_the_project_reaches_the_verb_and_another_one_is_refused(assistant: Any) -> None:
    assistant.value("design", {"requirements": "name: a\n", "sample": "events=landing/events"})
    errors = [
        assistant.error("design", {"requirements": "name: a\n", "sample": path})["code"]
        for path in ("../landing", "events=/etc", "file:///etc/passwd", "events=../b=c")
    ]

    called = [words for words in assistant.verbs.calls if any("--sample" in word for word in words)]
    assert {word for words in called for word in words if "--sample" in word} == {"--sample=events=landing/events"}
    assert errors == ["MCP.OUTSIDE"] * 4


@pytest.mark.parametrize(
    "answers", [{"lateness": {"measure_from": "../other"}}, {"sources": [{"name": "a", "sample": "/etc/passwd"}]}]
)
def test_paths_in_requirements_are_relative_to_the_project_and_stay_inside_of_it(assistant: Any, answers: Any) -> None:
    assistant.verbs.documents["design"] |= {"questions": [], "open": 0}
    inside = {"name": "a", "lateness": {"measure_from": "storage/tables/default/clicks"}}

    assistant.value("design", {"requirements": inside})
    assistant.value("design_questions", {"requirements": inside})
    refused = [
        assistant.error(tool, {"requirements": {"name": "a", **answers}})["code"]
        for tool in ("design", "design_questions")
    ]

    assert {call[1] for call in assistant.verbs.calls} == {"--relative-to=."}
    assert refused == ["MCP.OUTSIDE"] * 2


def test_a_difference_has_decisions_and_files_and_another_folder_is_refused(assistant: Any) -> None:
    files = [{"path": "runbook.md", "state": "edited", "meaning": "m", "diff": ""}]
    found = {"made_with": "0.1", "requirements_changed": False, "decisions": [], "files": files, "changes": 0}
    assistant.verbs.documents["design"] = VerbOutput(1, json.dumps(found))

    value = assistant.value("design_diff")
    refused = assistant.error("design_diff", {"directory": "../other"})

    assert (value["files"], value["untrusted"], refused["code"]) == (files, ["decisions", "files"], "MCP.OUTSIDE")


def test_requirements_reach_the_verb_as_a_file_that_is_removed(assistant: Any) -> None:
    seen = []

    def design(words: Any) -> Any:
        seen.append((Path(words[-1]), Path(words[-1]).read_text(encoding="utf-8")))
        return {"questions": [], "open": 0}

    assistant.verbs.documents["design"] = design

    assistant.value("design_questions", {"requirements": {"latency": "5 minutes"}})
    assistant.value("design_questions", {"requirements": "latency: 1 hour\n"})

    assert [text for _, text in seen] == ["latency: 5 minutes\n", "latency: 1 hour\n"]
    assert not any(file.exists() for file, _ in seen)
