"""SQL as rules see it: the statements of a file, and the strings that a program passes to Spark."""

from __future__ import annotations

import ast
import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from headrace.errors import PipelineError
from headrace.lint.program import Program, Span
from headrace.lint.scopes import EXPR
from headrace.lint.source_files import Text
from headrace.lint.values import Bound, Frame, Imported, Literal, Session
from headrace.sql.lexer import Token, lex
from headrace.sql.statements import read_statements

# DataFrame methods that take SQL expressions.
_TAKE_EXPRESSIONS = ("filter", "where", "selectExpr")
STANDS_FOR_VALUE = "headrace_value"


@dataclass(frozen=True)
class Sql:
    """A statement (``whole``) or an expression.

    ``program`` passes it to Spark in ``call``; ``siblings`` are all statements of a SQL file.
    """

    tokens: tuple[Token, ...]
    spans: tuple[Span, ...]
    whole: bool = True
    program: Program | None = None
    call: ast.Call | None = None
    siblings: Sequence[Sql] = field(default=(), compare=False, repr=False)

    def span_of(self, index: int) -> Span:
        """The span of a token."""
        return self.spans[index]

    def begins(self, *words: str) -> bool:
        """Whether the statement begins with these words."""
        first = self.tokens[: len(words)]
        return len(first) == len(words) and all(t.is_word(w) for t, w in zip(first, words, strict=True))

    def find(self, *words: str) -> Iterator[int]:
        """The positions of these words in sequence."""
        for index in range(len(self.tokens) - len(words) + 1):
            if all(self.tokens[index + at].is_word(word) for at, word in enumerate(words)):
                yield index

    def calls(self, *names: str) -> Iterator[int]:
        """The positions of calls of functions with these names, in capitals."""
        for index, (token, following) in enumerate(pairwise(self.tokens)):
            qualified = index > 0 and self.tokens[index - 1].is_symbol(".")
            if token.is_word(*names) and following.is_symbol("(") and not qualified:
                yield index


def statements_of(text: Text, name: str) -> tuple[tuple[Sql, ...], PipelineError | None]:
    """The statements of a piece of SQL, and the problem that keeps the rest from being read."""
    code = text.code
    starts = [0, *(match.end() for match in re.finditer("\n", code))]
    statements, problem = read_statements(code, name)
    found: list[Sql] = []
    position = 0
    for statement in statements:
        begin = code.index(statement.text, position)
        position = begin + len(statement.text)
        spans = tuple(_span(starts, begin, token) for token in statement.tokens)
        found.append(Sql(statement.tokens, spans, siblings=found))
    if problem is not None and problem.location is not None:
        problem = PipelineError(problem.code, location=text.location(problem.location.line), **problem.params)
    return tuple(found), problem


def sql_in(program: Program) -> Iterator[Sql]:
    """The SQL in the strings that a program passes to Spark."""
    for call, node, text, whole in _handed(program):
        tokens = lex(text).tokens
        yield Sql(tokens, tuple(_in_string(program, node, token) for token in tokens), whole, program, call)


def sql_strings(program: Program) -> Iterator[tuple[ast.expr, str]]:
    """The strings with SQL that a program passes to Spark, each with its text."""
    for _, node, text, _ in _handed(program):
        yield node, text


def _handed(program: Program) -> Iterator[tuple[ast.Call, ast.expr, str, bool]]:
    """The calls, the strings, their texts, and whether these are whole statements."""
    for step, function in program.facts.steps:
        match function:
            case Bound(of=Session(), name="sql"):
                texts, whole = step.node.args[:1], True
            case Bound(of=Frame(), name=name) if name in _TAKE_EXPRESSIONS:
                texts, whole = step.node.args, False
            case Imported(name=name) if name == EXPR:
                texts, whole = step.node.args[:1], False
            case _:
                continue
        for node in texts:
            text = _string(program, node)
            if text is not None:
                yield step.node, node, text, whole


def _string(program: Program, node: ast.expr) -> str | None:
    """The text of a string, with a placeholder for each unknown value."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_part(program, part) for part in node.values)
    value = program.value(node)
    return value.value if isinstance(value, Literal) and isinstance(value.value, str) else None


def _part(program: Program, part: ast.expr) -> str:
    value = program.value(part.value if isinstance(part, ast.FormattedValue) else part)
    return str(value.value) if isinstance(value, Literal) else STANDS_FOR_VALUE


def _in_string(program: Program, node: ast.expr, token: Token) -> Span:
    """The span of a token if its text is found in the lines of the string, otherwise the span of the string."""
    line = node.lineno + token.line - 1
    if line <= (node.end_lineno or node.lineno):
        text = program.text.lines[line - 1]
        column = text.find(token.text, 0 if line > node.lineno else program.span_of(node).column - 1)
        if column >= 0:
            return Span(line, column + 1, line, column + 1 + len(token.text))
    return program.span_of(node)


def _span(starts: Sequence[int], begin: int, token: Token) -> Span:
    start, end = begin + token.start, begin + token.end
    return Span(*_line_and_column(starts, start), *_line_and_column(starts, end))


def _line_and_column(starts: Sequence[int], offset: int) -> tuple[int, int]:
    line = bisect_right(starts, offset)
    return line, offset - starts[line - 1] + 1
