"""``headrace backfill``: runs a stream's query as a batch over a part of its input."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from headrace.cli.invocation import invocation_of
from headrace.cli.live_display import display_for
from headrace.cli.update import finish
from headrace.cli.update_options import Settings, configuration_of
from headrace.plan.backfills import BackfillRequest

_POSITION = "earliest|latest|version:N|timestamp:T"


def backfill(
    context: typer.Context,
    name: Annotated[str, typer.Argument(metavar="FLOW", help="An append flow, or its table.")],
    start: Annotated[str, typer.Option("--from", metavar=_POSITION, help="The start of the range.")] = "earliest",
    end: Annotated[str, typer.Option("--to", metavar=_POSITION, help="The end of the range (exclusive).")] = "latest",
    again: Annotated[bool, typer.Option("--again", help="Include rows that were or will be read.")] = False,  # noqa: FBT002 - an option of the command line
    abandon: Annotated[bool, typer.Option("--abandon", help="Give up an interrupted backfill.")] = False,  # noqa: FBT002 - the same
    settings: Settings = None,
) -> None:
    """Run a stream's query as a batch over a range of its input.

    Each row is written to the table exactly once. A new stream starts after the range.
    """
    invocation = invocation_of(context)
    display = display_for(invocation, time.monotonic)
    project = invocation.open(configuration_of(settings))
    with display.shown():
        outcome = project.backfill(BackfillRequest(name, start, end, again, abandon), on_event=display.on_event)
    finish(outcome, invocation)
