"""Releases the Java objects of batches that are done."""

from __future__ import annotations

import gc
from itertools import count

# A full collection takes about 0.1 s.
COLLECT_EVERY_BATCHES = 50


class GarbageCollection:
    """Collects Python's garbage every so many batches; safe to share between threads.

    A DataFrame is part of a cycle as soon as one of its methods was called, because py4j's ``JavaObject`` keeps its
    methods and they keep it. Until Python's next full collection, Java holds its plan, shuffles and broadcasts. By
    itself, Python collects in full only once its new objects are a quarter of the old ones.
    """

    def __init__(self, every_batches: int = COLLECT_EVERY_BATCHES) -> None:
        self._every_batches = every_batches
        self._batches = count(1)

    def batch_done(self) -> None:
        """Count a batch, and collect when it is time."""
        if next(self._batches) % self._every_batches == 0:
            gc.collect()
