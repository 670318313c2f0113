"""Find, without parsing, the JSON that crashes the process in Arrow's reader.

That is JSON that nests too deep, because the reader is recursive, and a first record ``null``. A later ``null`` Arrow
reads as a record, which it is not.
"""

from __future__ import annotations

import re

import numpy as np

_NULL_RECORD = re.compile(rb"(?:\A(?:\xef\xbb\xbf)?|\n|\r)[ \t\r]*null")
_OPENS, _LINE_END = 0x7B, 0x0A
_DEEPEST = 500
_COUNTED_BYTES = 1024 * 1024
# The change of depth at each byte.
_STEPS = np.zeros(256, dtype=np.int8)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


def line_ends(block: bytes) -> np.ndarray:
    """The positions of line ends in a block."""
    return np.flatnonzero(np.frombuffer(block, dtype=np.uint8) == 0x0A)


def is_hazardous(block: bytes, ends: np.ndarray) -> bool:
    """Whether Arrow must not read a block of lines, with line ends at *ends*."""
    return _has_null(block, ends) or _nests_deep(block, ends)


def _has_null(block: bytes, ends: np.ndarray) -> bool:
    """Whether a line may begin with a record ``null``."""
    letters = np.frombuffer(block, dtype=np.uint8)
    first = letters[np.concatenate(([0], ends + 1))[: len(ends) + (not block.endswith(b"\n"))]]
    others = (first != _OPENS) & (first != _LINE_END)
    return bool(others.any()) and _NULL_RECORD.search(block) is not None


def _nests_deep(block: bytes, ends: np.ndarray) -> bool:
    """Whether a block of lines may nest deeper than is safe.

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
