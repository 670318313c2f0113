"""The candidates for the last word of a command line, from its grammar and the names of a project."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

# What a shell completes itself.
FILES, FOLDERS = ":files", ":folders"
# Names that commas separate: another one may follow.
_LISTS = {"datasets": "dataset", "flows": "flow"}
# What may stand there in place of a name; offered once the word has begun.
_SELECTORS = ("kind:", "source:", "state:modified", "tag:")


@dataclass(frozen=True)
class Candidate:
    """A word that can stand at the end of a command line, and what it means."""

    word: str
    about: str = ""


@dataclass(frozen=True)
class Candidates:
    """What a shell offers.

    Attributes:
        found: the words, in their order.
        shell: FILES or FOLDERS if the shell completes the word itself.
        is_open: a word can be followed by more, without a blank.
    """

    found: tuple[Candidate, ...] = ()
    shell: str = ""
    is_open: bool = False


@dataclass(frozen=True)
class Names:
    """The names of the project that a command line is about.

    Attributes:
        of: the names of a kind, which is ``dataset``, ``flow`` or ``profile``, for the global options so far.
    """

    of: Callable[[str, Mapping[str, str]], Iterable[str]]


def candidates(words: Sequence[str], grammar: Mapping[str, Any], names: Names) -> Candidates:
    """The candidates for the last of *words*, which follow the name of the program.

    Args:
        words: of the command line up to the cursor; the last one may be empty.
        grammar: verbs with their options and arguments, made by tools/completion_grammar.py.
        names: of the project.
    """
    *before, current = words
    place = _place(before, grammar)
    options = {**grammar["options"], **place.verb.get("options", {})}
    if place.is_script:
        return Candidates(shell=FILES)
    if place.option:
        return _values(options[place.option]["value"], current, place, names)
    name, equals, value = current.partition("=")
    if equals and name in options and options[name]["value"] is not None:
        found = _values(options[name]["value"], value, place, names)
        joined = tuple(Candidate(f"{name}={one.word}", one.about) for one in found.found)
        return Candidates(joined, found.shell, found.is_open)
    if current.startswith("-"):
        return Candidates(tuple(_matching(_described(options), current)))
    verbs = place.verb.get("verbs", {})
    if verbs:
        return Candidates(tuple(_matching(_described(verbs), current)))
    arguments = place.verb.get("arguments", [])
    if arguments:
        kind = arguments[min(place.arguments, len(arguments) - 1)]
        many = kind["many"] or place.arguments < len(arguments)
        return _values(kind["value"], current, place, names) if many else Candidates()
    return Candidates(tuple(_matching(_described(place.verb.get("options", {})), current)))


@dataclass
class _Place:
    """Where the last word stands."""

    verb: Mapping[str, Any]
    # The option whose value it is.
    option: str = ""
    # How many arguments of the verb stand before it.
    arguments: int = 0
    # It belongs to a script, after the script's file.
    is_script: bool = False
    # Of options given before.
    given: dict[str, str] | None = None


def _place(before: Iterable[str], grammar: Mapping[str, Any]) -> _Place:
    place = _Place(grammar, given={})
    for word in before:
        options = {**grammar["options"], **place.verb.get("options", {})}
        name, equals, value = word.partition("=")
        if place.option:
            _give(place, place.option, word)
            place.option = ""
        elif name in options and options[name]["value"] is not None:
            if equals:
                _give(place, name, value)
            else:
                place.option = name
        elif word.startswith("-"):
            continue
        elif word in place.verb.get("verbs", {}):
            place.verb = place.verb["verbs"][word]
        else:
            place.arguments += 1
            place.is_script = place.verb.get("runs_script", False)
    return place


def _give(place: _Place, option: str, value: str) -> None:
    if place.given is not None:
        place.given[option] = value


def _values(kind: Any, current: str, place: _Place, names: Names) -> Candidates:
    """The candidates for a value of a kind: a list of words, or a name."""
    if kind in (FILES, FOLDERS):
        return Candidates(shell=kind)
    if isinstance(kind, list):
        return Candidates(tuple(_matching(map(Candidate, kind), current)))
    if not kind:
        return Candidates()
    first, comma, last = current.rpartition(",") if kind in _LISTS else ("", "", current)
    chosen = first.split(",")
    sign = "+" if kind in _LISTS and last.startswith("+") else ""
    begun = last.removeprefix(sign)
    found = [name for name in names.of(_LISTS.get(kind, kind), place.given or {}) if name not in chosen]
    found += _SELECTORS if kind in _LISTS and begun else ()
    joined = tuple(Candidate(f"{first}{comma}{sign}{one.word}") for one in _matching(map(Candidate, found), begun))
    return Candidates(joined, is_open=kind in _LISTS)


def _described(entries: Mapping[str, Any]) -> Iterator[Candidate]:
    return (Candidate(name, entry["help"]) for name, entry in entries.items())


def _matching(found: Iterable[Candidate], current: str) -> Iterator[Candidate]:
    return (candidate for candidate in found if candidate.word.startswith(current))
