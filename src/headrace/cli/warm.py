"""Lets the warm worker of the project run a verb, before this process has imported anything that a verb needs."""

from __future__ import annotations

import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

from headrace.cli.arguments import hoist_global_options, project_and_verb
from headrace.worker.client import is_warm_verb, run_warm, show_reason


def run_in_worker(words: Sequence[str]) -> int | None:
    """The exit code of a verb that the worker has run; None if it runs in this process."""
    project, verb = project_and_verb(hoist_global_options(words))
    if not is_warm_verb(verb):
        return None
    answer = run_warm(words, Path(project or Path.cwd()), os.environ)
    if answer.busy is not None or answer.lost:
        # Imported by name: errors need much of what a verb needs.
        failures = import_module("headrace.cli.worker")
        code: int = failures.report_busy(words, answer.busy) if answer.busy else failures.report_lost(words)
        return code
    show_reason(answer, words)
    return answer.code
