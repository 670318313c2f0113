"""Edits of a program's text that fix a violation, by the positions of its syntax tree.

An edit changes only what it must: formatting and comments stay. Where a position is not certain, or a comment would be
lost, the functions return no edit.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections.abc import Sequence
from dataclasses import dataclass

from headrace.lint.program import Program, Span
from headrace.lint.source_files import Text
from headrace.model.location import Location


@dataclass(frozen=True)
class Edit:
    """Replaces a span of a text; an empty span inserts."""

    span: Span
    text: str


@dataclass(frozen=True)
class PlacedEdit:
    """An edit with its place in the file: locations instead of lines of the linted text, and these lines as linted."""

    start: Location
    column: int
    end: Location
    end_column: int
    text: str
    lines: tuple[str, ...]


Edits = tuple[Edit, ...]
_LAYOUT = (tokenize.NL, tokenize.COMMENT, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT)


def placed(text: Text, edit: Edit) -> PlacedEdit:
    """The edit of a linted text with its place in the file."""
    span = edit.span
    lines = text.lines[span.line - 1 : span.end_line]
    return PlacedEdit(
        text.location(span.line), span.column, text.location(span.end_line), span.end_column, edit.text, lines
    )


def replaced(program: Program, node: ast.expr | ast.stmt, text: str) -> Edits:
    """Replace an expression on one line."""
    one_line = node.lineno == node.end_lineno
    return (Edit(program.span_of(node), text),) if text and one_line and _is_certain(program, node) else ()


def replaced_text(program: Program, node: ast.expr, text: str) -> Edits:
    """Replace the value of a string constant; its quotes stay."""
    source = program.source(node)
    plain = isinstance(node, ast.Constant) and isinstance(node.value, str) and source[1:-1] == node.value
    return replaced(program, node, f"{source[0]}{text}{source[-1]}") if plain else ()


def inserted_after(program: Program, node: ast.expr, text: str) -> Edits:
    """Insert a text right after an expression."""
    span = program.span_of(node)
    end = Span(span.end_line, span.end_column, span.end_line, span.end_column)
    return (Edit(end, text),) if _is_certain(program, node) else ()


def renamed_method(program: Program, call: ast.Call, name: str) -> Edits:
    """Call another method with the same arguments."""
    if not isinstance(call.func, ast.Attribute) or not _is_certain(program, call):
        return ()
    return (Edit(program.span_of_name(call), name),)


def other_keyword(program: Program, call: ast.Call, name: str, text: str) -> Edits:
    """Replace the keyword argument *name* with a text, if it is the only argument and its value a constant."""
    only = call.keywords[0] if len(call.keywords) == 1 and not call.args else None
    if only is None or only.arg != name or not isinstance(only.value, ast.Constant):
        return ()
    if only.lineno != only.value.end_lineno or not _is_certain(program, call):
        return ()
    value = program.span_of(only.value)
    begin = value.column - len(f"{name}=")
    # There may be blanks around the equals sign.
    written = program.text.lines[value.line - 1][: value.column - 1].endswith(f"{name}=")
    return (Edit(Span(value.line, begin, value.end_line, value.end_column), text),) if written else ()


def without_call(program: Program, call: ast.Call) -> Edits:
    """Remove the last call of a chain, with the line break before it."""
    tokens = _tokens(program)
    dot = _dot(program, tokens, call)
    if dot is None:
        return ()
    end = program.span_of(call)
    before = max(at for at in range(dot) if tokens[at].type not in _LAYOUT)
    inside = [token for token in tokens[dot:] if token.start < (end.end_line, end.end_column - 1)]
    if any(token.type == tokenize.COMMENT for token in inside):
        return ()
    comments = [token for token in tokens[before:dot] if token.type == tokenize.COMMENT]
    line, column = (comments[-1] if comments else tokens[before]).end
    return (Edit(Span(line, column + 1, end.end_line, end.end_column), ""),)


def inserted_call(program: Program, call: ast.Call, text: str) -> Edits:
    """Insert a call, such as ``.option("a", "b")``, into a chain before the last call of *call*, laid out like it."""
    tokens = _tokens(program)
    dot = _dot(program, tokens, call)
    if dot is None:
        return ()
    between = tokens[max(at for at in range(dot) if tokens[at].type not in _LAYOUT) : dot]
    line, column = tokens[dot].start
    comments = any(token.type == tokenize.COMMENT for token in between)
    is_first = not program.text.lines[line - 1][:column].strip()
    indentation = "\n" + program.text.lines[line - 1][:column] if is_first else ""
    at = Span(line, column + 1, line, column + 1)
    return () if comments else (Edit(at, text + indentation),)


def without_statement(program: Program, statement: ast.stmt) -> Edits:
    """Remove a statement that has its lines for itself; the only statement of a block becomes ``pass``."""
    lines, end = program.text.lines, statement.end_lineno or statement.lineno
    span = program.span_of(statement)
    alone = not lines[span.line - 1][: span.column - 1].strip() and not lines[end - 1][span.end_column - 1 :].strip()
    if not alone or any("#" in line for line in lines[span.line - 1 : end]):
        return ()
    if any(block == [statement] for block in _blocks(program)):
        return (Edit(span, "pass"),)
    if end == len(lines):
        return (Edit(Span(span.line, 1, end, span.end_column), ""),)
    return (Edit(Span(span.line, 1, end + 1, 1), ""),)


def statement_of(program: Program, node: ast.AST) -> ast.stmt | None:
    """The statement that consists of an expression alone, or assigns a name to itself with a call in between."""
    for found in program.nodes:
        match found:
            case ast.Expr(value=value) if value is node:
                return found
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=ast.Attribute(value=ast.Name(id=own)))):
                if found.value is node and own == name:
                    return found
            case _:
                pass
    return None


def with_import(program: Program, statement: ast.stmt, text: str) -> Edits:
    """Insert an import after the last import of the module above a statement; without one, above the statement."""
    body = program.tree.body
    if statement not in body:
        return ()
    above = [node for node in body[: body.index(statement)] if isinstance(node, ast.Import | ast.ImportFrom)]
    if above:
        span = program.span_of(above[-1])
        at = Span(span.end_line, span.end_column, span.end_line, span.end_column)
        rest = program.text.lines[span.end_line - 1][span.end_column - 1 :]
        return () if rest.strip() else (Edit(at, f"\n{text}"),)
    line = min([statement.lineno, *(node.lineno for node in getattr(statement, "decorator_list", ()))])
    return (Edit(Span(line, 1, line, 1), f"{text}\n\n\n"),)


def _is_certain(program: Program, node: ast.AST) -> bool:
    """Whether the text at the position of a node is the node; inside f-strings, Python before 3.12 is often wrong."""
    in_f_string = any(
        node is part for found in program.nodes if isinstance(found, ast.JoinedStr) for part in ast.walk(found)
    )
    return not in_f_string or program.source(node) == ast.unparse(node)


def _dot(program: Program, tokens: Sequence[tokenize.TokenInfo], call: ast.Call) -> int | None:
    """The position of the dot before the name of the method."""
    if not isinstance(call.func, ast.Attribute) or not _is_certain(program, call):
        return None
    name = program.span_of_name(call)
    named = (at for at, token in enumerate(tokens) if token.start == (name.line, name.column - 1))
    at = next((at for at in named if tokens[at].string == call.func.attr), 0)
    dots = [before for before in range(at) if tokens[before].type not in _LAYOUT]
    return dots[-1] if dots and tokens[dots[-1]].string == "." else None


def _tokens(program: Program) -> list[tokenize.TokenInfo]:
    """The tokens; none if Python parses the program but cannot divide it into tokens."""
    try:
        return list(tokenize.generate_tokens(io.StringIO(program.text.code).readline))
    except (tokenize.TokenError, SyntaxError):
        return []


def _blocks(program: Program) -> list[list[ast.stmt]]:
    fields = ("body", "orelse", "finalbody")
    found = (getattr(node, name, None) for node in program.nodes for name in fields)
    return [block for block in found if isinstance(block, list)]
