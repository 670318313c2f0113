"""The process of the session's JVM."""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession


def jvm_pid(session: SparkSession) -> int:
    """The process id of the session's JVM."""
    jvm: Any = session._jvm  # noqa: SLF001 - has no public form
    return int(jvm.java.lang.ProcessHandle.current().pid())
