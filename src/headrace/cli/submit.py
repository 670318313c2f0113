"""The verb that runs another verb on a cluster, with spark-submit."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.invocation import Invocation, Verbosity, invocation_of
from headrace.cli.update_options import configuration_of
from headrace.connectors.fetch import jars
from headrace.project.submission.command import DEFAULT_ENTRY, DeployMode, SubmitRequest, Tools, submit_command
from headrace.project.submission.process import installed_spark, run_submitted

_ENTRY = Path(__file__).parents[1] / "__main__.py"


def submit(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[-- VERB ...]", help="The verb to run with its options (default: run)."),
    ] = None,
    *,
    shown: Annotated[bool, typer.Option("--print", help="Print the command instead of running it.")] = False,
    master: Annotated[
        str | None, typer.Option("--master", metavar="URL", help="The master of the cluster (default: the settings').")
    ] = None,
    mode: Annotated[
        DeployMode | None,
        typer.Option("--deploy-mode", metavar="MODE", help="Where the driver runs: client (here) or cluster."),
    ] = None,
    conf: Annotated[
        list[str] | None,
        typer.Option(
            "--conf", metavar="KEY=VALUE", help="A Spark setting that overrides `spark_conf`. Can be repeated."
        ),
    ] = None,
    entry: Annotated[
        str,
        typer.Option("--entry", metavar="FILE", help="With a driver in the cluster: the file in its image to run."),
    ] = DEFAULT_ENTRY,
) -> None:
    """Run an update on a cluster with spark-submit; exits with its code."""
    invocation = invocation_of(context)
    settings = invocation.location.settings()
    request = SubmitRequest(
        (*_global_options(invocation), *(words or ("run",))), master, mode, configuration_of(conf), entry
    )
    tools = Tools(
        installed_spark(),
        sys.executable,
        _ENTRY,
        lambda names: jars(names, environ=os.environ),
        os.environ.get("HEADRACE_MASTER"),
    )
    command = submit_command(settings, request, tools)
    if shown:
        invocation.result(command.describe(), command.to_json(), folds=False)
        return
    raise typer.Exit(run_submitted(command, os.environ))


def _global_options(invocation: Invocation) -> tuple[str, ...]:
    if invocation.as_json:
        # Spark writes both outputs of the driver into one.
        return ("--output", "json", "-q")
    levels = {Verbosity.QUIET: ("-q",), Verbosity.NORMAL: (), Verbosity.VERBOSE: ("-v",)}
    return levels[invocation.verbosity]
