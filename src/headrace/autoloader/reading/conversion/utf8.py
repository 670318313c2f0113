"""Check UTF-8: Arrow assumes it in names without checking."""

from __future__ import annotations


def is_utf8(block: bytes) -> bool:
    """Whether a block is valid UTF-8."""
    if block.isascii():
        return True
    try:
        block.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
