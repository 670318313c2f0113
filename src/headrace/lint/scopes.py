"""Names of a program: where each is bound, and what unbound ones mean by convention."""

from __future__ import annotations

import ast
import builtins
import re
from collections import ChainMap
from collections.abc import Iterator
from dataclasses import dataclass, field

from headrace.lint.methods import name_set
from headrace.lint.values import Imported, Session, Value

FUNCTIONS = "pyspark.sql.functions"
EXPR = f"{FUNCTIONS}.expr"
_PIPELINES = ("pyspark.pipelines", "headrace.pipelines", "dlt")
# Names that notebooks and fragments use without an import.
_CONVENTIONS = {
    "spark": Session(),
    "F": Imported(FUNCTIONS),
    "dlt": Imported("dlt"),
    "dp": Imported("pyspark.pipelines"),
    "DeltaTable": Imported("delta.tables.DeltaTable"),
    "Window": Imported("pyspark.sql.Window"),
    "SparkSession": Imported("pyspark.sql.SparkSession"),
}
# Functions known to the rules that ``from pyspark.sql.functions import *`` imports.
_STARRED = name_set(
    "approx_count_distinct broadcast col column count countDistinct count_distinct current_date "
    "current_timestamp expr input_file_block_length input_file_block_start input_file_name lit now "
    "session_window sumDistinct sum_distinct struct to_json window"
)


@dataclass
class Scope:
    """The names of a module or a function; ``key`` identifies it."""

    key: int
    parent: Scope | None = None
    names: ChainMap[str, Value] = field(default_factory=ChainMap)

    def find(self, name: str, *, outermost: bool = True) -> Value | None:
        """The value of a name here; None if it is not bound, or without *outermost* only in the outermost scope."""
        scope: Scope | None = self
        while scope is not None and (outermost or scope.parent is not None):
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None


# An unbound name like these is a stream from another cell or page.
_CALLED_STREAM = re.compile(r"(?:^|_)stream(?:ing)?_?(?:df|data|data_?frame)?\d*$|(?:^|_)(?:df|data)_stream(?:ing)?$")


def called_stream(name: str) -> bool:
    """Whether a name says that it is a stream."""
    return _CALLED_STREAM.search(name) is not None


def conventional(name: str) -> Value | None:
    """The usual meaning of an unbound name in notebooks and fragments; None without one."""
    if name in _STARRED:
        return Imported(f"{FUNCTIONS}.{name}")
    return _CONVENTIONS.get(name)


def of_pipelines(value: Value) -> str | None:
    """The name of a value within the pipeline modules; empty for a module itself, None for other values."""
    name = value.name if isinstance(value, Imported) else ""
    for module in _PIPELINES:
        if name == module or name.startswith(f"{module}."):
            return name.removeprefix(module).removeprefix(".")
    return None


def imported(statement: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, Value]]:
    """The names that an import binds; those of a star import are unknown."""
    for alias in statement.names:
        if isinstance(statement, ast.Import):
            bound = alias.asname or alias.name.partition(".")[0]
            yield bound, Imported(alias.name if alias.asname else bound)
        elif alias.name != "*":
            module = "." * statement.level + (statement.module or "")
            yield alias.asname or alias.name, Imported(f"{module}.{alias.name}")


def bound_names(tree: ast.AST, *, within_functions: bool = True) -> frozenset[str]:
    """All names that a program binds, and the builtins; with *within_functions* False, only module-level names."""
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
    """All nodes of a tree; with *within_functions* False, those that run at import, except class bodies."""
    pending = [tree]
    while pending:
        node = pending.pop()
        yield node
        if within_functions or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            pending += ast.iter_child_nodes(node)
