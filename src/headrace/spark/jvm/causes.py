"""The causes of an error, through Python and then through Java."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.errors.exceptions.captured import CapturedException

# The start of a message with an error condition.
_CONDITION = re.compile(r"\[([A-Z0-9_]+(?:\.[A-Z0-9_]+)*)\] ")


@dataclass(frozen=True)
class Cause:
    """One link in the chain of an error's causes."""

    condition: str | None
    sql_state: str | None
    message: str
    type_name: str
    # The full class name of a cause in Java.
    java_class: str = ""


def chain(error: BaseException) -> Iterator[Cause]:
    """The error and its causes, outermost first, through Python and then through Java."""
    java = _java_of(error)
    if isinstance(error, PySparkException):
        yield Cause(_condition(error), error.getSqlState(), str(error), type(error).__name__)
    elif java is None:
        yield Cause(None, None, str(error), type(error).__name__)
    seen = 0
    while java is not None and seen < 50:
        seen += 1
        yield Cause(
            _call(java, "getCondition"),
            _call(java, "getSqlState"),
            str(java.getMessage() or ""),
            str(java.getClass().getSimpleName()),
            str(java.getClass().getName()),
        )
        java = java.getCause()


def java_stack(error: BaseException) -> str:
    """The stack traces of an error and its causes in Java; empty for an error of Python alone."""
    java, jvm = _java_of(error), SparkContext._jvm  # noqa: SLF001 - PySpark has no public form
    if java is None or jvm is None:
        return ""
    try:
        return str(jvm.org.apache.spark.util.Utils.exceptionString(java))
    except Py4JError:
        # Java has ended, or the object is gone.
        return ""


def _condition(error: PySparkException) -> str | None:
    """The condition of an error.

    Once ``delta.tables`` is imported, Delta's conflicts are raised as its own Python classes, which are built from the
    error text and have no condition (``delta.exceptions.captured``).
    """
    known = error.getCondition()
    if known is not None or _java_of(error) is not None:
        return known
    found = _CONDITION.match(str(error))
    return found.group(1) if found else None


def _java_of(error: BaseException) -> Any:
    if isinstance(error, Py4JJavaError):
        return error.java_exception
    if isinstance(error, CapturedException):
        return getattr(error, "_origin", None)
    return None


def _call(java: Any, method: str) -> str | None:
    try:
        value = getattr(java, method)()
    except Exception:  # noqa: BLE001 - py4j raises its own error for a method that is not there
        return None
    return str(value) if value is not None else None
