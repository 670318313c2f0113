"""Python source code as text: literals, calls that fit a line or have an argument a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from textwrap import indent
from typing import Any

WIDTH = 100
# Where links of a chain begin, in the body of a function.
_LINK_MARGIN = 12
_STEP = "    "


def literal(value: Any) -> str:
    """A value as Python writes it; texts have double quotes."""
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False)
        case Mapping():
            return "{" + ", ".join(f"{literal(key)}: {literal(item)}" for key, item in value.items()) + "}"
        case list() | tuple():
            return "[" + ", ".join(map(literal, value)) + "]"
        case _:
            return repr(value)


def call(head: str, arguments: Iterable[str], depth: int = 0, before: str = "", after: str = "") -> str:
    """A call, indented: on one line if it fits, otherwise with an argument a line.

    Args:
        head: what is called.
        arguments: the arguments as text.
        depth: how deep the line is indented.
        before: what precedes the call on its line, such as ``return``.
        after: what follows it.
    """
    return _bracketed(f"{before}{head}(", list(arguments), f"){after}", depth)


def mapping(entries: Mapping[str, str], depth: int = 0, before: str = "", after: str = "") -> str:
    """A dictionary whose values are code, indented like a call."""
    items = [f"{literal(key)}: {value}" for key, value in entries.items()]
    return _bracketed(f"{before}{{", items, f"}}{after}", depth)


def chained(before: str, links: Sequence[str], depth: int = 0) -> str:
    """A chain of calls: ``before`` and the first link, then a link a line in parentheses if it is long."""
    margin = _STEP * depth
    line = f"{margin}{before}{''.join(links)}"
    if len(line) <= WIDTH and "\n" not in line:
        return line
    first, *rest = links
    lines = [f"{margin}{before}(", indent(first, margin + _STEP), *(indent(link, margin + _STEP) for link in rest)]
    return "\n".join([*lines, f"{margin})"])


def _bracketed(opening: str, items: Sequence[str], closing: str, depth: int) -> str:
    margin = _STEP * depth
    line = f"{margin}{opening}{', '.join(items)}{closing}"
    # A text without indentation becomes a link, or an argument.
    room = WIDTH if depth else WIDTH - _LINK_MARGIN
    if len(line) <= room and "\n" not in line:
        return line
    lines = [f"{margin}{opening}", *(indent(f"{item},", margin + _STEP) for item in items), f"{margin}{closing}"]
    return "\n".join(lines)


def module(docstring: str, imports: Iterable[str], blocks: Iterable[str]) -> str:
    """A module: its docstring, its imports in order, and blocks that are two lines apart."""
    text = f'"""{docstring}"""\n\n' + "\n".join(imports).rstrip()
    for number, block in enumerate(blocks):
        # Constants follow the imports closely.
        gap = "\n\n" if number == 0 and not block.startswith(("@", "def ")) else "\n\n\n"
        text += gap + block.strip("\n")
    return f"{text}\n"
