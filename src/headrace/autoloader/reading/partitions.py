"""Columns from the ``key=value`` folders that a file lies in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

_NULL = "__HIVE_DEFAULT_PARTITION__"


def folder_values(base: str, folder: str) -> dict[str, str | None]:
    """Keys and values of the folders between *base* and *folder*, outermost first; None for Hive's name of NULL."""
    below = folder.removeprefix(base).strip("/")
    found: dict[str, str | None] = {}
    for part in below.split("/"):
        key, separator, value = part.partition("=")
        if separator and key:
            found[unquote(key)] = None if value == _NULL else unquote(value)
    return found


def same_keys(layouts: Sequence[Mapping[str, str | None]]) -> tuple[str, ...]:
    """The keys of the folders, where one layout goes on where another ends; () when they contradict each other."""
    longest = max((tuple(layout) for layout in layouts), key=len, default=())
    return longest if all(tuple(layout) == longest[: len(layout)] for layout in layouts) else ()
