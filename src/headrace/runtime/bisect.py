"""Finds the rows of a batch that make work fail, by bisecting: each part that fails is split in half.

Source: group testing by binary splitting (R. Dorfman, The detection of defective members of large populations, 1943;
F. K. Hwang, A method for detecting all defective members in a population by group testing, 1972).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Reason = TypeVar("Reason")


class TooManyFailures(Exception):
    """More rows fail than the limit allows."""


class NoSingleRowFails(Exception):
    """Rows fail only together, or only sometimes."""


def find_failing_rows(
    count: int, failure_of: Callable[[int, int], Reason | None], max_failures: int
) -> dict[int, Reason]:
    """The positions of the rows that fail, each with its reason.

    Args:
        count: the number of rows, some of which fail.
        failure_of: the reason why the rows from one position up to another (exclusive) fail; None if they do not.
        max_failures: the most failing rows to find.

    Law: if a part fails exactly when one of its rows does, exactly those rows are found, with at most
    ``2 * rows * (log2(count) + 1)`` calls of *failure_of*, where *rows* is the number of failing rows.

    Raises:
        TooManyFailures: more than *max_failures* rows fail.
        NoSingleRowFails: the law's condition does not hold.
    """
    found: dict[int, Reason] = {}
    # The remaining parts, the first one last, and whether each is known to fail.
    parts = [(0, count, True)] if count else []
    while parts:
        first, last, fails = parts.pop()
        if last - first == 1:
            reason = failure_of(first, last)
            if reason is None and fails:
                raise NoSingleRowFails
            if reason is not None:
                found[first] = reason
            if len(found) > max_failures:
                raise TooManyFailures
            continue
        if not fails and failure_of(first, last) is None:
            continue
        middle = (first + last) // 2
        if middle - first == 1 or failure_of(first, middle) is not None:
            parts += [(middle, last, False), (first, middle, middle - first > 1)]
        else:
            # So the other half fails.
            parts.append((middle, last, True))
    if count and not found:
        raise NoSingleRowFails
    return found
