"""A piece of Python with its facts, as rules see it."""

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
from headrace.lint.source_files import Text
from headrace.lint.values import Bound, Frame, Imported, Literal, Step, Value

_NOTEBOOK_SESSIONS = ("headrace.spark_session", "headrace.scripts.session.spark_session")


@dataclass(frozen=True)
class Span:
    """A range of a text; lines and columns count from 1, and the end column is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


@dataclass(frozen=True)
class Program:
    """A parsed piece of Python.

    ``in_project`` is True for a file of a pipeline, which has more names predefined than a script.
    """

    text: Text
    tree: ast.Module
    in_project: bool = False

    @cached_property
    def facts(self) -> Facts:
        """The values of its expressions."""
        return facts_of(self.tree)

    @cached_property
    def _called(self) -> dict[str, list[tuple[int, Step, Value]]]:
        """Method calls by name, each with its position in the program."""
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
        """All nodes of the tree."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def is_pipeline(self) -> bool:
        """Whether it is part of a pipeline."""
        return self.in_project or defines_pipeline(self.facts.values.values())

    @cached_property
    def has_notebook_session(self) -> bool:
        """Whether it has Headrace's session: it is part of a pipeline, or calls ``headrace.spark_session``."""
        found = self.facts.values.values()
        return self.is_pipeline or any(
            isinstance(value, Imported) and value.name in _NOTEBOOK_SESSIONS for value in found
        )

    def value(self, node: ast.AST) -> Value:
        """The value of an expression."""
        return self.facts.values.get(node, Value())

    def source(self, node: ast.AST) -> str:
        """The source of an expression on one line: as written if it is on one, otherwise unparsed."""
        line, end_line = getattr(node, "lineno", 0), getattr(node, "end_lineno", None)
        if line == end_line and 0 < line <= len(self.text.lines):
            written = self.text.lines[line - 1].encode()
            return written[getattr(node, "col_offset", 0) : getattr(node, "end_col_offset", None)].decode()
        return ast.unparse(node)

    def calls(self, *names: str) -> Iterator[tuple[Step, Value]]:
        """Calls of methods with these names, each with its owner."""
        wanted = (self._called[name] for name in dict.fromkeys(names) if name in self._called)
        for _, step, function in merge(*wanted, key=itemgetter(0)):
            yield step, function.of if isinstance(function, Bound) else Value()

    def frame_calls(self, *names: str) -> Iterator[tuple[Step, Frame]]:
        """Calls of methods with these names on DataFrames."""
        for step, owner in self.calls(*names):
            if isinstance(owner, Frame):
                yield step, owner

    def function_calls(self, *names: str) -> Iterator[tuple[Step, str]]:
        """Calls of functions of ``pyspark.sql.functions`` with these names, each with its name."""
        wanted = {f"{FUNCTIONS}.{name}": name for name in names}
        for step, function in self.facts.steps:
            if isinstance(function, Imported) and function.name in wanted:
                yield step, wanted[function.name]

    def confs(self) -> Iterator[tuple[Step, str, Value]]:
        """Spark settings that it sets: the call, the name and the value."""
        for step, function in self.facts.steps:
            sets = isinstance(function, Bound) and function.name == "set"
            if sets or (isinstance(function, Imported) and function.name.endswith(".config")):
                key = step.argument(0, "key")
                if isinstance(key, Literal) and str(key.value).startswith("spark."):
                    yield step, str(key.value), step.argument(1, "value") or Value()

    def has_constant(self, text: str) -> bool:
        """Whether a constant of the program contains this text."""
        return any(isinstance(node, ast.Constant) and text in str(node.value) for node in self.nodes)

    def span_of(self, node: ast.expr | ast.stmt) -> Span:
        """The span of a node."""
        end_line = node.end_lineno or node.lineno
        end = node.end_col_offset or node.col_offset
        return Span(
            node.lineno,
            _column(self.text.lines, node.lineno, node.col_offset),
            end_line,
            _column(self.text.lines, end_line, end),
        )

    def span_of_name(self, node: ast.expr) -> Span:
        """The span of the called name; in a chain, of the last one."""
        function = node.func if isinstance(node, ast.Call) else node
        if not isinstance(function, ast.Attribute):
            return self.span_of(function)
        line, end = function.end_lineno or function.lineno, function.end_col_offset or 0
        column = _column(self.text.lines, line, end)
        return Span(line, column - len(function.attr), line, column)


def _column(lines: Sequence[str], line: int, offset: int) -> int:
    """The column in characters for an offset in bytes."""
    text = lines[line - 1] if line <= len(lines) else ""
    if text.isascii():
        return min(offset, len(text)) + 1
    return len(text.encode()[:offset].decode(errors="ignore")) + 1


def call_arguments(program: Program, call: ast.Call) -> str:
    """The arguments of a call, as written in the file."""
    given = [program.source(argument) for argument in call.args]
    given += [f"{'**' if one.arg is None else f'{one.arg}='}{program.source(one.value)}" for one in call.keywords]
    return ", ".join(given)
