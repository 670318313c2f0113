"""The verbs of practice: what they print without a session."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from headrace.assistant.practice.exercise import exercises
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


def test_exercises_are_listed_and_shown(cli: Any) -> None:
    _, listed, _ = cli("practice", "exercise")
    code, shown, _ = cli("practice", "exercise", "2")
    _, out, _ = cli("practice", "exercise", "2", "--output", "json")

    assert code == 0
    assert all(one.title in listed for one in exercises())
    assert shown == exercises()[1].readme
    assert json.loads(out)["text"] == shown


def test_the_project_of_an_exercise_and_its_solution_are_written(cli: Any, tmp_path: Path) -> None:
    _, out, _ = cli("practice", "exercise", "1", "--out", "mine", "--output", "json")
    cli("practice", "exercise", "1", "--out", "solved", "--solution")

    program = "transformations/orders.py"
    first = exercises()[0]
    assert {"README.md", "pipeline.yml", program, "data/orders/_delta_log/00000000000000000000.json"} <= set(
        json.loads(out)["files"]
    )
    assert (tmp_path / "mine" / program).read_text() == first.starter[program]
    assert (tmp_path / "solved" / program).read_text() == first.solution[program]


def test_a_solution_is_printed_only_if_it_is_asked_for(cli: Any) -> None:
    _, shown, _ = cli("practice", "exercise", "4")
    _, solution, _ = cli("practice", "exercise", "4", "--solution")

    text = exercises()[3].solution["transformations/payments.py"]
    assert (text in shown, text.rstrip("\n") in solution) == (False, True)


def test_an_exercise_for_a_folder_that_cannot_exist_is_refused(cli: Any) -> None:
    code, out, _ = cli("practice", "exercise", "1", "--out", "n" * 300, "--output", "json")

    assert (code, json.loads(out)["error"]["code"]) == (1, "PRACTICE.NOT_WRITTEN")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("7",), "PRACTICE.NO_EXERCISE"),
        (("1", "--out", "there"), "PRACTICE.FOLDER_EXISTS"),
        (("1", "--out", "new", "--check"), "CLI.CONFLICT"),
        (("--check",), "CLI.USAGE"),
    ],
)
def test_impossible_requests_for_exercises_are_refused(
    cli: Any, tmp_path: Path, words: tuple[str, ...], error: str
) -> None:
    (tmp_path / "there").mkdir()
    (tmp_path / "there" / "file").write_text("mine")

    code, out, _ = cli("practice", "exercise", *words, "--output", "json")

    assert (code, json.loads(out)["error"]["code"]) == (2, error)
    assert (tmp_path / "there" / "file").read_text() == "mine"
