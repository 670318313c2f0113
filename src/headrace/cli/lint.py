"""The verb that finds code that cannot work or is a trap: lint."""

from __future__ import annotations

from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.invocation import Output, invocation_of
from headrace.errors import PipelineError

# Loaded by name, so that other verbs start without it.
LINTING = "headrace.cli.lint_command"
_FIXING = "headrace.cli.lint_fixes"


class LintFormat(str, Enum):
    """How findings are printed."""

    TEXT = "text"
    JSON = "json"
    SARIF = "sarif"


def lint(
    context: typer.Context,
    files: Annotated[
        list[Path] | None,
        typer.Argument(metavar="FILES", help="Files and folders. Default: the project's transformations."),
    ] = None,
    form: Annotated[LintFormat | None, typer.Option("--format", help="The output format.")] = None,
    select: Annotated[
        list[str] | None, typer.Option("--select", metavar="RULES", help="Check only these rules. Can be repeated.")
    ] = None,
    ignore: Annotated[
        list[str] | None, typer.Option("--ignore", metavar="RULES", help="Check all rules except these.")
    ] = None,
    fix: Annotated[bool, typer.Option("--fix", help="Fix findings whose fix is certain.")] = False,  # noqa: FBT002 - an option of the command line
    diff: Annotated[bool, typer.Option("--diff", help="Show what --fix would change. Writes nothing.")] = False,  # noqa: FBT002 - the same
) -> int:
    """Find code that fails or misbehaves on open-source Spark. Shows the replacement. Runs nothing."""
    invocation = invocation_of(context)
    if form is LintFormat.JSON:
        invocation.output = Output.JSON
    elif form is not None and invocation.as_json:
        raise PipelineError("CLI.CONFLICT", first="--output json", second=f"--format {form.value}")
    chosen = LintFormat.JSON if invocation.as_json else form or LintFormat.TEXT
    if fix or diff:
        if chosen is LintFormat.SARIF:
            raise PipelineError("CLI.CONFLICT", first="--fix" if fix else "--diff", second="--format sarif")
        selection = (select or (), ignore or ())
        return int(import_module(_FIXING).run(invocation, files or (), selection, writes=not diff))
    return int(import_module(LINTING).run(invocation, files or (), chosen, (select or (), ignore or ())))
