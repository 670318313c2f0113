"""Readings of a storage that are used again for a while: many browsers must not load the machine."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

_Read = TypeVar("_Read")
# A reading is used again for so long, and for so many times as long as it took.
_LEAST_AGE_S = 2.0
_TIMES_ITS_COST = 5
_MOST = 64


class Remembered:
    """What was read last, by keys. Several threads that ask at once wait for one reading.

    Args:
        clock: seconds that never go back.
        most: how many readings are kept.
    """

    def __init__(self, clock: Callable[[], float], most: int = _MOST) -> None:
        self._clock = clock
        self._most = most
        self._reading = threading.Lock()
        self._found: dict[Hashable, tuple[float, Any]] = {}

    def of(self, key: Hashable, read: Callable[[], _Read]) -> _Read:
        """What *read* returns, or returned a moment ago for the same key; what it raises is not remembered."""
        with self._reading:
            known = self._found.get(key)
            if known is not None and known[0] > self._clock():
                found: _Read = known[1]
                return found
            started = self._clock()
            read_now = read()
            cost_s = self._clock() - started
            self._found.pop(key, None)
            while len(self._found) >= self._most:
                del self._found[next(iter(self._found))]
            self._found[key] = self._clock() + max(_LEAST_AGE_S, _TIMES_ITS_COST * cost_s), read_now
            return read_now
