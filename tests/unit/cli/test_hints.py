"""Every command that an error names as a way out is one that the command line takes."""

from __future__ import annotations

import re
import shlex
from typing import Any

import pytest

from headrace.errors import PipelineError, conditions
from headrace.model.alert_rules import rules
from headrace.plan.restarts import reset_command

_TAIL = re.compile(r"headrace (?:-\S+ )*[a-z-]+(?: (?:-\S+|\{\w+(?::q)?\}|[A-Z]+|\"[^\"]*\"|[a-z]+(?=$|\.$)))*")


def commands_in(text: str) -> list[list[str]]:
    """The command lines of a text, with a name in the place of each parameter."""
    found = []
    for match in re.finditer(r"`(headrace [^`]*)`|\b(headrace [a-z].*)", text.replace("\n", " ; ")):
        said = match.group(1) or _TAIL.match(match.group(2)).group()
        found.append(shlex.split(re.sub(r"\{\w+(:q)?\}", "name", said.rstrip(".,").replace("VERB", "run")))[1:])
    return found


HINTS = [
    pytest.param(words, id=f"{code}: {shlex.join(words)}")
    for code, condition in conditions().items()
    for sentence in re.split(r"(?<=[.;:,]) ", f"{condition.hint}")
    for words in commands_in(sentence)
]
MADE = [
    shlex.split(reset_command("a flow", "earliest"))[1:],
]
ALERTS = [
    pytest.param(words, id=f"{rule.rule_id}: {shlex.join(words)}")
    for rule in rules().values()
    for words in commands_in(f"`{rule.first_step}`")
]


@pytest.mark.parametrize("words", [*HINTS, *MADE, *ALERTS])
def test_commands_in_hints_exist(cli: Any, words: list[str]) -> None:
    code, out, err = cli(*words, "--help")

    assert (code, err) == (0, "")
    assert "Usage" in out


def test_values_in_hint_commands_are_quoted_for_the_shell() -> None:
    raw = [
        code
        for code, condition in conditions().items()
        for words in re.findall(r"\b(?:headrace|jupyter|pip) [a-z]+ [^`]*|--set [^`]*", condition.hint)
        # A whole command, or what goes on after one, is quoted by whoever raises the error.
        if re.search(r"\{(?!(?:command|otherwise)\})\w+\}", words)
    ]
    changed = PipelineError("TABLE.KIND_CHANGED", name="the table; ls", before="table", now="view")

    assert raw == []
    assert changed.hint.endswith("headrace run --full-refresh 'the table; ls'")
    assert '"the table; ls"' in changed.message


def test_hint_check_detects_an_unknown_command(cli: Any) -> None:
    assert [cli(*words, "--help")[0] for words in commands_in("Try headrace run --all {name}.")] == [2]
    assert commands_in("Run it: headrace run --refresh {a} --refresh {b}.") == [
        ["run", "--refresh", "name", "--refresh", "name"]
    ]


def test_hint_check_finds_the_commands_of_the_catalogue() -> None:
    assert len(HINTS) > 15
