"""Streams that are joined with streams."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from headrace.lint.program import Program
from headrace.lint.rule_families.columns import mentions
from headrace.lint.rule_families.watermarks import marked, marking, remade, told
from headrace.lint.rules import Hit, Severity
from headrace.lint.scopes import EXPR
from headrace.lint.values import Frame, Imported, Literal, Several, Step, Value, text_of
from headrace.sql.lexer import lex

_INNER = ("inner", "cross")
_MARKED = 'left.withWatermark("left_time", "1 hour").join(right.withWatermark("right_time", "1 hour"), ...)'
_BOUND = "right_time BETWEEN left_time - INTERVAL 1 HOUR AND left_time + INTERVAL 1 HOUR"


def kind_of(step: Step) -> str | None:
    """The kind of a join, in the letters that all its spellings share; None where the text does not say."""
    given = step.given(2, "how")
    text = "inner" if given is None else text_of(given)
    return text.lower().replace("_", "") if text is not None else None


def unmarked_joins(program: Program) -> Iterator[Hit]:
    """Outer joins of streams that Spark refuses: nothing says when a row stays without a partner."""
    for step, owner, other in _joins(program):
        kind = kind_of(step)
        if kind is None or kind in _INNER:
            continue
        place = program.at_name(step.node)
        if not marked(owner) and not marked(other):
            yield Hit(place, f'"{kind}" join of two streams without a watermark', _MARKED)
        elif _boundless(program, step, owner, other):
            message = f'"{kind}" join of two streams without a time bound'
            yield Hit(place, message, f'F.expr("left.key = right.key AND {_BOUND}")')


def boundless_joins(program: Program) -> Iterator[Hit]:
    """Inner joins of streams that keep every row."""
    for step, owner, other in _joins(program):
        if kind_of(step) not in _INNER:
            continue
        place = program.at_name(step.node)
        if not (marked(owner) and marked(other)):
            message = "a join of two streams without watermarks on both sides keeps every row forever"
            yield Hit(place, message, _MARKED)
        elif _boundless(program, step, owner, other) and not _filtered(program, step):
            message = "a join of two streams without a time bound keeps every row forever"
            yield Hit(place, message, f'F.expr("left.key = right.key AND {_BOUND}")', Severity.WARNING)


def _joins(program: Program) -> Iterator[tuple[Step, Frame, Frame]]:
    for step, owner in program.frame_calls("join"):
        other = step.given(0, "other")
        if isinstance(other, Frame) and owner.streaming and other.streaming and told(owner) and told(other):
            yield step, owner, other


def _boundless(program: Program, step: Step, *sides: Frame) -> bool:
    """Whether the condition is seen to say nothing of times: keys that are equal, none of which has a watermark."""
    condition = step.node.args[1] if len(step.node.args) > 1 else None
    condition = next((keyword.value for keyword in step.node.keywords if keyword.arg == "on"), condition)
    columns = [column for side in sides for column in marking(side)]
    if condition is None or not columns or any(remade(program, side) for side in sides):
        return False
    on = ast.Call(ast.Name("on", ast.Load()), [condition], [])
    return _equals(program, condition) and not mentions(program, on, [*columns, "window"])


def _equals(program: Program, node: ast.expr) -> bool:
    """Whether a condition is one of keys that are equal, as far as it is written out."""
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
    """Whether it is a name of a column, or several."""
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
    """Whether rows are filtered behind the join, which Spark takes for a part of its condition."""
    return any(part.step is step for _, owner in program.frame_calls("filter", "where") for part in owner.lineage())
