"""Answers a shell that asks how a command line can go on."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from headrace.cli.completion.candidates import Candidates, Names, candidates

# Set by the scripts of the shells, to the name of the shell.
VARIABLE = "_HEADRACE_COMPLETE"
# Bash replaces only what follows the last of these in a word (COMP_WORDBREAKS).
_BREAKS = re.compile(r"[=:]")
_PLAIN = re.compile(r"[\w.@%+:/-]+")


def answer(arguments: Sequence[str], environ: Mapping[str, str]) -> Iterator[str]:
    """The lines for the shell: a candidate with its meaning after a tab, or what the shell does itself, after a colon.

    Args:
        arguments: for bash the command line up to the cursor, for other shells its words without the program.
        environ: the environment variables.
    """
    in_bash = environ[VARIABLE] == "bash"
    words = _words(arguments[0]) if in_bash else list(arguments) or [""]
    reply = candidates(words, grammar(), Names(lambda kind, given: _names(kind, given, environ)))
    cut = max((match.end() for match in _BREAKS.finditer(words[-1])), default=0) if in_bash else 0
    return _lines(reply, cut)


def grammar() -> Any:
    """The verbs with their options and arguments."""
    return json.loads((Path(__file__).parent / "grammar.json").read_text(encoding="utf-8"))


def _names(kind: str, given: Mapping[str, str], environ: Mapping[str, str]) -> list[str]:
    # Imported only if a name is wanted: settings take most of the time.
    found: list[str] = import_module("headrace.cli.completion.stored_names").stored_names(kind, given, environ)
    # A name with another character could be several words to the shell, or a command.
    return [name for name in found if _PLAIN.fullmatch(name)]


def _words(line: str) -> list[str]:
    """The words of a line after the program; the last one is empty after a blank."""
    # A quotation may not have ended yet.
    for end in ("", "'", '"'):
        try:
            words = shlex.split(line + end)
        except ValueError:
            continue
        is_ended = not end and (line[-1:].isspace() or len(words) == 1)
        return [*words[1:], *([""] if is_ended else [])]
    return [""]


def _lines(reply: Candidates, cut: int) -> Iterator[str]:
    if reply.shell:
        yield reply.shell
        return
    if reply.is_open:
        yield ":open"
    for candidate in reply.found:
        yield f"{candidate.word[cut:]}\t{candidate.about}"
