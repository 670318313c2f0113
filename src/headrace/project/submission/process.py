"""Runs ``spark-submit`` to its end, and stops its driver in an orderly way."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import psutil

from headrace.errors import PipelineError
from headrace.project.submission.command import DeployMode, SubmitCommand

_FAILED = 1


def installed_spark() -> Path:
    """The folder of the installed PySpark.

    Raises:
        PipelineError: SUBMIT.NO_SPARK.
    """
    found = find_spec("pyspark")
    folder = Path(found.origin).parent if found is not None and found.origin is not None else Path()
    if not (folder / "bin" / "spark-submit").is_file():
        raise PipelineError("SUBMIT.NO_SPARK")
    return folder


def run_submitted(command: SubmitCommand, environ: Mapping[str, str]) -> int:
    """Run the command; returns the exit code of the driver.

    KeyboardInterrupt stops the driver as SIGTERM would stop ``headrace run``. A driver in the cluster goes on without
    this process.
    """
    with subprocess.Popen(
        command.words,
        cwd=command.folder,
        env={**environ, **command.environment},
        # A signal to the process group must reach only this process, which passes it on.
        start_new_session=True,
        preexec_fn=_ignore_sigterm,  # noqa: PLW1509 - this process has one thread
    ) as process:
        while True:
            try:
                code = process.wait()
            except KeyboardInterrupt:
                _stop(process, command)
            else:
                return code if code >= 0 else _FAILED


def _ignore_sigterm() -> None:
    # Java inherits it, so that a service manager, which signals all processes, reaches only the drivers in Python.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


def _stop(process: subprocess.Popen[bytes], command: SubmitCommand) -> None:
    driver = _driver(process.pid, command.program[0]) if command.mode is DeployMode.CLIENT else None
    if driver is None:
        process.kill()
    else:
        os.kill(driver, signal.SIGTERM)


def _driver(parent: int, program: str) -> int | None:
    """The Python process that runs the program; None before it has started."""
    with suppress(psutil.NoSuchProcess):
        for child in psutil.Process(parent).children():
            if _runs(child, program):
                return int(child.pid)
    return None


def _runs(process: psutil.Process, program: str) -> bool:
    try:
        words = process.cmdline()
    except psutil.NoSuchProcess:
        # Java starts many short processes besides.
        return False
    return program in words and Path(words[0]).name.startswith("python")
