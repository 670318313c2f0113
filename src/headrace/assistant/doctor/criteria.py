"""The success criteria, as data."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True)
class Criterion:
    """One criterion.

    Attributes:
        criterion_id: its name, which never changes.
        title: in a word or two.
        means: when it is met.
        checks: checks of the doctor whose errors and warnings fail it.
        with_advice: checks whose advice fails it too.
        points: the points of checklists and best practices that it covers.
    """

    criterion_id: str
    title: str
    means: str
    checks: tuple[str, ...]
    with_advice: tuple[str, ...]
    points: tuple[str, ...]


@cache
def criteria() -> Mapping[str, Criterion]:
    """Every criterion by its name, in the order of the file."""
    text = files("headrace.assistant.doctor").joinpath("criteria.toml").read_text(encoding="utf-8")
    lists = ("checks", "with_advice", "points")
    return {
        name: Criterion(name, body["title"], body["means"], *(tuple(body.get(key, ())) for key in lists))
        for name, body in tomllib.loads(text).items()
    }
