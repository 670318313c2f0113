"""Text from outside, made safe for a terminal."""

from __future__ import annotations


def printable(text: str, *, keep: str = "") -> str:
    """The text with control characters written as escapes, so that data can move no cursor and set no colour."""
    return "".join(char if char.isprintable() or char in keep else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
