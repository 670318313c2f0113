"""Joins of streams with streams."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from headrace.lint.program import Program
from headrace.lint.rule_families.columns import mentions
from headrace.lint.rule_families.watermarks import (
    has_known_source,
    has_watermark,
    may_rename_watermark,
    watermark_columns,
)
from headrace.lint.rules import Severity, Violation
from headrace.lint.scopes import EXPR
from headrace.lint.values import Frame, Imported, Literal, Several, Step, Value, text_of
from headrace.sql.lexer import lex

_INNER = ("inner", "cross")
_MARKED = 'left.withWatermark("left_time", "1 hour").join(right.withWatermark("right_time", "1 hour"), ...)'
_BOUND = "right_time BETWEEN left_time - INTERVAL 1 HOUR AND left_time + INTERVAL 1 HOUR"


def kind_of(step: Step) -> str | None:
    """The type of a join, in lower case without underscores; None if unknown."""
    given = step.argument(2, "how")
    text = "inner" if given is None else text_of(given)
    return text.lower().replace("_", "") if text is not None else None


def unmarked_joins(program: Program) -> Iterator[Violation]:
    """Outer joins of streams that Spark refuses: nothing decides when a row has no match."""
    for step, owner, other in _joins(program):
        kind = kind_of(step)
        if kind is None or kind in _INNER:
            continue
        span = program.span_of_name(step.node)
        if not has_watermark(owner) and not has_watermark(other):
            yield Violation(span, f'"{kind}" join of two streams without a watermark', _MARKED)
        elif _boundless(program, step, owner, other):
            message = f'"{kind}" join of two streams without a time bound'
            yield Violation(span, message, f'F.expr("left.key = right.key AND {_BOUND}")')


def boundless_joins(program: Program) -> Iterator[Violation]:
    """Inner joins of streams that keep every row."""
    for step, owner, other in _joins(program):
        if kind_of(step) not in _INNER:
            continue
        span = program.span_of_name(step.node)
        if not (has_watermark(owner) and has_watermark(other)):
            message = "a join of two streams without watermarks on both sides keeps every row forever"
            yield Violation(span, message, _MARKED)
        elif _boundless(program, step, owner, other) and not _filtered(program, step):
            message = "a join of two streams without a time bound keeps every row forever"
            yield Violation(span, message, f'F.expr("left.key = right.key AND {_BOUND}")', Severity.WARNING)


def _joins(program: Program) -> Iterator[tuple[Step, Frame, Frame]]:
    for step, owner in program.frame_calls("join"):
        other = step.argument(0, "other")
        if (
            isinstance(other, Frame)
            and owner.streaming
            and other.streaming
            and has_known_source(owner)
            and has_known_source(other)
        ):
            yield step, owner, other


def _boundless(program: Program, step: Step, *sides: Frame) -> bool:
    """Whether the condition has no time bound: only equal keys, none of them with a watermark."""
    condition = step.node.args[1] if len(step.node.args) > 1 else None
    condition = next((keyword.value for keyword in step.node.keywords if keyword.arg == "on"), condition)
    columns = [column for side in sides for column in watermark_columns(side)]
    if condition is None or not columns or any(may_rename_watermark(program, side) for side in sides):
        return False
    on = ast.Call(ast.Name("on", ast.Load()), [condition], [])
    return _equals(program, condition) and not mentions(program, on, [*columns, "window"])


def _equals(program: Program, node: ast.expr) -> bool:
    """Whether a condition compares keys for equality only."""
    match node:
        case ast.BinOp(left=left, op=ast.BitAnd(), right=right):
            return _equals(program, left) and _equals(program, right)
        case ast.Compare(ops=[ast.Eq()]):
            return True
        case ast.List(elts=elements):
            return bool(elements) and all(_equals(program, element) for element in elements)
        case ast.Call(func=function, args=[text]) if program.value(function) == Imported(EXPR):
            return _says_equal(text_of(program.value(text)))
        case _:
            return _names(program.value(node))


def _names(value: Value) -> bool:
    """Whether it is a column name, or several."""
    if isinstance(value, Several):
        return bool(value.items) and all(map(_names, value.items))
    return isinstance(value, Literal) and isinstance(value.value, str)


def _says_equal(text: str | None) -> bool:
    if text is None:
        return False
    tokens = lex(text).tokens
    other = any(token.is_symbol("<", ">", "(") or token.is_word("BETWEEN", "OR", "NOT") for token in tokens)
    return any(token.is_symbol("=") for token in tokens) and not other


def _filtered(program: Program, step: Step) -> bool:
    """Whether rows are filtered after the join, which Spark adds to the join condition."""
    return any(part.step is step for _, owner in program.frame_calls("filter", "where") for part in owner.lineage())
