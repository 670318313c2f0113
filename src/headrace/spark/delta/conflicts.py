"""Retries commits that conflict with others, such as appends and compaction, which do not change their effect."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable
from typing import TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from headrace.errors import PipelineError
from headrace.model.datasets import Flow
from headrace.sinks.retrying import Clock, Patience, with_retries
from headrace.spark.jvm.causes import chain

# Another commit has already succeeded, so there is nothing to wait for.
_AT_ONCE = Patience(attempts=5, budget_s=math.inf, initial_delay_s=0.0)
_CLOCK = Clock(time.monotonic, time.sleep, random.random)
Done = TypeVar("Done")


class Outdated(Exception):
    """A commit was computed from rows of the table that have changed since."""


def retry_commit(commit: Callable[[], object], fence: Callable[[], None] | None = None) -> None:
    """Commit to a Delta table; on a concurrent commit, retry a few times.

    Args:
        commit: makes the commit.
        fence: checked after each conflict, because the concurrent commit may be from an update that has taken over.

    Raises:
        Exception: Delta's own, if concurrent commits kept conflicting, and any other error.
    """

    def retry_delay_s(error: Exception) -> float | None:
        # PySpark has no classes for Delta's exceptions, and leaves them to py4j.
        if not isinstance(error, (PySparkException, Py4JJavaError)):
            return None
        if not (next(chain(error)).condition or "").startswith("DELTA_CONCURRENT"):
            return None
        if fence is not None:
            fence()
        return 0.0

    with_retries(commit, retry_delay_s, _AT_ONCE, _CLOCK)


def recompute_on_conflict(work: Callable[[], Done], fence: Callable[[], None], flow: Flow) -> Done:
    """Compute and make a commit; if the table changed meanwhile, do both again, a few times.

    Args:
        work: computes and makes the commit.
        fence: checked after each conflict, because the change may be from an update that has taken over.
        flow: the flow, for the error.

    Raises:
        PipelineError: CDC.TARGET_CHANGED, if concurrent writers kept conflicting.
    """

    def retry_delay_s(error: Exception) -> float | None:
        if not isinstance(error, Outdated):
            return None
        fence()
        return 0.0

    try:
        return with_retries(work, retry_delay_s, _AT_ONCE, _CLOCK)
    except Outdated:
        raise PipelineError("CDC.TARGET_CHANGED", location=flow.location, flow=flow.name, name=flow.target) from None
