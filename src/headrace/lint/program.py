"""A piece of Python with all that is known of it, as rules look at it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from heapq import merge
from operator import itemgetter

from headrace.lint.evaluation import defines_pipeline, facts_of
from headrace.lint.facts import Facts
from headrace.lint.scopes import FUNCTIONS, bound_names
from headrace.lint.sources import Text
from headrace.lint.values import Bound, Frame, Imported, Literal, Step, Value

_READY = ("headrace.spark_session", "headrace.scripts.session.spark_session")


@dataclass(frozen=True)
class Span:
    """From a line and a column up to others, in a text; both count from 1, and the last column is behind the end."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class Program:
    """Python, read.

    ``in_project`` says that the file is one of a pipeline, which finds more names ready-made than a script does.
    """

    text: Text
    tree: ast.Module
    in_project: bool = False

    @cached_property
    def facts(self) -> Facts:
        """What its expressions stand for."""
        return facts_of(self.tree)

    @cached_property
    def _called(self) -> dict[str, list[tuple[int, Step, Value]]]:
        """Calls of methods by their names, each with its place in the order of all."""
        found: dict[str, list[tuple[int, Step, Value]]] = {}
        for number, (step, function) in enumerate(self.facts.steps):
            found.setdefault(step.name, []).append((number, step, function))
        return found

    @cached_property
    def bound(self) -> frozenset[str]:
        """The names that it binds."""
        return bound_names(self.tree)

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """Every part of the tree."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def pipeline(self) -> bool:
        """Whether it is part of a pipeline."""
        return self.in_project or defines_pipeline(self.facts.values.values())

    @cached_property
    def ready(self) -> bool:
        """Whether it has the ready session: it is part of a pipeline, or asks Headrace for its session."""
        found = self.facts.values.values()
        return self.pipeline or any(isinstance(value, Imported) and value.name in _READY for value in found)

    def value(self, node: ast.AST) -> Value:
        """What an expression stands for."""
        return self.facts.values.get(node, Value())

    def source(self, node: ast.AST) -> str:
        """An expression on one line, as it is written where it is on one."""
        line, end_line = getattr(node, "lineno", 0), getattr(node, "end_lineno", None)
        if line == end_line and 0 < line <= len(self.text.lines):
            written = self.text.lines[line - 1].encode()
            return written[getattr(node, "col_offset", 0) : getattr(node, "end_col_offset", None)].decode()
        return ast.unparse(node)

    def calls(self, *names: str) -> Iterator[tuple[Step, Value]]:
        """Calls of methods of these names, with what they are called on."""
        wanted = (self._called[name] for name in dict.fromkeys(names) if name in self._called)
        for _, step, function in merge(*wanted, key=itemgetter(0)):
            yield step, function.of if isinstance(function, Bound) else Value()

    def frame_calls(self, *names: str) -> Iterator[tuple[Step, Frame]]:
        """Calls of methods of these names on DataFrames."""
        for step, owner in self.calls(*names):
            if isinstance(owner, Frame):
                yield step, owner

    def function_calls(self, *names: str) -> Iterator[tuple[Step, str]]:
        """Calls of functions of Spark's own module of these names, each with its name."""
        wanted = {f"{FUNCTIONS}.{name}": name for name in names}
        for step, function in self.facts.steps:
            if isinstance(function, Imported) and function.name in wanted:
                yield step, wanted[function.name]

    def confs(self) -> Iterator[tuple[Step, str, Value]]:
        """Settings of the session that it makes: the call, the name and the value."""
        for step, function in self.facts.steps:
            sets = isinstance(function, Bound) and function.name == "set"
            if sets or (isinstance(function, Imported) and function.name.endswith(".config")):
                key = step.given(0, "key")
                if isinstance(key, Literal) and str(key.value).startswith("spark."):
                    yield step, str(key.value), step.given(1, "value") or Value()

    def says(self, text: str) -> bool:
        """Whether some constant of the program has this text in it."""
        return any(isinstance(node, ast.Constant) and text in str(node.value) for node in self.nodes)

    def at(self, node: ast.expr | ast.stmt) -> Span:
        """The place of a node."""
        end_line = node.end_lineno or node.lineno
        end = node.end_col_offset or node.col_offset
        return Span(
            node.lineno,
            _column(self.text.lines, node.lineno, node.col_offset),
            end_line,
            _column(self.text.lines, end_line, end),
        )

    def at_name(self, node: ast.expr) -> Span:
        """The place of the name that is called, in a chain the last one."""
        function = node.func if isinstance(node, ast.Call) else node
        if not isinstance(function, ast.Attribute):
            return self.at(function)
        line, end = function.end_lineno or function.lineno, function.end_col_offset or 0
        column = _column(self.text.lines, line, end)
        return Span(line, column - len(function.attr), line, column)


def _column(lines: Sequence[str], line: int, offset: int) -> int:
    """A column in characters, of an offset in bytes."""
    text = lines[line - 1] if line <= len(lines) else ""
    if text.isascii():
        return min(offset, len(text)) + 1
    return len(text.encode()[:offset].decode(errors="ignore")) + 1


def call_arguments(program: Program, call: ast.Call) -> str:
    """The arguments of a call, as they are written in the file."""
    given = [program.source(argument) for argument in call.args]
    given += [f"{'**' if one.arg is None else f'{one.arg}='}{program.source(one.value)}" for one in call.keywords]
    return ", ".join(given)
