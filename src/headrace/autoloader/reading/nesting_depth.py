"""How deep brackets nest, found without reading: Arrow's JSON reader calls itself for each, until the process dies."""

from __future__ import annotations

import numpy as np

_DEEPEST = 500
_COUNTED_BYTES = 1024 * 1024
# What a byte adds to the depth: brackets open and close.
_STEPS = np.zeros(256, dtype=np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


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
    deep = 0
    # Some at a time: all steps of a line of many megabytes would take many times its memory.
    for begin in range(0, len(letters), _COUNTED_BYTES):
        depths = np.cumsum(_STEPS[letters[begin : begin + _COUNTED_BYTES]], dtype=np.int32) + deep
        if depths.max() > _DEEPEST:
            return True
        deep = int(depths[-1])
    return False
