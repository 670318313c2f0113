"""Makes external text safe for a terminal."""

from __future__ import annotations

import json
from typing import Any


def printable(text: str, *, keep: str = "") -> str:
    """The text with control characters escaped, so that data cannot move the cursor or set colours."""
    return "".join(char if char.isprintable() or char in keep else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def json_text(value: Any) -> str:
    """A value as JSON in one line, whose control characters and other invisible ones are escaped."""
    text = json.dumps(value, ensure_ascii=False)
    # They occur in strings alone, and json leaves those above 0x7f as they are.
    return text if text.isprintable() else "".join(char if char.isprintable() else _json_escape(char) for char in text)


def _json_escape(char: str) -> str:
    return json.dumps(char)[1:-1]
