"""Commits that meet others: what only adds, or only puts small files together, does not change what they do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from pyspark.errors import PySparkException

_TRIES = 5
Done = TypeVar("Done")


class Outdated(Exception):
    """What a commit was to do was computed from rows of the table that have changed since then."""

    def __init__(self, table: str) -> None:
        super().__init__(f"others change the rows of {table} again and again while a batch is merged into it")


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


def computed_again(work: Callable[[], Done]) -> Done:
    """Do what computes a commit and makes it, once more where others have changed the table meanwhile, a few times.

    Raises:
        Outdated: they did so each time.
    """
    for _ in range(_TRIES - 1):
        try:
            return work()
        except Outdated:
            continue
    return work()
