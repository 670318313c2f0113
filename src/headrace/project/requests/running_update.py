"""Stops the update that holds the lease of a pipeline, whoever has started it."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

import psutil

from headrace.errors import PipelineError
from headrace.project.lease_holders import host_name, liveness, read_holder
from headrace.settings.settings import Settings

_PROGRAM = "headrace"
# A verb that the warm worker runs is a process of its own, with the worker's command line.
_MODULES = (_PROGRAM, "headrace.worker")


def stop_update(settings: Settings, environ: Mapping[str, str], now: Callable[[], float], update_id: str) -> None:
    """Ask the process of an update to stop: running batches may finish.

    Args:
        settings: of the pipeline.
        environ: the environment variables.
        now: the time in seconds since 1970.
        update_id: the update.

    Raises:
        PipelineError: SERVE.NOT_RUNNING; SERVE.OTHER_HOST if it runs on another machine, SERVE.OTHER_PROGRAM if it runs
            in a program that the signal could end, such as a notebook.
    """
    lease, host = settings.layout.lease, host_name(environ)
    held = liveness(lease, host, now)
    holder = read_holder(lease) if held.is_held else None
    if holder is None or holder.update_id != update_id:
        raise PipelineError("SERVE.NOT_RUNNING", what=f'update "{update_id}"')
    if holder.host != host:
        raise PipelineError("SERVE.OTHER_HOST", update=update_id, host=holder.host)
    # It may have ended by itself.
    if not holder.python.is_alive:
        return
    if not _is_command_line(holder.python.pid):
        raise PipelineError("SERVE.OTHER_PROGRAM", update=update_id, pid=holder.python.pid)
    with suppress(ProcessLookupError, PermissionError):
        os.kill(holder.python.pid, signal.SIGTERM)


def _is_command_line(pid: int) -> bool:
    """Whether a process runs a verb, which stops in an orderly way: ``python -m headrace``, or the script."""
    try:
        words = psutil.Process(pid).cmdline()
    except psutil.Error:
        return False
    for number, word in enumerate(words):
        if word == "-m":
            return "".join(words[number + 1 : number + 2]) in _MODULES
        if number and not word.startswith("-"):
            return Path(word).name == _PROGRAM
    return False
