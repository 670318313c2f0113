"""Turns exceptions into exit codes and messages; no Python traceback reaches a terminal.

Exit codes are those of the contract: 1 the update or query failed, 2 the project or the command line is wrong,
3 another update holds the lease, 4 an approval or a confirmation is missing, 5 something has changed since the plan was
made, 130 interrupted.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from headrace.cli.invocation import Invocation, error_console, print_folded
from headrace.cli.printable import json_text, printable
from headrace.cli.terminal import folded, width_of
from headrace.errors import PipelineError, Problems, problems_of
from headrace.settings.storage import DISK_FULL

DONE, FAILED, WRONG, LEASED, UNAPPROVED, DRIFTED, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived while nothing was running that could be stopped in an orderly way."""


def exit_code_of(error: PipelineError | Problems) -> int:
    """The exit code of an error; of several problems, the greatest."""
    return max(problem.condition.exit_code for problem in problems_of(error))


def report(error: PipelineError | Problems, invocation: Invocation) -> int:
    """Show every problem, and return the exit code."""
    problems = problems_of(error)
    if invocation.as_json:
        _print_json((problem.to_json() for problem in problems), invocation.more_of_error)
    else:
        for problem in problems:
            show(problem)
        if len(problems) > 1:
            print_folded(error_console(), f"{len(problems)} problems")
    return exit_code_of(error)


def report_usage(reason: str, invocation: Invocation) -> int:
    """Show a usage error, and return the exit code."""
    return report(PipelineError("CLI.USAGE", reason=_as_message(reason)), invocation)


def report_os_error(error: OSError, invocation: Invocation) -> int:
    """Report a full disk, or a defect for any other error of the system; returns the exit code."""
    if error.errno not in DISK_FULL:
        return report_defect(error, invocation)
    suffix = f" for {error.filename}" if error.filename else ""
    return report(PipelineError("STORAGE.FULL", reason=f"{error.strerror}{suffix}"), invocation)


def report_defect(error: Exception, invocation: Invocation) -> int:
    """Write an unexpected exception to a log file, and report it in one line."""
    log = _write_log(invocation.redact("".join(traceback.format_exception(error))), invocation.location.logs())
    message = printable(f"{type(error).__name__}: {(invocation.redact(str(error)).splitlines() or [''])[0]}")
    if invocation.as_json:
        _print_json([_internal(message, str(log))], {})
    else:
        text = f"error[INTERNAL]: unexpected {message} (a bug in Headrace, please report it with {log})"
        print_folded(error_console(), text)
    return FAILED


def show(error: PipelineError) -> None:
    """Print one problem as text, with the headline in colour on a terminal."""
    from rich.text import Text  # noqa: PLC0415 - slow to import, and most calls print no error

    console = error_console()
    width = width_of(console)
    headline, *rest = printable(error.render(), keep="\n").splitlines()
    first, *continued = folded(headline, width).splitlines()
    code, colon, message = first.partition(":")
    console.print(Text.assemble((code, "bold red"), (colon + message, "bold")))
    for line in continued:
        console.print(Text(line, "bold"))
    for line in folded("\n".join(rest), width).splitlines():
        label, colon, text = line.partition(":")
        labelled = colon and label.strip() in ("detail", "hint")
        console.print(Text.assemble((f"{label}:", "cyan"), text) if labelled else Text(line))


def error_from_json(error: Mapping[str, Any], *, limit: int, width: int | None = None) -> list[str]:
    """The lines of an error given as JSON: the user's line first, at most *limit* in all unless its message is longer.

    They are folded to *width*.
    """
    location = error.get("location") or {}
    lines = []
    if location.get("file"):
        place = f"{location['file']}:{location['line']}" if location.get("line") else str(location["file"])
        lines.append(printable(place))
    lines += _lines_of(f"error[{error.get('code', 'UNKNOWN')}]: {error.get('message', '')}", width)
    hint = _lines_of(f"  hint: {error['hint']}", width) if error.get("hint") else []
    detail = [line for text in str(error.get("detail") or "").splitlines() for line in _lines_of(f"  {text}", width)]
    room = max(limit - len(lines) - len(hint), 1)
    if len(detail) > room:
        detail = [*detail[: room - 1], "  (more in the log)"]
    return [*lines, *detail, *hint]


def _lines_of(text: str, width: int | None) -> list[str]:
    return folded(printable(text), width).split("\n")


def _print_json(problems: Iterable[Mapping[str, Any]], more: Mapping[str, Any]) -> None:
    everything = list(problems)
    sys.stdout.write(json_text({"error": everything[0], "problems": everything, **more}) + "\n")
    sys.stdout.flush()


def _internal(message: str, log: str) -> dict[str, Any]:
    return {
        "code": "INTERNAL",
        "message": f"unexpected {message}",
        "detail": f"The stack trace is in {log}.",
        "hint": "This is a bug in Headrace. Please report it with the log file.",
        "location": None,
        "params": {"log": log},
    }


def _write_log(text: str, folder: Path | None) -> Path:
    name = f"headrace-error-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    if folder is not None and folder.is_dir():
        try:
            (folder / name).write_text(text, encoding="utf-8")
        except OSError:
            pass
        else:
            return folder / name
    with tempfile.NamedTemporaryFile(
        "w", prefix=f"{name[:-4]}-", suffix=".log", delete=False, encoding="utf-8"
    ) as file:
        file.write(text)
        return Path(file.name)


def _as_message(reason: str) -> str:
    # The parser of options puts the kind of its own exception before what is wrong.
    one_line = " ".join(reason.split()).rstrip(".").replace(": Value error, ", ": ")
    return one_line[:1].lower() + one_line[1:]
