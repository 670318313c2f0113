"""What comes next for a project, and which tools are off."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.mcp.availability import WRITE_TOOLS, ServerAccess, ServerFacts, unavailable_tools
from headrace.mcp.workflow import ProjectFacts, workflow

CRITERION = {"criterion": "lag", "status": "pass", "evidence": "e"}
NEW = ProjectFacts(has_settings=True, has_code=True)


def ran(update: str, findings: int | None = None, unmet: int | None = None) -> ProjectFacts:
    """A project whose last update ended in a state."""
    return replace(NEW, has_requirements=True, update=update, findings=findings, unmet_criteria=unmet)


STATES = [
    (ProjectFacts(), "requirements"),
    (ProjectFacts(has_requirements=True), "design"),
    (ProjectFacts(has_settings=True), "requirements"),
    (NEW, "lint"),
    (ran("RUNNING"), "investigate"),
    (ran("FAILED", 0, 0), "investigate"),
    (ran("LOST", 0, 0), "investigate"),
    (ran("COMPLETED", 2, 0), "investigate"),
    (ran("COMPLETED", 0, 1), "check"),
    (ran("COMPLETED", 0, None), "check"),
    (ran("COMPLETED", 0, 0), "operate"),
]


@pytest.mark.parametrize(
    ("facts", "following"), STATES, ids=[f"{number}-{name}" for number, (_, name) in enumerate(STATES)]
)
def test_the_next_step_is_the_first_that_is_not_done(facts: ProjectFacts, following: str) -> None:
    steps = workflow(facts, ["lint", "doctor"])

    names = [step.step for step in steps]
    position = names.index(following)
    assert steps[position].state == "next"
    assert {step.state for step in steps[:position]} <= {"done"}
    assert "next" not in {step.state for step in steps[position + 1 :]}


def test_a_step_names_its_tool_only_if_the_server_has_it() -> None:
    tools = {step.step: step.tool for step in workflow(NEW, ["lint"])}

    assert (tools["lint"], tools["run"]) == ("lint", None)


def test_facts_of_a_project_come_from_its_files_and_verbs(assistant: Any, tmp_path: Path) -> None:
    assistant.folder = tmp_path
    empty = assistant.value("get_workflow")
    (tmp_path / "pipeline.yml").write_text("name: orders\n", encoding="utf-8")
    (tmp_path / "transformations").mkdir()
    (tmp_path / "transformations" / "a.py").write_text(
        "raise SystemExit('code of the project ran')\n", encoding="utf-8"
    )
    assistant.verbs.documents |= {
        "status": {"state": "COMPLETED", "flows": []},
        "doctor": {"findings": [{"check": "c", "severity": "advice", "evidence": "e", "remedy": "r"}], "next": None},
        "check": {"criteria": [CRITERION, {**CRITERION, "status": "unknown"}]},
    }

    ready = assistant.value("get_workflow")

    assert (empty["next"], ready["next"]) == ("requirements", "check")


def off(project: ProjectFacts, **server: Any) -> dict[str, str]:
    tools = ["get_document", "design", "lint", "status", "events", "sql", "run"]
    access = ServerAccess(server.pop("allow_write", True))
    facts = ServerFacts(tools, access, **{"client_can_ask": True, **server})
    return {tool.tool: tool.turn_on for tool in unavailable_tools(project, facts)}


def test_a_tool_is_off_with_the_first_reason_that_applies() -> None:
    running = ran("COMPLETED")

    assert off(running) == {}
    assert set(off(ProjectFacts())) == {"status", "events", "sql", "run"}
    assert set(off(NEW)) == {"events"}
    assert set(off(running, java_problem="there is no java")) == {"sql", "run"}
    read_only, unable = off(running, allow_write=False), off(running, client_can_ask=False)
    assert (set(read_only), set(unable)) == (set(WRITE_TOOLS), set(WRITE_TOOLS))
    assert "--allow-write" in read_only["run"]
    assert "elicitation" in unable["run"]


def test_the_tool_about_unavailable_tools_knows_the_client_and_the_machine(assistant: Any, tmp_path: Path) -> None:
    assistant.folder, assistant.environ = tmp_path, {"JAVA_HOME": str(tmp_path)}

    found = {one["tool"]: one for one in assistant.value("explain_unavailable_tools", allow_write=True)["tools"]}

    assert "cannot ask you" in found["run"]["reason"]
    assert "pipeline.yml" in found["sql"]["reason"]


def test_a_tool_of_a_missing_java_says_what_is_wrong_with_it(assistant: Any, tmp_path: Path) -> None:
    (tmp_path / "pipeline.yml").write_text("name: orders\n", encoding="utf-8")
    assistant.folder, assistant.environ = tmp_path, {"JAVA_HOME": str(tmp_path)}

    found = {one["tool"]: one for one in assistant.value("explain_unavailable_tools")["tools"]}

    assert "JAVA_HOME" in found["sql"]["reason"]
