"""What `headrace dev` prints: one block for each check, in colours on a terminal, as JSON lines for programs."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from rich.text import Text

from headrace.cli.failures import error_from_json
from headrace.cli.invocation import Invocation
from headrace.cli.printable import json_text, printable
from headrace.cli.tables import WIDEST_CELL, rows_table
from headrace.cli.terminal import folded, width_of
from headrace.model.rows import Rows
from headrace.project.development.board import DevBoard, DevState, Phase
from headrace.project.development.plan_lines import PlanDifference, Sign, summary
from headrace.project.requests.verb_call import VerbAnswer

_COMMANDS = "p NAME preview   c check   l plan   o open pages   q quit"
_MOST_LINES, _MOST_PROBLEMS, _PROBLEM_LINES = 20, 10, 12
_STYLES = {Sign.NEW: "green", Sign.GONE: "red", Sign.OTHER: "yellow"}
_INDENT = "  "


class DevDisplay:
    """Prints what happens; used from several threads.

    Args:
        invocation: how to print.
        board: what is known of the project.
    """

    def __init__(self, invocation: Invocation, board: DevBoard) -> None:
        self._console = invocation.console
        self._as_json = invocation.as_json
        self._board = board
        self._redact: Callable[[str], str] = str
        self._lock = threading.Lock()
        self._shown: DevState | None = None

    def welcome(self, name: str, url: str, page: str, files: int, redact: Callable[[str], str]) -> None:
        """Say what is developed, and where the pages are."""
        self._redact = redact
        with self._lock:
            self._print(Text.assemble(("headrace dev", "bold"), f"  {printable(name)}"))
            self._print(f"{_INDENT}pages    {url}/")
            # The token opens them until the end of this process.
            self._print(f"{_INDENT}sign in  {page}", folds=False)
            self._print(f"{_INDENT}watches  {files} file{'' if files == 1 else 's'}, and checks after each save")
            if sys.stdin.isatty():
                self._print(f"{_INDENT}type     {_COMMANDS}")

    def commands(self) -> None:
        """Say what can be typed."""
        with self._lock:
            self._print(f"type {_COMMANDS}", "dim")

    def note(self, text: str) -> None:
        """Print a line."""
        with self._lock:
            self._print_at(self._redact(printable(text)), "dim")

    def changed(self) -> None:
        """Print what is new on the board."""
        with self._lock:
            state = self._board.state
            before, self._shown = self._shown, state
            if self._as_json and state.phase is not Phase.CHECKING:
                sys.stdout.write(json_text(_redacted(state.to_json(), self._redact)) + "\n")
                sys.stdout.flush()
            if state.phase is Phase.CHECKING:
                self._print_saved(state)
            elif state.phase is Phase.BROKEN:
                self._print_broken(state)
            elif state.phase is Phase.VALID:
                was_broken = before is not None and before.check is not None and not before.check.has_plan
                self._print_valid(state, was_broken=was_broken)

    def plan(self) -> None:
        """Print the whole plan."""
        with self._lock:
            lines = self._board.state.plan
            if lines is None:
                self._print_at("no plan yet", "dim")
                return
            self._print_at(f"the plan: {summary(lines)}")
            for line in lines:
                self._print(f"{_INDENT}{self._redact(printable(line.text))}")

    def preview(self, answer: VerbAnswer) -> None:
        """Print the rows of a preview, or why there are none."""
        with self._lock:
            if answer.is_late:
                self._print_at("the preview took too long, and was stopped", "yellow")
            elif answer.problems:
                self._print_problems(answer.problems)
            elif isinstance(answer.document, list):
                columns = tuple(answer.document[0]) if answer.document else ()
                rows = Rows(columns, tuple(tuple(row.values()) for row in answer.document))
                width = width_of(self._console)
                widest = None if width is None else WIDEST_CELL
                self._print(self._redact(rows_table(rows, widest=widest, width=width)) if columns else "(0 rows)")
            for line in answer.notices:
                self._print(f"{_INDENT}{self._redact(printable(line))}", "dim")

    def _print_saved(self, state: DevState) -> None:
        if state.saved:
            more = f" and {len(state.saved) - 3} more" if len(state.saved) > 3 else ""
            self._print_at(f"saved {', '.join(map(printable, state.saved[:3]))}{more}", "dim")
        elif state.check is None:
            self._print_at("first check: the worker starts, which takes some seconds", "dim")

    def _print_broken(self, state: DevState) -> None:
        assert state.check is not None  # noqa: S101 - a check has found it
        problems = state.check.problems
        what = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        self._print_at(f"{what}, {state.check.duration_s:.1f} s", "bold red")
        self._print_problems(problems)

    def _print_problems(self, problems: Any) -> None:
        width = width_of(self._console)
        inner = None if width is None else width - len(_INDENT)
        for problem in problems[:_MOST_PROBLEMS]:
            lines = error_from_json(_redacted(problem, self._redact), limit=_PROBLEM_LINES, width=inner)
            for line in lines:
                head = line.startswith("error[")
                label = line.strip().startswith("hint:")
                self._print(f"{_INDENT}{line}", "red" if head else "cyan" if label else "", folds=False)
        if len(problems) > _MOST_PROBLEMS:
            self._print(f"{_INDENT}and {len(problems) - _MOST_PROBLEMS} more: headrace validate", "dim")

    def _print_valid(self, state: DevState, *, was_broken: bool) -> None:
        assert state.check is not None  # noqa: S101 - a check has found it
        again = "valid again" if was_broken else "valid"
        self._print_at(f"{again}, {state.check.duration_s:.1f} s: {summary(state.check.lines)}", "bold green")
        if state.changes is None:
            self._print_lines([(_INDENT + line.text, "") for line in state.check.lines])
        elif state.changes:
            self._print_lines([piece for one in state.changes for piece in _pieces(one)])
        elif state.saved:
            self._print(f"{_INDENT}the plan is as before the save", "dim")

    def _print_lines(self, lines: list[tuple[str, str]]) -> None:
        for text, style in lines[:_MOST_LINES]:
            self._print(self._redact(printable(text)), style)
        if len(lines) > _MOST_LINES:
            self._print(f"{_INDENT}and {len(lines) - _MOST_LINES} more lines: l", "dim")

    def _print_at(self, text: str, style: str = "") -> None:
        clock = time.strftime("%H:%M:%S")
        self._print(Text.assemble((clock, "dim"), "  ", (text, style)))

    def _print(self, text: str | Text, style: str = "", *, folds: bool = True) -> None:
        if isinstance(text, Text):
            self._console.print(text, highlight=False, soft_wrap=not folds or width_of(self._console) is None)
            return
        shown = folded(text, width_of(self._console)) if folds else text
        self._console.print(Text(shown, style), highlight=False, soft_wrap=True)


def _pieces(one: PlanDifference) -> list[tuple[str, str]]:
    """A difference as lines: what was, and what is."""
    style = _STYLES[one.sign]
    if one.sign is Sign.OTHER and one.before is not None:
        return [
            (f"{Sign.GONE.value} {one.before}", _STYLES[Sign.GONE]),
            (f"{Sign.NEW.value} {one.line.text}", _STYLES[Sign.NEW]),
        ]
    return [(f"{one.sign.value} {one.line.text}", style)]


def _redacted(value: Any, redact: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, Mapping):
        return {key: _redacted(item, redact) for key, item in value.items()}
    return [_redacted(item, redact) for item in value] if isinstance(value, list | tuple) else value
