"""Commits that meet others: what only adds, or only puts small files together, does not change what they do."""

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
    """What a commit was to do was computed from rows of the table that have changed since then."""


def tried_again(commit: Callable[[], object], fence: Callable[[], None] | None = None) -> None:
    """Do what commits to a Delta table, once more where another commit has come between, a few times.

    Args:
        commit: does it.
        fence: asked before it is done again: what has come between may be that of an update which has taken over.

    Raises:
        Exception: Delta's own where one came between each time, and whatever else is raised.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            commit()
        # PySpark has no class for those of Delta, and leaves them to py4j.
        except (PySparkException, Py4JJavaError) as error:
            if not (next(chain(error)).condition or "").startswith("DELTA_CONCURRENT") or not tries_left:
                raise
            if fence is not None:
                fence()
        else:
            return


def computed_again(work: Callable[[], Done], fence: Callable[[], None], flow: Flow) -> Done:
    """Do what computes a commit and makes it, once more where others have changed the table meanwhile, a few times.

    Args:
        work: does it.
        fence: asked before it is done again: the others may be an update that has taken over.
        flow: whose work it is.

    Raises:
        PipelineError: CDC.TARGET_CHANGED, when they did so each time.
    """
    for _ in range(_TRIES):
        try:
            return work()
        except Outdated:
            fence()
    raise PipelineError("CDC.TARGET_CHANGED", location=flow.location, flow=flow.name, name=flow.target)
