"""The command line: in a process of its own, or in this one with the warm session."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

PROGRAM = Path(sys.executable).with_name("headrace")


@dataclass(frozen=True)
class Done:
    """How a command ended, and what it printed."""

    returncode: int
    stdout: str
    stderr: str


def in_process(project: Path, *words: str) -> Done:
    """A command on a project in this process and its warm session, where the process itself is not what is tested."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - tests that only start processes do without Spark

    from headrace.cli.main import call  # noqa: PLC0415 - the same
    from headrace.testing.warm import unchanged  # noqa: PLC0415 - the same

    out, err = io.StringIO(), io.StringIO()
    with unchanged(SparkSession.builder.getOrCreate(), project), redirect_stdout(out), redirect_stderr(err):
        code = call(["--project", str(project), *words])
    return Done(code, out.getvalue(), err.getvalue())


def in_own_process(folder: Path, *words: str, environ: Mapping[str, str] | None = None) -> Done:
    """A command in a process and a JVM of its own, as its user runs it in a folder."""
    environ = {**os.environ, **(environ or {})}
    done = subprocess.run(
        [PROGRAM, *words], cwd=folder, capture_output=True, encoding="utf-8", check=False, env=environ
    )
    return Done(done.returncode, done.stdout, done.stderr)
