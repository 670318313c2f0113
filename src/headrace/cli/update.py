"""The verbs that run or check an update: validate and run."""

from __future__ import annotations

import time
from typing import NoReturn

import typer

from headrace.cli.failures import DONE, FAILED, INTERRUPTED, Terminated
from headrace.cli.invocation import Invocation, Verbosity, invocation_of
from headrace.cli.live_display import display_for
from headrace.cli.summary import log_of, outcome_text
from headrace.cli.update_options import (
    AcceptDataLoss,
    Cause,
    Cold,
    Continuous,
    Exclude,
    FullRefresh,
    FullRefreshAll,
    Refresh,
    RequestId,
    ResetCheckpoint,
    Settings,
    Wait,
    checked_request_id,
    configuration_of,
    request_of,
)
from headrace.model.outcome import Outcome, UpdateCause, UpdateState

_EXIT_CODES = {UpdateState.COMPLETED: DONE, UpdateState.FAILED: FAILED, UpdateState.CANCELED: INTERRUPTED}


def validate(
    context: typer.Context,
    settings: Settings = None,
    cold: Cold = False,  # noqa: ARG001, FBT002 - an option of the command line, which `cli/warm.py` reads
    wait: Wait = False,  # noqa: ARG001, FBT002 - an option of the command line, which `cli/warm.py` reads
) -> None:
    """Check the whole project and report all problems. Writes nothing."""
    invocation = invocation_of(context)
    graph = invocation.open(configuration_of(settings)).validate()
    invocation.result_redacted(f"{graph.describe()}\n\nthe pipeline is valid", graph.to_json())


def run(
    context: typer.Context,
    refresh: Refresh = None,
    full_refresh: FullRefresh = None,
    full_refresh_all: FullRefreshAll = False,  # noqa: FBT002 - an option of the command line
    exclude: Exclude = None,
    reset_checkpoint: ResetCheckpoint = None,
    accept_data_loss: AcceptDataLoss = False,  # noqa: FBT002 - the same
    continuous: Continuous = False,  # noqa: FBT002 - the same
    cause: Cause = UpdateCause.USER_ACTION,
    request_id: RequestId = None,
    settings: Settings = None,
    cold: Cold = False,  # noqa: ARG001, FBT002 - an option of the command line, which `cli/warm.py` reads
    wait: Wait = False,  # noqa: ARG001, FBT002 - an option of the command line, which `cli/warm.py` reads
) -> None:
    """Run one update: process new data and show the result."""
    selection, configuration = request_of(
        refresh or (),
        full_refresh or (),
        everything=full_refresh_all,
        settings=settings or (),
        exclude=exclude or (),
        resets=reset_checkpoint or (),
        lossy=accept_data_loss,
    )
    request = checked_request_id(request_id)
    invocation = invocation_of(context)
    display = display_for(invocation, time.monotonic)
    project = invocation.open(configuration)
    try:
        with display.shown():
            outcome = project.run(
                selection.refresh,
                selection.full_refresh,
                full_refresh_all=selection.full_refresh_all,
                exclude=selection.exclude,
                reset_checkpoint=selection.reset_checkpoint,
                accept_data_loss=selection.accept_data_loss,
                continuous=continuous or None,
                cause=cause,
                request_id=request,
                on_event=display.on_event,
            )
    except Terminated:
        # A service manager may stop a continuous update even before it starts.
        raise typer.Exit(DONE if continuous or project.continuous else INTERRUPTED) from None
    finish(outcome, invocation)


def finish(outcome: Outcome, invocation: Invocation) -> NoReturn:
    """Print the result of an update, and exit with its code."""
    _show(outcome, invocation)
    raise typer.Exit(_EXIT_CODES.get(outcome.state, FAILED))


def _show(outcome: Outcome, invocation: Invocation) -> None:
    text = outcome_text(outcome, log=log_of(outcome, invocation.location.logs()), width=invocation.width)
    if invocation.as_json or invocation.verbosity is not Verbosity.QUIET or outcome.state is UpdateState.FAILED:
        invocation.result(text, outcome.to_json())
    if invocation.as_json and outcome.state is UpdateState.FAILED:
        invocation.say(text)
