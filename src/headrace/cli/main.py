"""The entry point: global options, the verbs, and error handling."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Annotated, Any

import typer

from headrace.cli.arguments import hoist_global_options, wants_json
from headrace.cli.failures import (
    DONE,
    INTERRUPTED,
    Terminated,
    report,
    report_defect,
    report_os_error,
    report_usage,
)
from headrace.cli.invocation import Invocation, Output, Verbosity, invocation_of
from headrace.cli.open_project import Opener, ProjectLocation, open_project
from headrace.cli.parameter_values import with_plain_values
from headrace.cli.verbs import VerbGroup
from headrace.errors import HeadraceError, PipelineError, Problems
from headrace.model.version import __version__

# Longer lines are hard to read.
_WIDEST_HELP = 120


def main() -> None:
    """Run the command line of this process and exit with its code."""
    signal.signal(signal.SIGTERM, _terminated)
    code = call(sys.argv[1:])
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_stdout()
    sys.exit(code)


def _terminated(_number: int, _frame: FrameType | None) -> None:
    raise Terminated


def call(words: Sequence[str], opener: Opener = open_project) -> int:
    """Run one command line and return its exit code; prints errors instead of raising them."""
    invocation = Invocation(opener, output=Output.JSON if wants_json(words) else Output.TEXT)
    try:
        returned: Any = with_plain_values(typer.main.get_command(_app()))(
            hoist_global_options(words), prog_name="headrace", standalone_mode=False, obj=invocation
        )
    except (PipelineError, Problems) as error:
        return report(error, invocation)
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the output, such as head, has closed it.
        _drop_stdout()
        return DONE
    except HeadraceError as error:
        return report_defect(error, invocation)
    except OSError as error:
        return report_os_error(error, invocation)
    except Exception as error:  # noqa: BLE001 - the last place that can keep a traceback from the reader
        reason = _usage_reason(error)
        return report_usage(reason, invocation) if reason else report_defect(error, invocation)
    return returned if isinstance(returned, int) else DONE


def _app() -> typer.Typer:
    app = typer.Typer(
        cls=VerbGroup,
        help="Streaming tables for open-source Spark.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": _WIDEST_HELP},
    )
    app.callback()(_global_options)
    return app


def _show_version(requested: bool) -> None:  # noqa: FBT001 - called by the parser of options
    if requested:
        sys.stdout.write(f"headrace {__version__}\n")
        raise typer.Exit


def _global_options(
    context: typer.Context,
    project: Annotated[
        Path | None, typer.Option("--project", metavar="DIR", help="The project folder, or a folder in it.")
    ] = None,
    output: Annotated[Output, typer.Option("--output", help="The output format.")] = Output.TEXT,
    profile: Annotated[str | None, typer.Option("--profile", metavar="NAME", help="The settings profile.")] = None,
    verbose: Annotated[bool, typer.Option("-v", "--verbose", help="Print more details.")] = False,  # noqa: FBT002 - an option of the command line
    quiet: Annotated[bool, typer.Option("-q", "--quiet", help="Print only results and errors.")] = False,  # noqa: FBT002 - the same
    version: Annotated[  # noqa: ARG001, FBT002 - an option of the command line, handled by its callback
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    if verbose and quiet:
        raise PipelineError("CLI.CONFLICT", first="-v", second="-q")
    invocation = invocation_of(context)
    invocation.location = ProjectLocation(project, profile)
    invocation.output = output
    if verbose or quiet:
        invocation.verbosity = Verbosity.VERBOSE if verbose else Verbosity.QUIET


def _usage_reason(error: Exception) -> str | None:
    """The message of a usage error, or None for any other exception."""
    # Duck typing: the class is private to the parser, and moved between its releases.
    describe = getattr(error, "format_message", None)
    return str(describe()) if callable(describe) else None


def _drop_stdout() -> None:
    # The interpreter flushes stdout once more at exit.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
