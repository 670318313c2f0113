"""Whole numbers in requests."""

from __future__ import annotations


def whole_number(text: str, most_digits: int = 18) -> int | None:
    """The number that a text of digits has; None for any other text, and for one with too many digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= most_digits else None
