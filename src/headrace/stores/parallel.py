"""Requests that wait for their answers at the same time."""

from __future__ import annotations

from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

_Question = TypeVar("_Question")
_Answer = TypeVar("_Answer")
_PARALLEL = 16


def in_parallel(ask: Callable[[_Question], _Answer], questions: Collection[_Question]) -> list[_Answer]:
    """The answers in the order of the questions.

    Raises:
        Exception: what the first question that failed raised.
    """
    if len(questions) < 2:
        return [*map(ask, questions)]
    with ThreadPoolExecutor(min(_PARALLEL, len(questions)), "headrace-requests") as threads:
        return [*threads.map(ask, questions)]
