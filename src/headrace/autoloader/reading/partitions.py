"""Columns from the ``key=value`` folders that a file lies in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

_NULL = "__HIVE_DEFAULT_PARTITION__"


def folder_values(base: str, folder: str) -> dict[str, str | None]:
    """Keys and values of the folders between *base* and *folder*, outermost first; None for Hive's name of NULL."""
    return dict(folder_pairs(base, folder))


def folder_pairs(base: str, folder: str) -> list[tuple[str, str | None]]:
    """The same with keys that are repeated, of which the innermost counts."""
    below = folder.removeprefix(base).strip("/")
    found: list[tuple[str, str | None]] = []
    for part in below.split("/"):
        key, separator, value = part.partition("=")
        if separator and key:
            found.append((_unquoted(key), None if value == _NULL else _unquoted(value)))
    return found


def _unquoted(text: str) -> str:
    """The text behind its escapes; with them where they are no text."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text


def same_keys(layouts: Sequence[Mapping[str, str | None]]) -> tuple[str, ...]:
    """The keys of the folders, where one layout goes on where another ends; () when they contradict each other."""
    longest = max((tuple(layout) for layout in layouts), key=len, default=())
    return longest if all(tuple(layout) == longest[: len(layout)] for layout in layouts) else ()
