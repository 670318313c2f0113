"""Find the Java that starts Spark, and check its version."""

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
_KEPT_BY = "-Dheadrace.kept.by="
_STARTER = re.compile(rf"{_STARTED_BY}(?P<pid>\d+)-(?P<at>\d+\.\d+)")
_KEEPER = re.compile(rf"{_KEPT_BY}(?P<pid>\d+)-(?P<at>\d+\.\d+)")
_CLOCKS_DIFFER_S = 1.0
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def check_java(environ: Mapping[str, str]) -> str:
    """Check the Java that Spark would start, and return the output of ``java -version``.

    Raises:
        PipelineError: CONNECTOR.JAVA: there is no Java, or it is too old for Spark 4.
    """
    command = java_command(environ)
    try:
        version_output = subprocess.run(
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
    version = _VERSION.search(version_output.stderr)
    if version is None:
        raise _unusable(f'"{command} -version" does not print a version')
    if int(version.group(1)) < OLDEST_JAVA:
        raise _unusable(f'"{command}" is Java {version.group(1)}')
    return version_output.stderr


def java_command(environ: Mapping[str, str]) -> str:
    """The ``java`` that Spark's launcher uses: from JAVA_HOME if that is set, otherwise the first on PATH.

    Raises:
        PipelineError: CONNECTOR.JAVA: neither has a Java program.
    """
    home = environ.get("JAVA_HOME")
    if home:
        command = Path(home) / "bin" / "java"
        if not command.is_file():
            raise _unusable(f'JAVA_HOME is "{home}", which contains no bin/java')
        return str(command)
    found = shutil.which("java", path=environ.get("PATH", ""))
    if found is None:
        raise _unusable("JAVA_HOME is not set and no java is on PATH")
    return found


def started_by_option(pid: int, started_at: float) -> str:
    """The JVM option that records which Python process started it."""
    return f"{_STARTED_BY}{pid}-{started_at:.2f}"


def kept_by_option(pid: int, started_at: float) -> str:
    """The JVM option that records which worker keeps it for the verbs that use it."""
    return f"{_KEPT_BY}{pid}-{started_at:.2f}"


def keeper_of(arguments: Sequence[str]) -> tuple[int, float] | None:
    """The process id and start time of the worker that keeps a JVM; None if no worker does."""
    found = next((found for word in arguments if (found := _KEEPER.fullmatch(word))), None)
    return None if found is None or not is_spark(arguments) else (int(found["pid"]), float(found["at"]))


def is_spark(arguments: Sequence[str]) -> bool:
    """Whether a command line is that of a JVM that runs Spark for a program."""
    return SPARK_PROGRAM in arguments


def was_started_by(arguments: Sequence[str], pid: int, started_at: float) -> bool:
    """Whether a command line is that of a JVM started by this Python process, and not by another with its id."""
    starters = [found for word in arguments if (found := _STARTER.fullmatch(word))]
    # Start times reported by the system shift slightly when the clock is set.
    return is_spark(arguments) and any(
        int(found["pid"]) == pid and abs(float(found["at"]) - started_at) < _CLOCKS_DIFFER_S for found in starters
    )


def _unusable(reason: str) -> PipelineError:
    return PipelineError("CONNECTOR.JAVA", oldest=OLDEST_JAVA, reason=reason)
