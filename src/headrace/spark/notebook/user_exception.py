"""What a function of a script has raised, as the errors of Spark tell it: by the text of its traceback."""

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

# What a function of foreachBatch has raised, as it comes back from Java.
_CALLED_BACK = "Return Message: Traceback"
_TRACEBACK = "Traceback (most recent call last):\n"
_RAISED = re.compile(r"^(?P<what>[A-Za-z_][\w.]*)(?:: ?(?P<reason>.*))?$", re.MULTILINE)
# Errors of Spark say their condition before everything else.
_CONDITION = re.compile(r"^(?:: |Caused by: )?[\w.$]+: \[(?P<condition>[A-Z][A-Z\d_]+(?:\.[A-Z\d_]+)*)\]", re.MULTILINE)
_STATE = re.compile(r"SQLSTATE: (?P<state>\w{5})")
_IN_JAVA = re.compile(r"^(?:: |Caused by: )(?P<what>[\w.$]+)", re.MULTILINE)
_OF_SPARK = ("pyspark.", "py4j.", "delta.exceptions.")
# What the libraries of databases, queues and services call a server that does not answer now, and Delta a commit that
# has met another one. Those of Python itself are known by their class.
_PASSING = re.compile(
    r"\w*(?:Connect|Connection|ConnectionClosed|Disconnected|Network|NoRouteToHost|Reconnect|Socket|UnknownHost"
    r"|MaxRetry|RateLimit|ServiceRequest|Throttled|Throttling|TimedOut|Timeout|TimeoutExpired|TooManyRequests"
    r"|Unavailable|Operational|CommitFailed|Concurrent[A-Z]\w*|MetadataChanged|ProtocolChanged)(?:Error|Exception)?"
    r"|IOException|EOFException|IncompleteRead"
)


@dataclass(frozen=True)
class UserException:
    """An exception of a function.

    Attributes:
        what: its class, as Python writes it.
        reason: the first line of what it says.
        trace: the text of the traceback, with what Java says behind it.
        called_back: it is of a function that ran in this process, and not of one of a worker.
    """

    what: str
    reason: str
    trace: str
    called_back: bool = True

    @property
    def _said(self) -> str:
        return self.trace.rpartition(_TRACEBACK)[2]

    @property
    def of_spark(self) -> bool:
        """True when Spark has raised it, in what the function has called."""
        return self.what.startswith(_OF_SPARK)

    def passes(self) -> bool:
        """True when the function may succeed the next time: a server was away, or another commit came between.

        Where Spark names a condition, it decides; anything else that passes is known by its class. The rest are bugs.
        """
        if not self.of_spark:
            return _passing(self.what)
        conditions = [found["condition"] for found in _CONDITION.finditer(self._said)]
        named = [condition for condition in conditions if not spark_condition(condition).wraps]
        if named:
            states = _STATE.findall(self._said)
            return retryable(Failed("", None, named[-1], states[-1] if states else None))  # type: ignore[arg-type]
        in_java = _IN_JAVA.findall(self._said)
        return _passing(in_java[-1] if in_java else self.what)


def raised_in(causes: Sequence[Cause]) -> UserException | None:
    """What a function has raised that made a streaming query fail; None when no function has."""
    for cause in reversed(causes):
        called_back = _CALLED_BACK in cause.message
        if not called_back and not from_worker(cause):
            continue
        trace = cause.message.partition("Return Message: ")[2] if called_back else cause.message
        found = _RAISED.search(trace.rpartition(_TRACEBACK)[2])
        if found is not None:
            return UserException(found["what"], (found["reason"] or "").strip(), trace, called_back)
    return None


def judged(report: Failed, raised: UserException | None) -> Failed:
    """The report of a failure, with what is known of the function that has raised it."""
    if raised is None or report.error.code not in ("FLOW.FAILED", "FLOW.USER_CODE"):
        return report
    return replace(report, condition=None, sql_state=None, transient=raised.passes())


def _passing(what: str) -> bool:
    return any(_PASSING.fullmatch(name) or name == "OSError" for name in (what.rpartition(".")[2], *_bases(what)))


def _bases(what: str) -> Iterator[str]:
    """The names of a class and of those that it is made from, if this process has it."""
    module, _, name = what.rpartition(".")
    for owner in (module,) if module else ("__main__", "builtins"):
        found = getattr(sys.modules.get(owner), name, None)
        if isinstance(found, type):
            yield from (base.__name__ for base in found.__mro__)
            return
