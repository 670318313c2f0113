"""Makes external text safe for a terminal."""

from __future__ import annotations


def printable(text: str, *, keep: str = "") -> str:
    """The text with control characters escaped, so that data cannot move the cursor or set colours."""
    return "".join(char if char.isprintable() or char in keep else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
