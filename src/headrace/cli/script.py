"""``headrace exec``: runs a script or a notebook in a notebook session."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from headrace.cli.failures import DONE, FAILED, INTERRUPTED, show
from headrace.cli.invocation import Invocation, Verbosity, invocation_of
from headrace.errors import PipelineError

_DURATION = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?")
_UNITS_S = {"ms": 0.001, "s": 1.0, None: 1.0, "m": 60.0, "h": 3600.0}


def exec_(
    context: typer.Context,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A Python file, a notebook or a SQL file.")],
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[ARGS]...", help="The script's arguments (sys.argv).")
    ] = None,
    for_: Annotated[
        str | None, typer.Option("--for", metavar="60s", help="Stop the streams after this time: 500ms, 60s, 5m, 1h.")
    ] = None,
    until_idle: Annotated[  # noqa: FBT002 - an option of the command line
        bool, typer.Option("--until-idle", help="Stop the streams when all available input is processed.")
    ] = False,
    path: Annotated[
        list[str] | None,
        typer.Option("--path", metavar="BEGIN=PLACE", help="Map the path prefix BEGIN to PLACE. Can be repeated."),
    ] = None,
    connector: Annotated[
        list[str] | None,
        typer.Option("--connector", metavar="NAME", help="A connector that the script does not name. Can be repeated."),
    ] = None,
    widget: Annotated[
        list[str] | None,
        typer.Option("--widget", metavar="NAME=VALUE", help="A value for dbutils.widgets. Can be repeated."),
    ] = None,
) -> None:
    """Run a Structured Streaming script or notebook. Provides spark, dbutils and display."""
    invocation = invocation_of(context)
    limit_s = None if for_ is None else _seconds(for_)
    running = import_module("headrace.scripts.run_script")
    limits = import_module("headrace.scripts.stop_streams").Limits(limit_s, until_idle)
    with _output_of(invocation):
        end = running.run_script(
            file,
            arguments or (),
            limits,
            say=lambda text: _say(invocation, text),
            directory=invocation.location.directory,
            profile=invocation.location.profile,
            paths={prefix: _absolute(target) for prefix, target in _pairs("--path", path or ())},
            connectors=connector or (),
            widgets=dict(_pairs("--widget", widget or ())),
        )
    raise typer.Exit(_finish(invocation, end))


def _finish(invocation: Invocation, end: Any) -> int:
    sys.stdout.flush()
    if end.trace:
        sys.stderr.write(invocation.redact(end.trace))
    if invocation.as_json:
        invocation.result_redacted("", end.to_json())
    elif end.error is not None:
        show(end.error)
    if end.interrupted:
        return INTERRUPTED
    if end.error is not None:
        return FAILED
    return DONE if end.exit_code is None else int(end.exit_code)


@contextmanager
def _output_of(invocation: Invocation) -> Iterator[None]:
    """With JSON output, the script's own output goes to stderr."""
    if not invocation.as_json:
        yield
        return
    with redirect_stdout(sys.stderr):
        yield


def _say(invocation: Invocation, text: str) -> None:
    if invocation.verbosity is not Verbosity.QUIET:
        sys.stderr.write(f"{invocation.redact(text)}\n")


def _seconds(text: str) -> float:
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        raise PipelineError("CLI.DURATION", option="--for", given=text)
    return float(found[1]) * _UNITS_S[found[2]]


def _pairs(option: str, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    for text in texts:
        name, separator, value = text.partition("=")
        if not separator or not name:
            raise PipelineError("CLI.NOT_PAIR", option=option, given=text)
        yield name, value


def _absolute(text: str) -> str:
    return text if "://" in text else str(Path(text).absolute())
