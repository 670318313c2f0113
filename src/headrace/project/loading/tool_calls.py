"""Calls of an assistant's tools in files and notebooks: names with hyphens, which Python parses as subtractions.

Documents show ``mcp__data-knowledge-base__get_document("pipeline", "streaming-tables")`` as a cell. It becomes a call
of :func:`called`, at the same line.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Callable
from pathlib import Path

from headrace.assistant.knowledge.library import library
from headrace.errors import PipelineError

# The name of the function in the rewritten text.
NAME = "__headrace_tool__"
_CALL = re.compile(r"mcp__([A-Za-z0-9_]+(?:-[A-Za-z0-9_]+)+?)__([A-Za-z]\w*)(?=\s*\()")
_DOCS = Path(__file__).parents[4] / "docs"


def with_tool_calls(text: str) -> str:
    """The text of a cell with such calls rewritten as valid Python; unchanged if it has none or is not Python."""
    if "mcp__" not in text or _CALL.search(text) is None:
        return text
    lines = text.split("\n")
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return text
    names = [token.start for token in tokens if token.type == tokenize.NAME and token.string.startswith("mcp__")]
    for line, column in reversed(names):
        found = _CALL.match(lines[line - 1], column)
        if found is not None:
            server, tool = found.groups()
            call = f"{NAME}({server!r}, {tool!r})"
            lines[line - 1] = f"{lines[line - 1][:column]}{call}{lines[line - 1][found.end() :]}"
    return "\n".join(lines)


def called(server: str, tool: str) -> Callable[..., str]:
    """The tool of a server, as a function: ``get_document`` returns a page of the knowledge base.

    Raises:
        PipelineError: SCRIPT.NO_TOOL, for another tool.
    """
    if tool != "get_document":
        raise PipelineError("SCRIPT.NO_TOOL", server=server, tool=tool)
    return _document


def _document(collection: str, name: str) -> str:
    """The text of a page, or why there is none: an assistant's tool returns a text instead of raising."""
    known = next((page for page in library().pages if (page.category, page.name) == (collection, name)), None)
    if known is not None:
        return f"# {known.title}\n\n{known.body}"
    # A checkout also has the documentation.
    pages = sorted(_DOCS.rglob("*.md")) if _DOCS.is_dir() else []
    found = next((page for page in pages if page.stem == name), None)
    if found is not None:
        return found.read_text(encoding="utf-8")
    return str(PipelineError("SCRIPT.NO_DOCUMENT", name=f"{collection}/{name}", pages=", ".join(p.stem for p in pages)))
