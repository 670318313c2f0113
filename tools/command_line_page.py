"""The reference page of the command line, generated from the commands."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any, get_args, get_origin, get_type_hints

import typer
from typer.models import ArgumentInfo

from headrace.cli.failures import DONE, DRIFTED, FAILED, INTERRUPTED, LEASED, UNAPPROVED, WRONG
from headrace.cli.main import _global_options
from headrace.cli.verbs import VERBS, load_verb

_INTRODUCTION = """\
# The command line

    headrace [OPTIONS] COMMAND [OPTIONS]

For example, create a project, check it, and run it:

    headrace init orders
    headrace --project orders plan
    headrace --project orders run

`headrace COMMAND --help` prints the section of this page about a command.

The result goes to stdout. With `--output json`, stdout has one JSON document, and all other output goes to stderr. An
error is then `{"error": FIRST, "problems": [ALL]}`.

On a terminal, the output fits its width: lines are folded at words, and names in tables lose their middles. If a table of
rows has too many columns, each row becomes a list. A path that is longer than a line stays whole, so that you can copy it. In
a pipe or a file, nothing is folded or shortened, and there are no colors and no live display. Nothing is said by color alone.
"""
_EXIT_CODES = {
    DONE: "success, even if there was nothing to do",
    FAILED: "the update or the query failed. `status` also exits with 1 if the last update failed",
    WRONG: "the project, its settings or the command line is invalid. Nothing was written",
    LEASED: "another update of the pipeline is running",
    UNAPPROVED: "an approval or a confirmation is missing. Nothing was written",
    DRIFTED: "the project, its tables or their state have changed since the plan was made. Nothing was written",
    INTERRUPTED: (
        "interrupted by SIGINT, or by SIGTERM unless the update is continuous. Committed data is kept, and the next "
        "update continues from there"
    ),
}


@dataclass(frozen=True)
class Parameter:
    """An option, or an argument, of a verb."""

    info: Any
    type: Any
    default: Any

    @property
    def is_argument(self) -> bool:
        """Whether it is positional."""
        return isinstance(self.info, ArgumentInfo)

    @property
    def written(self) -> str:
        """Its notation on the command line."""
        if self.is_argument:
            return str(self.info.metavar)
        names = ", ".join(self.names)
        return names if self.type is bool else f"{names} {self.info.metavar or '|'.join(self.choices) or 'N'}"

    @property
    def names(self) -> tuple[str, ...]:
        """All names of an option; none for an argument."""
        if self.is_argument:
            return ()
        # Typer stores the first name of an annotated option in its default.
        first = [self.info.default] if isinstance(self.info.default, str) else []
        return tuple(name for names in (*first, *self.info.param_decls) for name in names.split("/"))

    @property
    def takes_many(self) -> bool:
        """Whether an argument can be repeated."""
        return any(get_origin(kind) is list for kind in (self.type, *get_args(self.type)))

    @property
    def choices(self) -> tuple[str, ...]:
        """The words that it can be; none if it can be others too."""
        kinds = [kind for kind in (self.type, *get_args(self.type)) if isinstance(kind, type)]
        enum = next((kind for kind in kinds if issubclass(kind, Enum)), None)
        return () if enum is None else tuple(_value_text(member) for member in enum)

    @property
    def row(self) -> tuple[str, str, str]:
        """Its row in the table."""
        default = "" if self.default in (None, False, inspect.Parameter.empty) else f"`{_value_text(self.default)}`"
        return f"`{self.written}`", default, str(self.info.help)


def command_line_page() -> str:
    """The expected text of docs/reference/command-line.md."""
    parts = [_INTRODUCTION, "## Global options\n", "Write them before or after the command.\n"]
    parts.append(_table(_global_options))
    for words, verb in _verbs():
        parts += [f"## {words}\n", f"    {_usage(words, verb)}\n", f"{inspect.getdoc(verb)}\n", _table(verb)]
    codes = "".join(f"| {code} | {meaning} |\n" for code, meaning in _EXIT_CODES.items())
    parts += ["## Exit codes\n", f"| code | meaning |\n| --- | --- |\n{codes}"]
    return "\n".join(part for part in parts if part)


def _verbs() -> Iterator[tuple[str, Callable[..., Any]]]:
    for name in VERBS:
        verb = load_verb(name)
        if isinstance(verb, typer.Typer):
            yield from ((f"{name} {inner}", function) for inner, function in group_verbs(verb))
        else:
            yield name, verb


def group_verbs(group: typer.Typer) -> Iterator[tuple[str, Callable[..., Any]]]:
    """The verbs of a group by name."""
    for command in group.registered_commands:
        if command.callback is not None and not command.hidden:
            yield command.name or command.callback.__name__, command.callback


def parameters(verb: Callable[..., Any] | None) -> list[Parameter]:
    """The options and arguments of a verb, in their order."""
    if verb is None:
        return []
    hints = get_type_hints(verb, include_extras=True)
    found = []
    for name, parameter in inspect.signature(verb).parameters.items():
        hint = hints[name]
        if hasattr(hint, "__metadata__"):
            found.append(Parameter(hint.__metadata__[0], get_args(hint)[0], parameter.default))
    return found


def _usage(words: str, verb: Callable[..., Any]) -> str:
    found = parameters(verb)
    arguments = [parameter.written for parameter in found if parameter.is_argument]
    options = ["[OPTIONS]"] if len(arguments) < len(found) else []
    return " ".join(("headrace", words, *options, *arguments))


def _table(verb: Callable[..., Any] | None) -> str:
    rows = [parameter.row for parameter in parameters(verb)]
    lines = [("option", "default", "what it does"), ("---",) * 3, *rows] if rows else []
    return "".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |\n" for cells in lines)


def _value_text(value: Any) -> str:
    return str(getattr(value, "value", value))
