"""Which of many rows are those that work fails with, by trying parts of them: each part that fails is cut in half.

Source: group testing by binary splitting (R. Dorfman, The detection of defective members of large populations, 1943;
F. K. Hwang, A method for detecting all defective members in a population by group testing, 1972).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Why = TypeVar("Why")


class TooManyFailures(Exception):
    """More rows fail than are looked for."""


class NoSingleRowFails(Exception):
    """Rows fail together, or now and then, of which none fails alone."""


def failing(count: int, why: Callable[[int, int], Why | None], most: int) -> dict[int, Why]:
    """The positions of the rows that fail, and why each does.

    Args:
        count: how many rows there are; some of them fail.
        why: why the rows from one position up to another, which is not one of them, fail; None when they do not.
        most: how many are looked for.

    Law: where a part fails just when one of its rows does, exactly those rows are found, with at most
    ``2 * rows * (log2(count) + 1)`` calls of *why*, *rows* being how many fail.

    Raises:
        TooManyFailures: there are more than *most*.
        NoSingleRowFails: the law's condition does not hold.
    """
    found: dict[int, Why] = {}
    # Parts that are left, the first one last, and whether each is known to fail.
    parts = [(0, count, True)] if count else []
    while parts:
        first, last, fails = parts.pop()
        if last - first == 1:
            reason = why(first, last)
            if reason is None and fails:
                raise NoSingleRowFails
            if reason is not None:
                found[first] = reason
            if len(found) > most:
                raise TooManyFailures
            continue
        if not fails and why(first, last) is None:
            continue
        middle = (first + last) // 2
        if middle - first == 1 or why(first, middle) is not None:
            parts += [(middle, last, False), (first, middle, middle - first > 1)]
        else:
            # It is the other half then.
            parts.append((middle, last, True))
    if count and not found:
        raise NoSingleRowFails
    return found
