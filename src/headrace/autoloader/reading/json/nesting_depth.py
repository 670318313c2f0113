"""Measure the nesting depth of JSON without parsing: Arrow's recursive reader crashes the process if it is too deep."""

from __future__ import annotations

import numpy as np

_DEEPEST = 500
_COUNTED_BYTES = 1024 * 1024
# The change of depth at each byte.
_STEPS = np.zeros(256, dtype=np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


def line_ends(block: bytes) -> np.ndarray:
    """The positions of line ends in a block."""
    return np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == 0x0A)


def nests_deep(block: bytes, ends: np.ndarray) -> bool:
    """Whether a block of lines, with line ends at *ends*, may nest deeper than is safe.

    Brackets in strings count too: such a block is read by the other reader, with the same result.
    """
    letters = np.frombuffer(block, dtype=np.uint8)
    longest = int(np.diff(ends, prepend=-1, append=len(letters)).max())
    if longest < _DEEPEST:
        return False
    deep = 0
    # In chunks: the depths of a line of many megabytes take many times its memory.
    for begin in range(0, len(letters), _COUNTED_BYTES):
        depths = np.cumsum(_STEPS[letters[begin : begin + _COUNTED_BYTES]], dtype=np.int32) + deep
        if depths.max() > _DEEPEST:
            return True
        deep = int(depths[-1])
    return False
