"""Whether the arguments of a call mention a column."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from headrace.lint.program import Program
from headrace.lint.scopes import FUNCTIONS
from headrace.lint.values import Bound, Class, Frame, Function, Imported, Literal, Session, Several, Value


def mentions(program: Program, node: ast.Call, columns: Iterable[str]) -> bool:
    """Whether the arguments of a call mention one of these columns, or may: an unknown value may be any column."""
    names = [column.rpartition(".")[2] for column in columns]
    handed = (*node.args, *(keyword.value for keyword in node.keywords))
    return any(_may_be(program, part, names) for argument in handed for part in ast.walk(argument))


def _may_be(program: Program, part: ast.AST, names: list[str]) -> bool:
    match part:
        case ast.Constant(value=str(text)):
            return any(name in text for name in names)
        case ast.Attribute(attr=attr) if attr in names:
            return True
        case ast.Name() | ast.Attribute() | ast.Starred() | ast.JoinedStr():
            inner = part.value if isinstance(part, ast.Starred) else part
            return _value_may_be(program.value(inner), names)
        case ast.Subscript(value=owner):
            of = program.value(owner)
            return not (isinstance(of, Frame) and of.streaming is not None)
        case ast.Call(func=function):
            called = program.value(function)
            return isinstance(called, Function) or (
                isinstance(called, Imported) and not called.name.startswith(FUNCTIONS)
            )
        case _:
            return False


def _value_may_be(value: Value, names: list[str]) -> bool:
    match value:
        case Literal(value=text):
            return any(name in str(text) for name in names)
        case Several(items=items):
            return any(_value_may_be(item, names) for item in items)
        case Imported(name=name):
            # An expression built earlier contains a call.
            return name.endswith("()")
        case Bound(of=Frame() as of):
            return of.streaming is None
        case Bound(of=Imported() | Session()) | Session() | Function() | Class():
            return False
        case Frame():
            return value.streaming is None
        case _:
            return True
