"""Markdown for a terminal: paragraphs and tables fit its width, and blocks of code stay as they are, to be copied."""

from __future__ import annotations

import sys
from textwrap import indent
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.text import Text
from rich.theme import Theme

# Longer lines are hard to read.
_WIDEST = 100
_INDENT = 4 * " "


def rendered(markdown: str, width: int) -> str:
    """The text for a terminal of this width."""
    console = Console(
        file=sys.stdout, width=min(width, _WIDEST), highlight=False, theme=Theme({"markdown.code": "cyan"})
    )
    with console.capture() as capture:
        console.print(_Page(markdown, hyperlinks=False), crop=False)
    return "\n".join(line.rstrip() for line in capture.get().rstrip("\n").split("\n"))


class _Code(CodeBlock):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        # Lines stay whole, also if they are longer than the terminal is wide.
        yield Text(indent(str(self.text).rstrip(), _INDENT), no_wrap=True, overflow="ignore")


class _Heading(Heading):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        yield self.text


class _Page(Markdown):
    elements: ClassVar = {**Markdown.elements, "fence": _Code, "code_block": _Code, "heading_open": _Heading}
