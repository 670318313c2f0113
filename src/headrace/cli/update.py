"""The verbs that load a pipeline's files: validate, plan and run."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from headrace.cli.arguments import names_in
from headrace.cli.failures import DONE, FAILED, INTERRUPTED
from headrace.cli.invocation import Invocation, Loudness, invocation_of
from headrace.cli.live import display_for
from headrace.cli.summary import outcome_text
from headrace.errors import PipelineError, raise_all
from headrace.graph.select import Selection
from headrace.model.outcome import Outcome, UpdateState

Refresh = Annotated[
    list[str] | None, typer.Option("--refresh", metavar="A,B", help="Update these datasets only; may be repeated.")
]
FullRefresh = Annotated[
    list[str] | None, typer.Option("--full-refresh", metavar="A,B", help="Clear these datasets and compute them anew.")
]
FullRefreshAll = Annotated[bool, typer.Option("--full-refresh-all", help="Clear everything and compute it anew.")]
ResetCheckpoint = Annotated[
    list[str] | None,
    typer.Option(
        "--reset-checkpoint",
        metavar="FLOW[=START]",
        help="Drop the progress of these flows and keep their tables. START: earliest (default), latest, version:N or "
        "timestamp:T. Several with commas; may be repeated.",
    ),
]
AcceptDataLoss = Annotated[
    bool, typer.Option("--accept-data-loss", help="Let a full refresh clear what cannot be read again.")
]
Continuous = Annotated[bool, typer.Option("--continuous", help="Go on until stopped, as `continuous: true` does.")]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a key of `configuration`; may be repeated.")
]
_EXIT_CODES = {UpdateState.COMPLETED: DONE, UpdateState.FAILED: FAILED, UpdateState.CANCELED: INTERRUPTED}


def validate(context: typer.Context, settings: Settings = None) -> None:
    """Check everything short of writing, and report all problems at once."""
    invocation = invocation_of(context)
    _, configuration = request_of((), (), everything=False, settings=settings or ())
    graph = invocation.open(configuration).validate()
    invocation.described(f"{graph.describe()}\n\nthe pipeline is valid", graph.to_json())


def plan(
    context: typer.Context,
    refresh: Refresh = None,
    full_refresh: FullRefresh = None,
    full_refresh_all: FullRefreshAll = False,  # noqa: FBT002 - an option of the command line
    reset_checkpoint: ResetCheckpoint = None,
    accept_data_loss: AcceptDataLoss = False,  # noqa: FBT002 - the same
    settings: Settings = None,
) -> None:
    """Say what `run` would do and why, step by step; writes nothing."""
    selection, configuration = request_of(
        refresh or (),
        full_refresh or (),
        everything=full_refresh_all,
        settings=settings or (),
        resets=reset_checkpoint or (),
        lossy=accept_data_loss,
    )
    invocation = invocation_of(context)
    found = invocation.open(configuration).plan(selection)
    invocation.described(found.describe(), found.to_json())


def run(
    context: typer.Context,
    refresh: Refresh = None,
    full_refresh: FullRefresh = None,
    full_refresh_all: FullRefreshAll = False,  # noqa: FBT002 - an option of the command line
    reset_checkpoint: ResetCheckpoint = None,
    accept_data_loss: AcceptDataLoss = False,  # noqa: FBT002 - the same
    continuous: Continuous = False,  # noqa: FBT002 - the same
    settings: Settings = None,
) -> None:
    """Run one update: take what is new, and say what became of every flow."""
    selection, configuration = request_of(
        refresh or (),
        full_refresh or (),
        everything=full_refresh_all,
        settings=settings or (),
        resets=reset_checkpoint or (),
        lossy=accept_data_loss,
    )
    invocation = invocation_of(context)
    display = display_for(invocation, time.monotonic)
    project = invocation.open(configuration)
    with display.shown():
        outcome = project.run(
            selection.refresh,
            selection.full_refresh,
            full_refresh_all=selection.full_refresh_all,
            reset_checkpoint=selection.reset_checkpoint,
            accept_data_loss=selection.accept_data_loss,
            continuous=continuous or None,
            on_event=display.on_event,
        )
    finish(outcome, invocation)


def request_of(
    refresh: Sequence[str],
    full_refresh: Sequence[str],
    *,
    everything: bool,
    settings: Sequence[str],
    resets: Sequence[str] = (),
    lossy: bool = False,
) -> tuple[Selection, dict[str, str]]:
    """The selection and the configuration behind the options.

    Raises:
        Problems: CLI.CONFLICT or CLI.OVERLAP when options contradict each other, CLI.USAGE for an empty list,
            CLI.NOT_KEY_VALUE, or CLI.KEY_TWICE when a key was given two values.
    """
    selection = Selection(names_in(refresh), names_in(full_refresh), everything, names_in(resets), lossy)
    problems: list[PipelineError] = []
    for option, given, names in (
        ("--refresh", refresh, selection.refresh),
        ("--full-refresh", full_refresh, selection.full_refresh),
    ):
        if given and not names:
            problems.append(PipelineError("CLI.USAGE", reason=f'option "{option}" names no dataset'))
        if given and everything:
            problems.append(PipelineError("CLI.CONFLICT", first="--full-refresh-all", second=option))
    if resets and not selection.reset_checkpoint:
        problems.append(PipelineError("CLI.USAGE", reason='option "--reset-checkpoint" names no flow'))
    cleared = {name.casefold() for name in selection.full_refresh}
    twice = [name for name in selection.refresh if name.casefold() in cleared]
    problems += [PipelineError("CLI.OVERLAP", name=name) for name in twice]
    configuration = _configuration(settings, problems)
    raise_all(problems)
    return selection, configuration


def _configuration(settings: Sequence[str], problems: list[PipelineError]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            # The text may hold a password that lost its key, so it is not repeated.
            problems.append(PipelineError("CLI.NOT_KEY_VALUE", number=settings.index(text) + 1))
        elif found.setdefault(key, value) != value:
            problems.append(PipelineError("CLI.KEY_TWICE", key=key))
    return found


def log_of(outcome: Outcome, folder: Path | None) -> Path | None:
    """The log file of an update that failed, or the folder of logs; None when there is neither, or it did not fail."""
    if outcome.state is not UpdateState.FAILED or folder is None or not folder.is_dir():
        return None
    own = folder / f"{outcome.update_id}.log"
    return own if own.is_file() else folder


def finish(outcome: Outcome, invocation: Invocation) -> NoReturn:
    """Say what became of an update, and exit with its code."""
    _show(outcome, invocation)
    raise typer.Exit(_EXIT_CODES.get(outcome.state, FAILED))


def _show(outcome: Outcome, invocation: Invocation) -> None:
    text = outcome_text(outcome, log=log_of(outcome, invocation.place.logs()))
    if invocation.as_json or invocation.loudness is not Loudness.QUIET or outcome.state is UpdateState.FAILED:
        invocation.result(text, outcome.to_json())
    if invocation.as_json and outcome.state is UpdateState.FAILED:
        invocation.say(text)
