"""Retries commits that conflict with others, such as appends and compaction, which do not change their effect."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from headrace.errors import PipelineError
from headrace.model.datasets import Flow
from headrace.spark.jvm.causes import chain

_TRIES = 5
Done = TypeVar("Done")


class Outdated(Exception):
    """A commit was computed from rows of the table that have changed since."""


def retry_commit(commit: Callable[[], object], fence: Callable[[], None] | None = None) -> None:
    """Commit to a Delta table; on a concurrent commit, retry a few times.

    Args:
        commit: makes the commit.
        fence: checked before each retry, because the concurrent commit may be from an update that has taken over.

    Raises:
        Exception: Delta's own, if concurrent commits kept conflicting, and any other error.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            commit()
        # PySpark has no classes for Delta's exceptions, and leaves them to py4j.
        except (PySparkException, Py4JJavaError) as error:
            if not (next(chain(error)).condition or "").startswith("DELTA_CONCURRENT") or not tries_left:
                raise
            if fence is not None:
                fence()
        else:
            return


def recompute_on_conflict(work: Callable[[], Done], fence: Callable[[], None], flow: Flow) -> Done:
    """Compute and make a commit; if the table changed meanwhile, do both again, a few times.

    Args:
        work: computes and makes the commit.
        fence: checked before each retry, because the change may be from an update that has taken over.
        flow: the flow, for the error.

    Raises:
        PipelineError: CDC.TARGET_CHANGED, if concurrent writers kept conflicting.
    """
    for _ in range(_TRIES):
        try:
            return work()
        except Outdated:
            fence()
    raise PipelineError("CDC.TARGET_CHANGED", location=flow.location, flow=flow.name, name=flow.target)
