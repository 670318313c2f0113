"""The verb that makes a project from requirements: design."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.invocation import invocation_of
from headrace.errors import PipelineError

# Loaded by name, so that other verbs start without it.
DESIGNING = "headrace.cli.design_command"
COMPARING = "headrace.cli.design_diff"


def design(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The requirements, in YAML.")] = Path("requirements.yml"),
    questions: Annotated[  # noqa: FBT002 - an option of the command line
        bool, typer.Option("--questions", help="List the open questions. Exit with 2 if one needs an answer.")
    ] = False,
    ask: Annotated[  # noqa: FBT002 - the same
        bool, typer.Option("--ask", help="Ask the open questions, and write the answers into FILE.")
    ] = False,
    defaults: Annotated[bool, typer.Option("--defaults", help="Take the default of each open question.")] = False,  # noqa: FBT002 - the same
    sample: Annotated[
        list[str] | None,
        typer.Option(
            "--sample",
            metavar="PATH",
            help="Propose missing answers from records: JSON, CSV, Parquet, Avro, ORC. SOURCE=PATH if several.",
        ),
    ] = None,
    relative_to: Annotated[
        Path | None,
        typer.Option(
            "--relative-to", metavar="DIR", help="Folder that paths in FILE are relative to; by default that of FILE."
        ),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", metavar="DIR", help="Write the project into a folder.")] = None,
    diff: Annotated[  # noqa: FBT002 - the same
        bool, typer.Option("--diff", help="Show what the design would change in its project. Exit with 1 if it would.")
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace files of the folder that differ.")] = False,  # noqa: FBT002 - the same
) -> int:
    """Design a pipeline and its project from requirements.

    Prints the decisions with their reasons. With --out, writes a project with code, tests, sample data and a runbook.
    `headrace design --questions FILE` says what is still open. --sample measures records of a source, and proposes what
    the requirements do not say. --diff shows what today's rules would change in the project, and writes nothing.
    """
    modes = [name for name, given in (("--questions", questions), ("--ask", ask), ("--defaults", defaults)) if given]
    if len(modes) > 1:
        raise PipelineError("CLI.CONFLICT", first=modes[0], second=modes[1])
    for name, given in (("--questions", questions), ("--ask", ask), ("--force", force)):
        if diff and given:
            raise PipelineError("CLI.CONFLICT", first="--diff", second=name)
    if force and out is None:
        raise PipelineError("CLI.CONFLICT", first="--force", second="no --out")
    invocation = invocation_of(context)
    command = import_module(DESIGNING)
    requirements = command.RequirementsFile(file, relative_to)
    if diff:
        return int(import_module(COMPARING).run(invocation, requirements, out, sample or (), defaults=defaults))
    if questions:
        return int(command.print_questions(invocation, requirements, sample or ()))
    return int(command.run(invocation, requirements, out, (ask, defaults, force), sample or ()))
