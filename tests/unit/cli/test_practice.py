"""The verbs of practice: what they print without a session."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from headrace.assistant.practice.question import question, questions


def test_all_questions_are_listed(cli: Any) -> None:
    _, text, _ = cli("practice", "list")
    code, out, _ = cli("practice", "list", "--output", "json")

    assert (code, [one["question"] for one in json.loads(out)]) == (0, [one.number for one in questions()])
    assert all(one.title in text for one in questions())


@pytest.mark.parametrize("output", ["text", "json"])
def test_a_shown_question_does_not_give_its_answer_away(cli: Any, output: str) -> None:
    code, out, _ = cli("practice", "show", "2", "--output", output)

    assert (code, question(2).why in out, "caveats" in out) == (0, False, False)
    assert all(choice in out for choice in question(2).choices.values())


@pytest.mark.parametrize(("letter", "code", "verdict"), [("b", 0, "right. B: update"), ("D", 1, "wrong, D is not")])
def test_an_answer_is_judged_and_explained_with_its_limits(cli: Any, letter: str, code: int, verdict: str) -> None:
    exit_code, text, _ = cli("practice", "answer", "2", letter)
    _, out, _ = cli("practice", "answer", "2", letter, "--output", "json")

    assert (exit_code, text.startswith(verdict)) == (code, True)
    assert all(caveat in text for caveat in question(2).caveats)
    assert "headrace docs get guides state" in text
    assert json.loads(out)["right"] == (code == 0)


def test_the_program_of_a_proof_is_printed_as_it_is(cli: Any) -> None:
    code, out, _ = cli("practice", "prove", "3", "--program")

    assert (code, out) == (0, question(3).proof.program + "\n")


@pytest.mark.parametrize(
    ("words", "error"), [(("show", "99"), "PRACTICE.NO_QUESTION"), (("answer", "1", "Z"), "PRACTICE.NO_CHOICE")]
)
def test_unknown_questions_and_choices_are_refused(cli: Any, words: tuple[str, ...], error: str) -> None:
    code, out, _ = cli("practice", *words, "--output", "json")

    assert (code, json.loads(out)["error"]["code"]) == (2, error)


def test_questions_are_answered_without_spark() -> None:
    program = (
        "import sys\nfrom headrace.cli.main import call\ncall(['practice', 'answer', '1', 'B'])\n"
        "print([name for name in ('pyspark', 'headrace.practice') if name in sys.modules])"
    )

    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, encoding="utf-8", check=True)

    assert shown.stdout.splitlines()[-1] == "[]"
