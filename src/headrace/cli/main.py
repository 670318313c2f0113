"""The verbs of the command line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import typer

from headrace.cli.backfill import backfill
from headrace.cli.command_line import program, run_process, run_words
from headrace.cli.erase import erase
from headrace.cli.groups import GROUPS
from headrace.cli.init import completion, init, schema
from headrace.cli.inspect import explain, files, graph, lateness, preview, sql
from headrace.cli.lint import lint
from headrace.cli.maintain import maintain
from headrace.cli.metrics import metrics
from headrace.cli.open_project import Opener, open_project
from headrace.cli.script import exec_
from headrace.cli.status import events, status
from headrace.cli.update import plan, run, validate

_VERBS: tuple[tuple[str, Callable[..., int | None]], ...] = (
    ("init", init),
    ("validate", validate),
    ("plan", plan),
    ("run", run),
    ("backfill", backfill),
    ("graph", graph),
    ("status", status),
    ("events", events),
    ("metrics", metrics),
    ("maintain", maintain),
    ("sql", sql),
    ("preview", preview),
    ("lint", lint),
    ("files", files),
    ("lateness", lateness),
    ("explain", explain),
    ("erase", erase),
    ("schema", schema),
    ("completion", completion),
    ("exec", exec_),
)
# Unknown options belong to the script.
_OPEN = {"ignore_unknown_options": True}


def main() -> None:
    """Run the command line of this process and exit with its code."""
    run_process(_add_verbs)


def call(words: Sequence[str], opener: Opener = open_project) -> int:
    """Run one command line and return its exit code; prints errors instead of raising them."""
    return run_words(words, _add_verbs, opener)


def _app() -> typer.Typer:
    return program(_add_verbs)


def _add_verbs(app: typer.Typer) -> None:
    for name, verb in _VERBS:
        app.command(name, context_settings=_OPEN if verb is exec_ else None)(verb)
    app.command("dry-run", hidden=True, help="Same as validate.")(validate)
    for name, group in GROUPS.items():
        app.add_typer(group, name=name)
