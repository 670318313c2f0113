"""Releases the Java objects of finished batches."""

from __future__ import annotations

import gc
from itertools import count

# A full collection takes about 0.1 s.
COLLECT_EVERY_BATCHES = 50


class GarbageCollection:
    """Collects Python's garbage every few batches; safe to share between threads.

    A DataFrame becomes part of a reference cycle when one of its methods is called: py4j's ``JavaObject`` caches its
    methods, and they reference it. Until Python's next full collection, Java keeps its plan, shuffles and broadcasts.
    By itself, Python runs a full collection only when new objects reach a quarter of the old ones.
    """

    def __init__(self, every_batches: int = COLLECT_EVERY_BATCHES) -> None:
        self._every_batches = every_batches
        self._batches = count(1)

    def batch_done(self) -> None:
        """Count a batch, and collect if it is time."""
        if next(self._batches) % self._every_batches == 0:
            gc.collect()
