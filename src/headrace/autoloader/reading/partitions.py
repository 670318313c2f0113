"""Partition columns from the ``key=value`` folders of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import unquote

_NULL = "__HIVE_DEFAULT_PARTITION__"


def folder_values(base: str, folder: str) -> dict[str, str | None]:
    """Keys and values of the folders between *base* and *folder*, outermost first; None for Hive's NULL."""
    return dict(folder_keys_and_values(base, folder))


def folder_keys_and_values(base: str, folder: str) -> list[tuple[str, str | None]]:
    """As :func:`folder_values`, but with repeated keys, of which the innermost counts."""
    below = folder.removeprefix(base).strip("/")
    found: list[tuple[str, str | None]] = []
    for part in below.split("/"):
        key, separator, value = part.partition("=")
        if separator and key:
            found.append((_unquoted(key), None if value == _NULL else _unquoted(value)))
    return found


def _unquoted(text: str) -> str:
    """The unescaped text; unchanged if the escapes are not valid UTF-8."""
    try:
        return unquote(text, errors="strict")
    except UnicodeDecodeError:
        return text


def common_keys(layouts: Sequence[Mapping[str, str | None]]) -> tuple[str, ...]:
    """The longest list of keys, if all layouts are prefixes of it; otherwise ()."""
    longest = max((tuple(layout) for layout in layouts), key=len, default=())
    return longest if all(tuple(layout) == longest[: len(layout)] for layout in layouts) else ()
