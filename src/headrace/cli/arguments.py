"""Prepares the words of a command line for the parser: global options may come before or after the verb."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

_WITH_VALUE = ("--project", "--output", "--profile")
_SCRIPTS = (".py", ".ipynb", ".sql")
_FLAGS = ("-v", "--verbose", "-q", "--quiet")


def hoist_global_options(words: Sequence[str]) -> list[str]:
    """The words with global options first, so that ``headrace run --output json`` works too.

    Words after ``--`` do not move, nor do those after the file of ``headrace exec``: they belong to the script.
    """
    front: list[str] = []
    rest: list[str] = []
    remaining = list(words)
    while remaining:
        word = remaining.pop(0)
        if word == "--":
            return [*front, *rest, word, *remaining]
        if rest[:1] == ["exec"] and word.endswith(_SCRIPTS):
            return [*front, *rest, word, *remaining]
        if word in _FLAGS or word.startswith(tuple(f"{option}=" for option in _WITH_VALUE)):
            front.append(word)
        elif word in _WITH_VALUE:
            front += [word, *remaining[:1]]
            del remaining[:1]
        else:
            rest.append(word)
    return front + rest


def project_and_verb(words: Sequence[str]) -> tuple[str | None, list[str]]:
    """The value of ``--project``, and the verb with its own words, of words with global options first."""
    project = None
    remaining = list(words)
    while remaining and remaining[0].startswith("-"):
        option, equals, value = remaining.pop(0).partition("=")
        if option in _WITH_VALUE and not equals:
            value = remaining.pop(0) if remaining else ""
        if option == "--project":
            project = value
    return project, remaining


def wants_json(words: Sequence[str]) -> bool:
    """True if the command line requests JSON output, even if the rest of it cannot be parsed."""
    front = hoist_global_options(words)
    return "--output=json" in front or any(pair == ("--output", "json") for pair in pairwise(front))


def names_in(options: Sequence[str]) -> tuple[str, ...]:
    """The names in repeated options and comma-separated lists, each once."""
    names = (name.strip() for option in options for name in option.split(","))
    return tuple(dict.fromkeys(name for name in names if name))
