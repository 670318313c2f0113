"""Exceptions of a script's functions, recovered from the traceback text in Spark's errors."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from headrace.errors import spark_condition
from headrace.runtime.ports import Failed
from headrace.runtime.retry import retryable
from headrace.spark.errors.spark_errors import from_worker
from headrace.spark.jvm.causes import Cause

# How Java returns an exception of a foreachBatch function.
_CALLED_BACK = "Return Message: Traceback"
_TRACEBACK = "Traceback (most recent call last):\n"
_RAISED = re.compile(r"^(?P<what>[A-Za-z_][\w.]*)(?:: ?(?P<reason>.*))?$", re.MULTILINE)
# Errors of Spark start with their condition.
_CONDITION = re.compile(r"^(?:: |Caused by: )?[\w.$]+: \[(?P<condition>[A-Z][A-Z\d_]+(?:\.[A-Z\d_]+)*)\]", re.MULTILINE)
_STATE = re.compile(r"SQLSTATE: (?P<state>\w{5})")
_IN_JAVA = re.compile(r"^(?:: |Caused by: )(?P<what>[\w.$]+)", re.MULTILINE)
_OF_SPARK = ("pyspark.", "py4j.", "delta.exceptions.")
# Names that client libraries of databases, queues and services give to errors of an unavailable server, and Delta to a
# conflicting commit. Python's own errors are recognised by their class.
_TRANSIENT = re.compile(
    r"\w*(?:Connect|Connection|ConnectionClosed|Disconnected|Network|NoRouteToHost|Reconnect|Socket|UnknownHost"
    r"|MaxRetry|RateLimit|ServiceRequest|Throttled|Throttling|TimedOut|Timeout|TimeoutExpired|TooManyRequests"
    r"|Unavailable|Operational|CommitFailed|Concurrent[A-Z]\w*|MetadataChanged|ProtocolChanged)(?:Error|Exception)?"
    r"|IOException|EOFException|IncompleteRead"
)


@dataclass(frozen=True)
class UserException:
    """An exception of a user function.

    Attributes:
        what: its class, as Python prints it.
        reason: the first line of its message.
        trace: the text of the traceback, followed by Java's.
        called_back: the function ran in this process, not in a worker.
    """

    what: str
    reason: str
    trace: str
    called_back: bool = True

    @property
    def _last_traceback(self) -> str:
        return self.trace.rpartition(_TRACEBACK)[2]

    @property
    def of_spark(self) -> bool:
        """True when Spark raised it, in a call from the function."""
        return self.what.startswith(_OF_SPARK)

    def is_transient(self) -> bool:
        """True when the function may succeed the next time: a server was unavailable, or commits conflicted.

        If Spark gives a condition, it decides; otherwise the class does. All other errors are bugs.
        """
        if not self.of_spark:
            return _is_transient_class(self.what)
        conditions = [found["condition"] for found in _CONDITION.finditer(self._last_traceback)]
        named = [condition for condition in conditions if not spark_condition(condition).wraps]
        if named:
            states = _STATE.findall(self._last_traceback)
            return retryable(Failed("", None, named[-1], states[-1] if states else None))  # type: ignore[arg-type]
        in_java = _IN_JAVA.findall(self._last_traceback)
        return _is_transient_class(in_java[-1] if in_java else self.what)


def find_user_exception(causes: Sequence[Cause]) -> UserException | None:
    """The exception of a user function that made a streaming query fail; None without one."""
    for cause in reversed(causes):
        called_back = _CALLED_BACK in cause.message
        if not called_back and not from_worker(cause):
            continue
        trace = cause.message.partition("Return Message: ")[2] if called_back else cause.message
        found = _RAISED.search(trace.rpartition(_TRACEBACK)[2])
        if found is not None:
            return UserException(found["what"], (found["reason"] or "").strip(), trace, called_back)
    return None


def with_user_exception(report: Failed, raised: UserException | None) -> Failed:
    """The report of a failure, with the transience of the user exception behind it."""
    if raised is None or report.error.code not in ("FLOW.FAILED", "FLOW.USER_CODE"):
        return report
    return replace(report, condition=None, sql_state=None, transient=raised.is_transient())


def _is_transient_class(what: str) -> bool:
    return any(_TRANSIENT.fullmatch(name) or name == "OSError" for name in (what.rpartition(".")[2], *_bases(what)))


def _bases(what: str) -> Iterator[str]:
    """The names of a class and its base classes, if this process has it."""
    module, _, name = what.rpartition(".")
    for owner in (module,) if module else ("__main__", "builtins"):
        found = getattr(sys.modules.get(owner), name, None)
        if isinstance(found, type):
            yield from (base.__name__ for base in found.__mro__)
            return
