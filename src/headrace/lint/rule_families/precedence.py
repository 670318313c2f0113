"""Conditions that Python groups differently than they look."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from headrace.lint.edits import replaced
from headrace.lint.program import Program
from headrace.lint.rules import Violation, rule
from headrace.lint.scopes import FUNCTIONS
from headrace.lint.values import Bound, Frame, Imported

_SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}


def _precedence(program: Program) -> Iterator[Violation]:
    for node in program.nodes:
        if not isinstance(node, ast.Compare) or not all(type(op) in _SIGNS for op in node.ops):
            continue
        operands = [node.left, *node.comparators]
        joined = [
            part for part in operands if isinstance(part, ast.BinOp) and isinstance(part.op, ast.BitAnd | ast.BitOr)
        ]
        bare = [part for part in joined if not _in_brackets(program, part)]
        columns = any(_is_column(program, part) for operand in operands for part in ast.walk(operand))
        # With two columns, the author may mean it as Python reads it.
        certain = len(node.ops) > 1 or any(_is_number(part) for part in operands)
        if bare and columns and certain:
            message = f'"{_sign(bare[0])}" binds more tightly than the comparison'
            fix = _apart(program, node)
            yield Violation(program.span_of(node), message, fix, edits=replaced(program, node, fix))


def _in_brackets(program: Program, node: ast.expr) -> bool:
    """Whether an operand has its own brackets."""
    line = program.text.lines[node.lineno - 1].encode()[: node.col_offset].decode(errors="ignore").rstrip()
    end = node.end_lineno or node.lineno
    behind = program.text.lines[end - 1].encode()[node.end_col_offset or 0 :].decode(errors="ignore").lstrip()
    return line.endswith("(") and behind.startswith(")")


def _is_number(node: ast.expr) -> bool:
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, int | float | str) and not isinstance(value, bool)


def _is_column(program: Program, node: ast.AST) -> bool:
    match node:
        case ast.Call(func=function):
            named = program.value(function)
            return isinstance(named, Imported) and named.name.startswith(f"{FUNCTIONS}.")
        case ast.Attribute():
            value = program.value(node)
            return isinstance(value, Bound) and isinstance(value.of, Frame) and value.of.streaming is not None
        case ast.Subscript(value=owner):
            of = program.value(owner)
            return isinstance(of, Frame) and of.streaming is not None
        case _:
            return False


def _apart(program: Program, node: ast.Compare) -> str:
    """The conditions, each in brackets; empty if they are joined by different operators."""
    conditions: list[str] = []
    left = node.left
    if isinstance(left, ast.BinOp) and _joins(left):
        conditions.append(_written(program, left.left))
        left = left.right
    for op, operand in zip(node.ops, node.comparators, strict=True):
        joins = isinstance(operand, ast.BinOp) and _joins(operand)
        right = operand.left if isinstance(operand, ast.BinOp) and joins else operand
        conditions.append(f"({_written(program, left)} {_SIGNS[type(op)]} {_written(program, right)})")
        left = operand.right if isinstance(operand, ast.BinOp) and joins else operand
    if left is not node.comparators[-1]:
        conditions.append(_written(program, left))
    signs = {_sign(part) for part in (node.left, *node.comparators) if isinstance(part, ast.BinOp) and _joins(part)}
    return f" {signs.pop()} ".join(conditions) if len(signs) == 1 else ""


def _written(program: Program, node: ast.expr) -> str:
    text = program.source(node)
    plain = isinstance(node, ast.Name | ast.Attribute | ast.Call | ast.Subscript | ast.Constant)
    return text if plain else f"({text})"


def _joins(node: ast.BinOp) -> bool:
    return isinstance(node.op, ast.BitAnd | ast.BitOr)


def _sign(node: ast.BinOp) -> str:
    return "&" if isinstance(node.op, ast.BitAnd) else "|"


RULES = (rule("column-precedence", _precedence),)
