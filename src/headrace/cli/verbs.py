"""The verbs, each imported when it is used: to import all of them takes ten times as long as `status` does."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

import typer
from typer.core import TyperCommand, TyperGroup

from headrace.cli.completion.answer import grammar
from headrace.cli.parameter_values import with_plain_values

Verb: TypeAlias = "Callable[..., int | None] | typer.Typer"

# Where each verb, and each group of verbs such as `checkpoints list`, is; in the order of the help.
VERBS = {
    "init": "init:init",
    "design": "design:design",
    "validate": "update:validate",
    "plan": "changes:plan",
    "approve": "changes:approve",
    "apply": "apply:apply",
    "run": "update:run",
    "dev": "dev:dev",
    "submit": "submit:submit",
    "backfill": "backfill:backfill",
    "adopt": "adopt:adopt",
    "release": "adopt:release",
    "graph": "inspect:graph",
    "status": "status:status",
    "events": "status:events",
    "metrics": "metrics:metrics",
    "trace": "trace:trace",
    "doctor": "doctor:doctor",
    "check": "doctor:check",
    "maintain": "maintain:maintain",
    "sql": "inspect:sql",
    "preview": "inspect:preview",
    "diff": "diff:diff",
    "lint": "lint:lint",
    "files": "inspect:files",
    "lateness": "inspect:lateness",
    "explain": "inspect:explain",
    "erase": "erase:erase",
    "schema": "init:schema",
    "completion": "init:completion",
    "exec": "script:exec_",
    "quarantine": "quarantine:app",
    "alerts": "alerts:app",
    "checkpoints": "checkpoints:app",
    "savepoint": "savepoint:app",
    "rollback": "savepoint:rollback",
    "stage": "stage:app",
    "state": "state:app",
    "assist": "assist:app",
    "mcp": "assist:mcp",
    "serve": "serve:serve",
    "worker": "worker:app",
    "schedules": "schedules:app",
    "tokens": "tokens:app",
    "docs": "docs:app",
    "practice": "practice:app",
    "jars": "jars:app",
    "fs": "fs:app",
}
# Other names of verbs, which the help does not list.
_HIDDEN = {"dry-run": "validate"}
# Unknown options belong to the script.
_SETTINGS = {"exec": {"ignore_unknown_options": True}}


def load_verb(name: str) -> Verb:
    """The function of a verb, or the app of a group."""
    module, _, attribute = VERBS[name].partition(":")
    found: Verb = getattr(import_module(f"headrace.cli.{module}"), attribute)
    return found


class VerbGroup(TyperGroup):
    """All verbs as a group of commands. Its help is from the grammar for completion, and imports none of them."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**{**attributes, "commands": dict.fromkeys((*VERBS, *_HIDDEN))})

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a verb; None for an unknown one."""
        del ctx
        return _command(cmd_name) if cmd_name in self.commands else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of verbs."""
        listed: dict[str, Any] = {
            name: TyperCommand(name, help=f"{verb['help']}.") for name, verb in grammar()["verbs"].items()
        }
        TyperGroup(name=self.name, commands=listed).format_commands(ctx, formatter)


def _command(name: str) -> Any:
    """The parser's command of a verb, made as a part of an app, which gives it the settings of a part."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None)
    app.callback()(lambda: None)
    verb = load_verb(_HIDDEN.get(name, name))
    if isinstance(verb, typer.Typer):
        app.add_typer(verb, name=name)
    elif name in _HIDDEN:
        app.command(name, hidden=True, help=f"Same as {_HIDDEN[name]}.")(verb)
    else:
        app.command(name, context_settings=_SETTINGS.get(name))(verb)
    return with_plain_values(typer.main.get_group(app).commands[name])
