"""The grammar of the command line for completion in shells, generated from the commands."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import typer

from command_line_page import Parameter, group_verbs, parameters
from headrace.assistant.knowledge.generated import ERRORS, RULES
from headrace.assistant.knowledge.library import library
from headrace.cli.completion.candidates import FILES, FOLDERS
from headrace.cli.init import templates
from headrace.cli.main import _global_options
from headrace.cli.verbs import VERBS, load_verb
from headrace.connectors.lock import connectors

# What the value of a parameter is, by its metavar, and by the verb or option where that says too little.
_KINDS: dict[str, Any] = {
    "DIR": FOLDERS,
    "FILE": FILES,
    "FROM": FILES,
    "TO": FILES,
    "FILES": FILES,
    "PATH": FILES,
    "A,B": "datasets",
    "FLOW": "flow",
    "FLOW[=START]": "flows",
    "T": list(templates()),
    "--profile": "profile",
    "--connector": sorted(connectors()),
    "init NAME": None,
    "CATEGORY": list(library().categories),
    "get NAME": [page.name for page in library().pages if page.category not in (ERRORS, RULES)],
}
# A name stands for a dataset unless the table above says otherwise.
_ARGUMENT_KINDS = {"NAME": "dataset"}
_SCRIPTS = "exec"


def completion_grammar() -> str:
    """The expected text of src/headrace/cli/completion/grammar.json."""
    grammar = {**_verb("", _global_options), "verbs": dict(_verbs())}
    return json.dumps(grammar, indent=1, ensure_ascii=False) + "\n"


def _verbs() -> Iterator[tuple[str, Any]]:
    for name in VERBS:
        verb = load_verb(name)
        if isinstance(verb, typer.Typer):
            yield name, {"help": _first_sentence(str(verb.info.help)), "verbs": dict(_described(group_verbs(verb)))}
        else:
            yield from _described([(name, verb)])


def _described(verbs: Iterable[tuple[str, Callable[..., Any]]]) -> Iterator[tuple[str, Any]]:
    for name, verb in verbs:
        yield name, {"help": _first_sentence(verb.__doc__), **_verb(name, verb)}


def _verb(name: str, callback: Callable[..., Any] | None) -> dict[str, Any]:
    options: dict[str, Any] = {}
    arguments = []
    for parameter in parameters(callback):
        kind = _kind(name, parameter)
        if parameter.is_argument:
            arguments.append({"value": kind, "many": parameter.takes_many})
            continue
        for written in parameter.names:
            options[written] = {"help": str(parameter.info.help), "value": None if parameter.type is bool else kind}
    options["--help"] = {"help": "Show the help of the command.", "value": None}
    verb: dict[str, Any] = {"options": options}
    if arguments:
        verb["arguments"] = arguments
    return {**verb, "runs_script": True} if name == _SCRIPTS else verb


def _kind(verb: str, parameter: Parameter) -> Any:
    """What a value is: a list of words, a kind of names, or a mark for the shell; empty for any text."""
    metavar = str(parameter.info.metavar)
    if parameter.choices:
        return list(parameter.choices)
    for key in (f"{verb} {metavar}", *parameter.names, metavar):
        if key in _KINDS:
            return _KINDS[key] or ""
    if "|" in metavar and parameter.is_argument:
        return metavar.split("|")
    return _ARGUMENT_KINDS.get(metavar, "") if parameter.is_argument else ""


def _first_sentence(text: str | None) -> str:
    """What a shell shows beside a verb."""
    return " ".join((text or "").split("\n\n")[0].split()).split(". ")[0].rstrip(".")
