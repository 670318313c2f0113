"""Which Java starts Spark, and whether it is new enough."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.errors import PipelineError

OLDEST_JAVA = 17
SPARK_PROGRAM = "org.apache.spark.deploy.SparkSubmit"
_STARTED_BY = "-Dheadrace.started.by="
_STARTER = re.compile(rf"{_STARTED_BY}(?P<pid>\d+)-(?P<at>\d+\.\d+)")
_CLOCKS_DIFFER_S = 1.0
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def check_java(environ: Mapping[str, str]) -> str:
    """What the Java that Spark would start says of its version, which is new enough.

    Raises:
        PipelineError: CONNECTOR.JAVA when there is none, or it is older than Spark 4 needs.
    """
    command = java_command(environ)
    try:
        shown = subprocess.run(
            [command, "-version"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=60,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _unusable(f'"{command}" does not start ({type(error).__name__})') from error
    version = _VERSION.search(shown.stderr)
    if version is None:
        raise _unusable(f'"{command} -version" does not print a version')
    if int(version.group(1)) < OLDEST_JAVA:
        raise _unusable(f'"{command}" is Java {version.group(1)}')
    return shown.stderr


def java_command(environ: Mapping[str, str]) -> str:
    """The ``java`` that Spark's launcher takes: the one of JAVA_HOME when that is set, else the first on PATH.

    Raises:
        PipelineError: CONNECTOR.JAVA when neither names a program.
    """
    home = environ.get("JAVA_HOME")
    if home:
        command = Path(home) / "bin" / "java"
        if not command.is_file():
            raise _unusable(f'JAVA_HOME is "{home}", which holds no bin/java')
        return str(command)
    found = shutil.which("java", path=environ.get("PATH", ""))
    if found is None:
        raise _unusable("JAVA_HOME is not set and no java is on PATH")
    return found


def started_by(pid: int, started_at: float) -> str:
    """The option on the command line of a JVM that says which Python process has started it."""
    return f"{_STARTED_BY}{pid}-{started_at:.2f}"


def is_spark(words: Sequence[str]) -> bool:
    """True for the command line of a JVM that runs Spark for a program."""
    return SPARK_PROGRAM in words


def was_started_by(words: Sequence[str], pid: int, started_at: float) -> bool:
    """True for the command line of a JVM that this Python process, and no later one with its id, has started."""
    starters = [found for word in words if (found := _STARTER.fullmatch(word))]
    # What the system says of a start differs a little when its clock is set.
    return is_spark(words) and any(
        int(found["pid"]) == pid and abs(float(found["at"]) - started_at) < _CLOCKS_DIFFER_S for found in starters
    )


def _unusable(reason: str) -> PipelineError:
    return PipelineError("CONNECTOR.JAVA", oldest=OLDEST_JAVA, reason=reason)
