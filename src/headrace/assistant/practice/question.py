"""Practice questions: what is asked, the answer and its limits, and a program that proves it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from headrace.errors import PipelineError

_FOLDER = "questions"
_SUFFIX = ".toml"


@dataclass(frozen=True)
class Claim:
    """One statement that a proof checks.

    Attributes:
        name: the variable of the program that has the observed value.
        says: what the value is.
        expected: the value that it must have; plain JSON.
    """

    name: str
    says: str
    expected: Any


@dataclass(frozen=True)
class Proof:
    """A program for Spark, and what its variables must be when it has run.

    The program has three names: ``spark``, ``folder`` (an empty ``pathlib.Path``), and ``land(name, *rows)``, which
    writes rows as a file of JSON lines into a subfolder. Files have modification times in the order in which they land.
    """

    program: str
    claims: tuple[Claim, ...]


@dataclass(frozen=True)
class Question:
    """A practice question.

    Attributes:
        number: counts from 1.
        title: a few words.
        objective: the subject that it belongs to, such as ``watermarks``.
        text: what is asked.
        choices: the possible answers by their letter.
        answer: the letter of the right one.
        why: the explanation.
        caveats: where the answer does not hold, or differs in Headrace.
        page: the page of the knowledge base, as ``category/name``.
        proof: shows that the answer and the caveats are true.
    """

    number: int
    title: str
    objective: str
    text: str
    choices: Mapping[str, str]
    answer: str
    why: str
    caveats: tuple[str, ...]
    page: str
    proof: Proof

    def is_right(self, letter: str) -> bool:
        """Whether a letter, in upper or lower case, is the right answer.

        Raises:
            PipelineError: PRACTICE.NO_CHOICE.
        """
        if letter.upper() not in self.choices:
            raise PipelineError(
                "PRACTICE.NO_CHOICE", number=self.number, letter=letter, known=", ".join(sorted(self.choices))
            )
        return letter.upper() == self.answer

    def to_json(self) -> dict[str, Any]:
        """The question without its answer, as JSON."""
        return {
            "question": self.number,
            "title": self.title,
            "objective": self.objective,
            "text": self.text,
            "choices": dict(self.choices),
        }

    def answer_json(self) -> dict[str, Any]:
        """The answer and its explanation, as JSON."""
        return {"answer": self.answer, "why": self.why, "caveats": list(self.caveats), "page": self.page}


@cache
def questions() -> tuple[Question, ...]:
    """All questions by their number."""
    folder = files("headrace.assistant.practice") / _FOLDER
    entries = sorted((entry for entry in folder.iterdir() if entry.name.endswith(_SUFFIX)), key=lambda one: one.name)
    return tuple(
        _question(number, tomllib.loads(entry.read_text(encoding="utf-8"))) for number, entry in enumerate(entries, 1)
    )


def question(number: int) -> Question:
    """The question of a number.

    Raises:
        PipelineError: PRACTICE.NO_QUESTION.
    """
    if not 1 <= number <= len(questions()):
        raise PipelineError("PRACTICE.NO_QUESTION", number=number, last=len(questions()))
    return questions()[number - 1]


def _question(number: int, raw: Mapping[str, Any]) -> Question:
    proof = raw["proof"]
    claims = tuple(Claim(**claim) for claim in proof["claims"])
    return Question(
        number=number,
        title=raw["title"],
        objective=raw["objective"],
        text=raw["text"].strip(),
        choices=raw["choices"],
        answer=raw["answer"],
        why=raw["why"].strip(),
        caveats=tuple(raw["caveats"]),
        page=raw["page"],
        proof=Proof(proof["program"].strip(), claims),
    )
