"""Exercises: a project to start from, the data that it reads, and a solution, as files of this package."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Any

from headrace.errors import PipelineError

_FOLDER = "exercises"
_ABOUT = "exercise.toml"
_STARTER, _SOLUTION = "starter", "solution"
# Programs of an exercise are no modules of this package; the suffix hides them from its checks.
_SUFFIX = ".tmpl"
README = "README.md"


@dataclass(frozen=True)
class Exercise:
    """An exercise.

    Attributes:
        number: counts from 1.
        title: a few words.
        objective: the subject that it belongs to.
        page: the page of the knowledge base, as ``category/name``.
        starter: the files of the project to start from: paths and texts. It runs, but is incomplete.
        solution: those files that differ in the solution.
    """

    number: int
    title: str
    objective: str
    page: str
    starter: Mapping[str, str]
    solution: Mapping[str, str]

    @property
    def readme(self) -> str:
        """What to do, in Markdown."""
        return self.starter[README]

    def files(self, *, solved: bool) -> dict[str, str]:
        """The files of the starter, or of the solution."""
        return {**self.starter, **(self.solution if solved else {})}

    def to_json(self) -> dict[str, Any]:
        """The exercise without its solution, as JSON."""
        return {
            "exercise": self.number,
            "title": self.title,
            "objective": self.objective,
            "page": self.page,
            "text": self.readme,
        }


@dataclass(frozen=True)
class Criterion:
    """What a check has found about one criterion of an exercise.

    Attributes:
        says: the criterion.
        met: whether the project meets it.
        measured: the value that was measured, in words.
        advice: what to change if it is not met.
    """

    says: str
    met: bool
    measured: str
    advice: str = ""

    def to_json(self) -> dict[str, Any]:
        """The criterion as JSON."""
        return {
            "criterion": self.says,
            "met": self.met,
            "measured": self.measured,
            "advice": None if self.met else self.advice,
        }


@cache
def exercises() -> tuple[Exercise, ...]:
    """All exercises by their number."""
    folder = files("headrace.assistant.practice") / _FOLDER
    found = sorted((entry for entry in folder.iterdir() if entry.is_dir()), key=lambda entry: entry.name)
    return tuple(_exercise(number, entry) for number, entry in enumerate(found, 1))


def exercise(number: int) -> Exercise:
    """The exercise of a number.

    Raises:
        PipelineError: PRACTICE.NO_EXERCISE.
    """
    if not 1 <= number <= len(exercises()):
        raise PipelineError("PRACTICE.NO_EXERCISE", number=number, last=len(exercises()))
    return exercises()[number - 1]


def _exercise(number: int, folder: Traversable) -> Exercise:
    about = tomllib.loads((folder / _ABOUT).read_text(encoding="utf-8"))
    return Exercise(number, **about, starter=dict(_texts(folder / _STARTER)), solution=dict(_texts(folder / _SOLUTION)))


def _texts(folder: Traversable, path: str = "") -> Iterator[tuple[str, str]]:
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _texts(entry, f"{path}{entry.name}/")
        else:
            yield f"{path}{entry.name}".removesuffix(_SUFFIX), entry.read_text(encoding="utf-8")
