"""Pages that are walked command by command: their commands exist, and what can be seen without Spark."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from pathlib import Path
from typing import Any

from tests.walk import commands, requirements, steps

RECOVERY = Path(__file__).parents[3] / "docs" / "how-to" / "recover.md"
_WORDS = re.compile(r"headrace ([a-z]+(?: [a-z]+)?)([^&]*)")


def test_the_walk_has_ten_commands_that_exist() -> None:
    grammar = json.loads(files("headrace.cli").joinpath("completion/grammar.json").read_text(encoding="utf-8"))

    commands = [step.command for step in steps()]
    named = [found for command in commands for found in _WORDS.findall(command)]

    assert [step.number for step in steps()] == list(range(1, 11))
    assert len(named) == len(commands) - 1
    for words, rest in named:
        verb = words.split()[0]
        node = grammar["verbs"][verb]
        node = node.get("verbs", {}).get(words.split()[-1], node)
        assert set(re.findall(r"--[a-z-]+", rest)) <= {*node.get("options", {}), *grammar["options"]}
    # The question before the fault is asked again after its repair.
    assert commands[4] == commands[9]


def test_the_requirements_of_the_walk_give_the_design_that_it_shows(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "requirements.yml").write_text(requirements(), encoding="utf-8")
    asked, designed, *_ = steps()

    _, questions, _ = cli(*asked.command.split()[1:])
    _, design, _ = cli(*designed.command.partition(" && ")[0].split()[1:])

    for step, output in ((asked, questions), (designed, design)):
        assert step.lines
        assert [line for line in step.lines if line not in output] == []


def test_the_recovery_page_shows_a_command_for_each_output() -> None:
    grammar = json.loads(files("headrace.cli").joinpath("completion/grammar.json").read_text(encoding="utf-8"))

    named = [found for command in commands(RECOVERY) for found in _WORDS.findall(command.text)]

    assert len(named) > 10
    for words, rest in named:
        node = grammar["verbs"][words.split()[0]]
        node = node.get("verbs", {}).get(words.split()[-1], node)
        assert set(re.findall(r"--[a-z-]+", rest)) <= {*node.get("options", {}), *grammar["options"]}
