"""The verb apply: runs the update of a plan, or swaps its stage in."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer

from headrace.cli.invocation import Invocation, invocation_of
from headrace.cli.live_display import display_for
from headrace.cli.plan_files import read_plan
from headrace.cli.stage import show_swapped
from headrace.cli.update import finish
from headrace.cli.update_options import Settings, configuration_of
from headrace.plan.plan_file import PlanFile
from headrace.project.staging.swaps import SwapRequest


def apply(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A plan that `headrace plan --out` has written.")],
    savepoint: Annotated[  # noqa: FBT002 - an option of the command line
        bool, typer.Option("--savepoint/--no-savepoint", help="First make a savepoint, for `headrace rollback`.")
    ] = True,
    settings: Settings = None,
) -> None:
    """Run the update of a plan, or swap its stage in, if nothing but data has changed since."""
    invocation = invocation_of(context)
    found = read_plan(file)
    if found.stage:
        _swap(invocation, found, str(file), configuration_of(settings), savepoint=savepoint)
        return
    display = display_for(invocation, time.monotonic)
    project = invocation.open(configuration_of(settings))
    with display.shown():
        outcome = project.changes.apply(found, str(file), on_event=display.on_event, savepoint=savepoint)
    finish(outcome, invocation)


def _swap(
    invocation: Invocation, plan_file: PlanFile, file: str, configuration: Mapping[str, str], *, savepoint: bool
) -> None:
    swaps = invocation.open(configuration).stages.swaps
    show_swapped(invocation, plan_file.stage, swaps.swap(SwapRequest.of(plan_file, file, savepoint=savepoint)))
