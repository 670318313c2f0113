"""Texts from outside, such as rows and messages, made safe to show to a language model: they stay data."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Mapping
from typing import Any

MOST_CHARACTERS = 4_000
# Characters without a shape that texts need: joiners of scripts and emoji, and the soft hyphen.
_NEEDED = frozenset("\n\t\u00ad\u200c\u200d")
# Controls, direction marks, tags, private use, surrogates, line and paragraph separators.
_UNSEEN = frozenset(("Cc", "Cf", "Co", "Cs", "Zl", "Zp"))
# Variation selectors that can hide a byte each; emoji use those before.
_HIDDEN_SELECTORS = range(0xE0100, 0xE01F0)


def visible(text: str) -> str:
    r"""The text with characters that cannot be seen as escapes, such as ``\x1b`` and ``\u202e``.

    They could move a cursor, reverse a text, or hide one. Line breaks and tabs stay.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(char if _is_seen(char) else _escaped(char) for char in text)


def shortened(text: str, most_characters: int = MOST_CHARACTERS) -> str:
    """The text, or its start and how much was left out."""
    if len(text) <= most_characters:
        return text
    return f"{text[:most_characters]}… ({len(text) - most_characters:,} more characters)"


def cleaned(value: Any, redact: Callable[[str], str], most_characters: int = MOST_CHARACTERS) -> Any:
    """A JSON value whose texts and names are without secrets, visible and not too long."""
    if isinstance(value, str):
        return shortened(visible(redact(value)), most_characters)
    if isinstance(value, Mapping):
        return {
            cleaned(str(name), redact, most_characters): cleaned(item, redact, most_characters)
            for name, item in value.items()
        }
    return [cleaned(item, redact, most_characters) for item in value] if isinstance(value, list | tuple) else value


def _is_seen(char: str) -> bool:
    if char in _NEEDED:
        return True
    return unicodedata.category(char) not in _UNSEEN and ord(char) not in _HIDDEN_SELECTORS


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")
