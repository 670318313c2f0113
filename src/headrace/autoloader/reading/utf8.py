"""Whether bytes are UTF-8, which Arrow takes for granted in names."""

from __future__ import annotations


def is_utf8(block: bytes) -> bool:
    """Whether all of a block is UTF-8."""
    if block.isascii():
        return True
    try:
        block.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
