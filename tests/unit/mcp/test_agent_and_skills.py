"""The agent and the skills: valid for the editors, and true for this version."""

from __future__ import annotations

import inspect
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from headrace.assistant.knowledge.library import library
from headrace.cli.arguments import hoist_global_options
from headrace.cli.main import _app
from headrace.lint.lint_files import Selection, lint_text
from headrace.mcp import prompts, workflow
from headrace.mcp.install.package_files import (
    AGENT,
    SKILLS,
    agent_file,
    agent_skill,
    copilot_agent,
    cursor_rule,
    parts_of,
    skill_file,
)

TEXTS = {AGENT: agent_file(), **{name: skill_file(name) for name in SKILLS}}
CLAUDE_TOOLS = {"Read", "Grep", "Glob", "Edit", "Write", "Bash"}
MODELS = {"sonnet", "opus", "haiku", "inherit"}
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# Words that stand for a name of the user.
PLACEHOLDERS = {"FLOW": "f", "DATASET": "d", "TABLE": "t", "COLUMN": "c", "CATEGORY": "guides", "NAME": "triggers"}


def blocks(*languages: str) -> Iterator[tuple[str, str]]:
    for name, text in TEXTS.items():
        for language, code in BLOCK.findall(text):
            if language in languages:
                yield name, code


def commands() -> list[str]:
    """Every command line of Headrace, in blocks and within sentences."""
    found = [line for _, code in blocks("bash") for line in code.splitlines() if line.strip()]
    for text in TEXTS.values():
        found += re.findall(r"`(headrace [^`]+)`", text)
    return list(dict.fromkeys(found))


def test_the_agent_has_the_front_matter_that_editors_read() -> None:
    front, body = parts_of(agent_file())

    assert list(front) == ["name", "description", "tools", "model", "skills"]
    assert (front["name"], front["model"] in MODELS, set(front["skills"]) <= set(SKILLS)) == (AGENT, True, True)
    assert "mermaid-diagrams-skill" in front["skills"]
    assert 50 < len(front["description"]) <= 1_024
    assert body.startswith("You ")


@pytest.mark.parametrize("name", SKILLS)
def test_a_skill_follows_the_specification_of_skills(name: str) -> None:
    front, body = parts_of(skill_file(name))

    assert front["name"] == name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", name)
    assert 50 < len(front["description"]) <= 1_024
    assert len(body.splitlines()) < 500


def test_other_editors_get_the_same_agent_in_their_forms() -> None:
    forms = [parts_of(text) for text in (cursor_rule(), copilot_agent(), agent_skill())]

    assert [list(front) for front, _ in forms] == [
        ["description", "alwaysApply"],
        ["name", "description", "tools"],
        ["name", "description"],
    ]
    assert len({front["description"] for front, _ in forms}) == 1
    assert {"mcp__" in body for _, body in forms} == {False}


def test_the_tools_of_the_agent_are_those_that_read(assistant: Any) -> None:
    front, body = parts_of(agent_file())
    known = {f"mcp__headrace__{tool.name}" for tool in assistant.use(lambda client: client.list_tools()).tools}
    known |= {f"mcp__data-knowledge-base__{name}" for name in ("get_document", "search_documents")}

    assert set(front["tools"]) == CLAUDE_TOOLS | known
    assert set(re.findall(r"mcp__[\w-]+__\w+", body)) <= known


def test_every_tool_that_a_text_names_exists(assistant: Any) -> None:
    tools = {tool.name for tool in assistant.use(lambda client: client.list_tools(), allow_write=True).tools}

    called = {word for text in TEXTS.values() for word in re.findall(r"[Cc]all `(\w+)`", text)}
    assert called
    assert called <= tools


@pytest.mark.parametrize(("name", "code"), list(blocks("python", "sql")))
def test_every_program_is_without_findings(name: str, code: str) -> None:
    suffix = ".sql" if code.lstrip().startswith("CREATE") else ".py"

    found = lint_text(code, suffix, f"{name}{suffix}", selection=Selection(), in_project=True)

    assert ([finding.rule.id for finding in found.findings], found.problems) == ([], ())


@pytest.mark.parametrize("command", commands())
def test_every_command_can_be_parsed(command: str) -> None:
    program, *words = (PLACEHOLDERS.get(word, word) for word in shlex.split(command, comments=True))

    assert program == "headrace"
    parse(typer.main.get_command(_app()), hoist_global_options(words))


def test_every_document_that_is_named_exists() -> None:
    texts = "\n".join([*TEXTS.values(), inspect.getsource(prompts), inspect.getsource(workflow)])
    named = re.findall(r'get_document\("([a-z-]+)", "([a-z-]+)"\)', texts) + re.findall(
        r"docs get ([a-z-]+) ([a-z-]+)", texts
    )
    named += [tuple(path.split("/")) for path in re.findall(r'"((?:pipeline|guides|operations)/[a-z-]+)"', texts)]

    assert len(named) > 10
    assert {f"{category}/{name}" for category, name in named} <= {page.path for page in library().pages}


def parse(command: Any, words: list[str], parent: Any = None) -> None:
    """Parse the words of a command and of its groups, without running it."""
    context = command.make_context(command.name or "headrace", list(words), parent=parent)
    if hasattr(command, "resolve_command"):
        rest = [*context._protected_args, *context.args]
        _, found, rest = command.resolve_command(context, rest)
        parse(found, rest, context)


@pytest.mark.parametrize(("name", "text"), list(TEXTS.items()))
def test_a_text_has_no_link_that_leads_out_of_its_file(name: str, text: str) -> None:
    assert (name, re.findall(r"\]\((?!#)[^)]+\)", text)) == (name, [])
