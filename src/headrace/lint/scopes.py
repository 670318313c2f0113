"""Names of a program: what is bound where, and what an unbound one is by convention."""

from __future__ import annotations

import ast
import builtins
import re
from collections import ChainMap
from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.lint.methods import named
from headrace.lint.values import Imported, Session, Value

FUNCTIONS = "pyspark.sql.functions"
EXPR = f"{FUNCTIONS}.expr"
_PIPELINES = ("pyspark.pipelines", "headrace.pipelines", "dlt")
# What notebooks and fragments write without an import that is to be seen.
_CONVENTIONS = {
    "spark": Session(),
    "F": Imported(FUNCTIONS),
    "dlt": Imported("dlt"),
    "dp": Imported("pyspark.pipelines"),
    "DeltaTable": Imported("delta.tables.DeltaTable"),
    "Window": Imported("pyspark.sql.Window"),
    "SparkSession": Imported("pyspark.sql.SparkSession"),
}
# Functions that the rules know, which a star of pyspark.sql.functions brings.
_STARRED = named(
    "approx_count_distinct broadcast col column count countDistinct count_distinct current_date "
    "current_timestamp expr input_file_block_length input_file_block_start input_file_name lit now "
    "session_window sumDistinct sum_distinct struct to_json window"
)


@dataclass
class Scope:
    """The names of a module or a function; ``key`` tells it from others."""

    key: int
    parent: Scope | None = None
    names: ChainMap[str, Value] = field(default_factory=ChainMap)

    def find(self, name: str, *, outermost: bool = True) -> Value | None:
        """What a name stands for here, or None when the program does not bind it, or only in its *outermost* scope."""
        scope: Scope | None = self
        while scope is not None and (outermost or scope.parent is not None):
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None


# What is called so, and bound nowhere, is a stream from another cell or another page.
_CALLED_STREAM = re.compile(r"(?:^|_)stream(?:ing)?_?(?:df|data|data_?frame)?\d*$|(?:^|_)(?:df|data)_stream(?:ing)?$")


def called_stream(name: str) -> bool:
    """Whether a name says that it is a stream."""
    return _CALLED_STREAM.search(name) is not None


def conventional(name: str) -> Value | None:
    """What a name that the program does not bind stands for in notebooks and fragments; None when nobody knows."""
    if name in _STARRED:
        return Imported(f"{FUNCTIONS}.{name}")
    return _CONVENTIONS.get(name)


def of_pipelines(value: Value) -> str | None:
    """What something is called in the modules that declare pipelines; empty for a module itself, None outside."""
    name = value.name if isinstance(value, Imported) else ""
    for module in _PIPELINES:
        if name == module or name.startswith(f"{module}."):
            return name.removeprefix(module).removeprefix(".")
    return None


def imported(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Value]]:
    """The names that an import binds; a star binds none that can be told."""
    for alias in statement.names:
        if isinstance(statement, ast.Import):
            bound = alias.asname or alias.name.partition(".")[0]
            yield bound, Imported(alias.name if alias.asname else bound)
        elif alias.name != "*":
            module = "." * statement.level + (statement.module or "")
            yield alias.asname or alias.name, Imported(f"{module}.{alias.name}")


def bound_names(tree: ast.AST, *, within_functions: bool = True) -> frozenset[str]:
    """Every name that a program binds, and those of Python itself; without functions, those of the module alone."""
    found = set(dir(builtins))
    for node in walked(tree, within_functions=within_functions):
        match node:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Import() | ast.ImportFrom():
                found.update(name for name, _ in imported(node))
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                found.add(name)
            case _:
                pass
    return frozenset(found)


def walked(tree: ast.AST, *, within_functions: bool) -> Iterator[ast.AST]:
    """Every part of a tree; without functions, what runs when the module is loaded, but for classes."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        yield node
        if within_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)
