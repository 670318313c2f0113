"""The grammar of the command line for completion in shells, generated from the commands."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import typer

from command_line_page import Parameter, parameters
from headrace.assistant.knowledge.generated import ERRORS, RULES
from headrace.assistant.knowledge.library import library
from headrace.cli.completion.candidates import FILES, FOLDERS
from headrace.cli.init import templates
from headrace.cli.main import _app
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
    app = _app()
    callback = app.registered_callback.callback if app.registered_callback else None
    grammar = {**_verb("", callback), "verbs": _verbs(app)}
    return json.dumps(grammar, indent=1, ensure_ascii=False) + "\n"


def _verbs(app: typer.Typer) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for command in app.registered_commands:
        if command.callback is not None and not command.hidden:
            name = command.name or command.callback.__name__
            found[name] = {"help": _first_sentence(command.callback.__doc__), **_verb(name, command.callback)}
    for group in app.registered_groups:
        if group.typer_instance is not None and group.name is not None:
            about = str(group.typer_instance.info.help)
            found[group.name] = {"help": _first_sentence(about), "verbs": _verbs(group.typer_instance)}
    return found


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
