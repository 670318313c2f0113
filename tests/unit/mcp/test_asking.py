"""Tools that write show what they would do, and ask; requirements that are missing are asked for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from mcp_types import ElicitResult

YES = ElicitResult(action="accept", content={"proceed": True})
REFUSALS = {
    "no": ElicitResult(action="accept", content={"proceed": False}),
    "decline": ElicitResult(action="decline"),
    "cancel": ElicitResult(action="cancel"),
}
REQUIREMENTS = {"sources": [{"name": "events", "kind": "kafka"}]}
# What is shown before each tool writes.
RUN = """\
orders loses 7 rows
table orders: clear: full refresh
flow orders: run: it has new files

headrace run --full-refresh=orders --accept-data-loss"""
BACKFILL = """\
Backfill "orders": run its query as a batch over its input from version:3 to latest, and write the rows.
Flow "orders" has committed batch 4.

headrace backfill --from=version:3 --to=latest --again -- orders"""
REPAIR = """\
Repair the checkpoint of "orders": move damaged files away. The next update runs the batch again.
Flow "orders": file 3 is empty.

headrace checkpoints repair -- orders"""
DESIGN = "write new/pipeline.yml\n\nheadrace design requirements.yml --out new"
REPLAY = """\
Replay quarantined rows of "orders": check them again, and write those that pass.
orders: 3 quarantined rows, valid (3)

headrace quarantine replay --set=a=1 --release -- orders"""
WRITES: list[tuple[str, Any, str]] = [
    ("run", {"full_refresh": ["orders"], "accept_data_loss": True}, RUN),
    ("backfill", {"flow": "orders", "start": "version:3", "again": True}, BACKFILL),
    ("quarantine_replay", {"dataset": "orders", "changes": ["a=1"], "release": True}, REPLAY),
    ("checkpoints_repair", {"flow": "orders"}, REPAIR),
    ("write_design", {"requirements": REQUIREMENTS, "directory": "new"}, DESIGN),
]
WRITING = {"run", "backfill", "replay", "repair"}


def wrote(assistant: Any) -> list[list[str]]:
    return [words for words in assistant.verbs.calls if WRITING & set(words[:2]) or "--out=new" in words]


def without_questions(assistant: Any) -> None:
    design = assistant.verbs.documents["design"]
    assistant.verbs.documents["design"] = lambda words: (
        {"questions": [], "open": 0} if "--questions" in words else design
    )


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize(("tool", "arguments", "shown"), WRITES, ids=[tool for tool, _, _ in WRITES])
def test_a_tool_writes_when_the_user_agrees_to_what_is_shown(
    assistant: Any, mode: str, tool: str, arguments: Any, shown: str
) -> None:
    without_questions(assistant)
    assistant.mode, assistant.answer = mode, YES

    found = assistant.value(tool, arguments, allow_write=True)

    assert (assistant.asked, len(wrote(assistant))) == ([shown], 1)
    assert found["outcome"] is not None


@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
def test_nothing_is_written_when_the_user_does_not_agree(assistant: Any, answer: ElicitResult) -> None:
    without_questions(assistant)
    assistant.answer = answer

    codes = [assistant.error(tool, arguments, allow_write=True)["code"] for tool, arguments, _ in WRITES]

    assert (codes, wrote(assistant)) == (["MCP.DECLINED"] * 5, [])


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_that_cannot_ask_gets_the_command_instead(assistant: Any, mode: str) -> None:
    assistant.mode = mode

    errors = [assistant.error(tool, arguments, allow_write=True) for tool, arguments, _ in WRITES]

    assert ({error["code"] for error in errors}, wrote(assistant)) == ({"MCP.CANNOT_ASK"}, [])
    assert errors[1]["hint"].endswith("headrace backfill --from=version:3 --to=latest --again -- orders")


def test_the_user_is_not_asked_about_a_plan_that_fails(assistant: Any) -> None:
    assistant.answer = YES
    assistant.verbs.fail("plan", "GRAPH.CYCLE", "no")

    error = assistant.error("run", {}, allow_write=True)

    assert (error["code"], assistant.asked, wrote(assistant)) == ("GRAPH.CYCLE", [], [])


def test_the_user_is_asked_again_when_the_plan_has_changed_since_the_question(assistant: Any) -> None:
    plans = [
        {**assistant.verbs.documents["plan"], "flows": [{"flow": "a", "decision": "run", "reason": f"{number} files"}]}
        for number in (1, 2, 2, 2)
    ]
    assistant.verbs.documents["plan"] = lambda _words: plans.pop(0)
    assistant.answer = YES

    assistant.value("run", {}, allow_write=True)

    assert ["1 files" in text for text in assistant.asked] == [True, False]


@pytest.mark.parametrize("directory", ["/tmp/x", "../x", "a/../../x"])
def test_a_design_is_not_written_outside_of_the_project(assistant: Any, directory: str) -> None:
    without_questions(assistant)
    assistant.answer = YES

    error = assistant.error("write_design", {"requirements": REQUIREMENTS, "directory": directory}, allow_write=True)

    assert (error["code"], assistant.asked) == ("MCP.OUTSIDE", [])


@pytest.mark.parametrize("mode", ["auto", "legacy"])
@pytest.mark.parametrize("as_text", [False, True])
def test_answers_without_a_default_are_asked_for_and_complete_the_requirements(
    assistant: Any, mode: str, *, as_text: bool
) -> None:
    questions = [
        {"id": "lateness.within", "text": "How late?", "why": "w", "default": None, "needed": True},
        {"id": "sources.events.keys", "text": "Which keys?", "why": "w", "default": None, "needed": True},
        {"id": "latency", "text": "How old?", "why": "w", "default": "5 minutes", "needed": False},
    ]
    given = []
    design = assistant.verbs.documents["design"]

    def answered(words: Any) -> Any:
        if "--questions" in words:
            return {"questions": questions, "open": 2}
        given.append(yaml.safe_load(Path(words[-1]).read_text(encoding="utf-8")))
        return design

    assistant.verbs.documents["design"] = answered
    assistant.mode = mode
    assistant.answer = ElicitResult(
        action="accept", content={"lateness.within": "10 minutes", "sources.events.keys": "id, day"}
    )

    assistant.value("design", {"requirements": json.dumps(REQUIREMENTS) if as_text else REQUIREMENTS})

    source = {"name": "events", "kind": "kafka", "keys": ["id", "day"]}
    assert given == [{"sources": [source], "lateness": {"within": "10 minutes"}}]
    assert assistant.asked == ["The design needs answers that have no default: lateness.within, sources.events.keys."]


def test_a_design_reports_what_is_open_when_the_client_cannot_ask(assistant: Any) -> None:
    assistant.verbs.fail("design", "DESIGN.OPEN", "answers are missing")

    assert assistant.error("design", {"requirements": REQUIREMENTS})["code"] == "DESIGN.OPEN"
