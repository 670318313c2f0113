"""The options of an update, and their values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated

import typer

from headrace.cli.arguments import names_in
from headrace.errors import PipelineError, raise_all
from headrace.graph.select import Selection
from headrace.model.outcome import UpdateCause

_REQUEST_ID = re.compile(r"[A-Za-z0-9._:@-]{1,100}")

Refresh = Annotated[
    list[str] | None,
    typer.Option(
        "--refresh",
        metavar="A,B",
        help="Update only these datasets. Each is a name; name+ with all below, +name with all above; or tag:, kind:, "
        "source: or state:modified. Can be repeated.",
    ),
]
FullRefresh = Annotated[
    list[str] | None,
    typer.Option("--full-refresh", metavar="A,B", help="Clear and recompute these datasets, selected as by --refresh."),
]
FullRefreshAll = Annotated[bool, typer.Option("--full-refresh-all", help="Clear and recompute all datasets.")]
Exclude = Annotated[
    list[str] | None,
    typer.Option("--exclude", metavar="A,B", help="Leave these datasets out, selected as by --refresh."),
]
ResetCheckpoint = Annotated[
    list[str] | None,
    typer.Option(
        "--reset-checkpoint",
        metavar="FLOW[=START]",
        help="Reset the checkpoints of these flows and keep their tables. START: earliest (default), latest, version:N "
        "or timestamp:T. A selector such as orders+ or tag:nightly means all streams into its datasets. Separate flows "
        "with commas. Can be repeated.",
    ),
]
AcceptDataLoss = Annotated[
    bool, typer.Option("--accept-data-loss", help="Let a full refresh clear rows that cannot be read again.")
]
Continuous = Annotated[bool, typer.Option("--continuous", help="Run until stopped, like `continuous: true`.")]
Cause = Annotated[
    UpdateCause,
    typer.Option(
        "--cause",
        metavar="CAUSE",
        case_sensitive=False,
        help=f"Why the update runs, for the event log: {', '.join(cause.value for cause in UpdateCause)}.",
    ),
]
RequestId = Annotated[
    str | None,
    typer.Option(
        "--request-id",
        metavar="ID",
        help="An id of your own, up to 100 letters, digits and -_.:@. If an update with this id has run, nothing runs, "
        "and its result is shown.",
    ),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Set a key of `configuration`. Can be repeated.")
]

# The process that the user starts reads these two, before the verb's own options are parsed.
Cold = Annotated[bool, typer.Option("--cold", help="Do not use the worker of the project.")]
Wait = Annotated[bool, typer.Option("--wait", help="If the worker of the project is busy, wait for it.")]


def request_of(
    refresh: Sequence[str],
    full_refresh: Sequence[str],
    *,
    everything: bool,
    settings: Sequence[str],
    exclude: Sequence[str] = (),
    resets: Sequence[str] = (),
    lossy: bool = False,
) -> tuple[Selection, dict[str, str]]:
    """The selection and the configuration that the options describe.

    Raises:
        Problems: CLI.CONFLICT or CLI.OVERLAP if options contradict each other, CLI.USAGE for an empty list,
            CLI.NOT_KEY_VALUE, or CLI.KEY_TWICE if a key has two values.
    """
    selection = Selection(
        names_in(refresh), names_in(full_refresh), everything, names_in(resets), lossy, names_in(exclude)
    )
    problems: list[PipelineError] = []
    for option, given, names in (
        ("--refresh", refresh, selection.refresh),
        ("--full-refresh", full_refresh, selection.full_refresh),
        ("--exclude", exclude, selection.exclude),
    ):
        if given and not names:
            problems.append(PipelineError("CLI.USAGE", reason=f'option "{option}" names no dataset'))
        if given and everything and option != "--exclude":
            problems.append(PipelineError("CLI.CONFLICT", first="--full-refresh-all", second=option))
    if resets and not selection.reset_checkpoint:
        problems.append(PipelineError("CLI.USAGE", reason='option "--reset-checkpoint" names no flow'))
    cleared = {name.casefold() for name in selection.full_refresh}
    twice = [name for name in selection.refresh if name.casefold() in cleared]
    problems += [PipelineError("CLI.OVERLAP", name=name) for name in twice]
    configuration = _configuration(settings, problems)
    raise_all(problems)
    return selection, configuration


def checked_request_id(text: str | None) -> str | None:
    """The id of a request.

    Raises:
        PipelineError: CLI.USAGE: it has other characters.
    """
    if text is not None and not _REQUEST_ID.fullmatch(text):
        reason = 'option "--request-id" takes up to 100 letters, digits and -_.:@'
        raise PipelineError("CLI.USAGE", reason=reason)
    return text


def configuration_of(settings: Sequence[str] | None) -> dict[str, str]:
    """The configuration of the ``--set`` options.

    Raises:
        Problems: CLI.NOT_KEY_VALUE, or CLI.KEY_TWICE if a key has two values.
    """
    return request_of((), (), everything=False, settings=settings or ())[1]


def _configuration(settings: Sequence[str], problems: list[PipelineError]) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in settings:
        key, equals, value = text.partition("=")
        key = key.strip()
        if not equals or not key:
            # The text may be a password without its key, so it is not repeated.
            problems.append(PipelineError("CLI.NOT_KEY_VALUE", number=settings.index(text) + 1))
        elif found.setdefault(key, value) != value:
            problems.append(PipelineError("CLI.KEY_TWICE", key=key))
    return found
