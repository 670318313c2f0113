"""The words of a command line before they are parsed: global options may stand on either side of the verb."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

_WITH_VALUE = ("--project", "--output", "--profile")
_SCRIPTS = (".py", ".ipynb", ".sql")
_FLAGS = ("-v", "--verbose", "-q", "--quiet")


def hoisted(words: Sequence[str]) -> list[str]:
    """The words with global options first, so that ``headrace run --output json`` is understood too.

    Words after ``--`` stay where they are, and so do those after the file of ``headrace exec``: they are the script's.
    """
    front: list[str] = []
    rest: list[str] = []
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            return [*front, *rest, word, *waiting]
        if rest[:1] == ["exec"] and word.endswith(_SCRIPTS):
            return [*front, *rest, word, *waiting]
        if word in _FLAGS or word.startswith(tuple(f"{option}=" for option in _WITH_VALUE)):
            front.append(word)
        elif word in _WITH_VALUE:
            front += [word, *waiting[:1]]
            del waiting[:1]
        else:
            rest.append(word)
    return front + rest


def asks_for_json(words: Sequence[str]) -> bool:
    """True when a program reads the result, known even if the rest of the command line cannot be parsed."""
    front = hoisted(words)
    return "--output=json" in front or any(pair == ("--output", "json") for pair in pairwise(front))


def names_in(options: Sequence[str]) -> tuple[str, ...]:
    """The names in repeated options and comma lists, each once."""
    names = (name.strip() for option in options for name in option.split(","))
    return tuple(dict.fromkeys(name for name in names if name))
