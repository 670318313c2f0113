"""Whether a Spark stream ends by itself."""

from __future__ import annotations

# One batch for the rows, and up to two without rows for a watermark that has moved.
_MOST_BATCHES = 3


def ends(query) -> bool:
    """Wait until a query has ended, or has started more batches than its rows need: then it never ends."""
    while not query.awaitTermination(0.05):
        if query.lastProgress is not None and query.lastProgress["batchId"] >= _MOST_BATCHES:
            return False
    return True
