"""Commits that meet others: what only adds, or only puts small files together, does not change what they do."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.errors import PySparkException

_TRIES = 5


def tried_again(commit: Callable[[], object]) -> None:
    """Do what commits to a Delta table, once more where another commit has come between, a few times.

    Raises:
        PySparkException: ``DELTA_CONCURRENT_*`` where one came between each time, and whatever else is raised.
    """
    for tries_left in reversed(range(_TRIES)):
        try:
            commit()
        except PySparkException as error:
            if not (error.getCondition() or "").startswith("DELTA_CONCURRENT") or not tries_left:
                raise
        else:
            return
