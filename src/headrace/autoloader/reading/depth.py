"""How deep brackets nest, found without reading: Arrow's JSON reader calls itself for each, until the process dies."""

from __future__ import annotations

import numpy as np

_DEEPEST = 500
_OPENS, _CLOSES = (0x5B, 0x7B), (0x5D, 0x7D)


def line_ends(block: bytes) -> np.ndarray:
    """Where the line ends of a block are."""
    return np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == 0x0A)


def nests_deep(block: bytes, ends: np.ndarray) -> bool:
    """Whether a block of lines, with line ends at those places, may nest deeper than is safe.

    Brackets inside of texts count too: a block that is taken for a deep one is read another way, and none the worse.
    """
    letters = np.frombuffer(block, dtype=np.uint8)
    longest = int(np.diff(ends, prepend=-1, append=len(letters)).max())
    if longest < _DEEPEST:
        return False
    steps = np.isin(letters, _OPENS).astype(np.int32) - np.isin(letters, _CLOSES)
    return bool(np.cumsum(steps).max(initial=0) > _DEEPEST)
