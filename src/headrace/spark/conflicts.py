"""Commits that meet others: what only adds, or only puts small files together, does not change what they do."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import PySparkException

_TRIES = 5


def tried_again(commit: Callable[[], object], fence: Callable[[], None] | None = None) -> None:
    """Do what commits to a Delta table, once more where another commit has come between, a few times.

    Args:
        commit: does it.
        fence: asked before it is done again: what has come between may be that of an update which has taken over.

    Raises:
        PySparkException: ``DELTA_CONCURRENT_*`` where one came between each time, and whatever else is raised.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            commit()
        except PySparkException as error:
            if not (error.getCondition() or "").startswith("DELTA_CONCURRENT") or not tries_left:
                raise
            if fence is not None:
                fence()
        else:
            return
