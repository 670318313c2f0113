"""Fingerprints of a script's streams, which distinguish streams that the same line starts.

A fingerprint is the same in the next run if the query and the values captured by the functions are the same.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from datetime import date, timedelta
from decimal import Decimal
from enum import Enum
from functools import partial
from hashlib import sha256
from pathlib import PurePath
from types import CodeType, FunctionType, MethodType
from typing import Any

from pyspark.sql import DataFrame

from headrace.spark.jvm.plan_nodes import items, node_kind

# Column ids and object addresses, which differ in each run.
_VOLATILE = re.compile(r"#\d+L?|@[0-9a-f]{4,}\b")
_PLAIN = (str, bytes, int, float, complex, type(None), date, timedelta, Decimal, Enum, PurePath)
_OF_PYTHON = frozenset(("PythonUDF", "PythonUDAF", "PythonUDTF"))
# How deep captured values are inspected; deeper values hardly matter for what a stream does.
_MAX_DEPTH = 4
# Arguments of a plan's text: no verbose details, no node numbers, and no truncated column lists.
_FULL_TEXT = (False, False, 1_000_000, False, False)


class StreamFingerprints:
    """The fingerprints of the streams of one run.

    Lists, dicts and sets count with their content when they were first seen: a function may collect results in them,
    which do not affect what it does.
    """

    def __init__(self) -> None:
        self._seen: dict[int, tuple[Any, list[str]]] = {}

    def of(self, frame: DataFrame, *functions: Any) -> str:
        """The fingerprint of a stream: of its query and of the functions that process its rows.

        Args:
            frame: the frame of the stream.
            functions: user functions, such as that of ``foreachBatch``; None for none.
        """
        java: Any = frame._jdf  # noqa: SLF001 - plans have no public form
        plan = java.queryExecution().analyzed()
        tree = plan.treeString(*_FULL_TEXT)
        found = sha256(_VOLATILE.sub("", tree).encode())
        jvm: Any = frame.sparkSession._jvm  # noqa: SLF001 - the same
        pattern = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF()
        if plan.containsPattern(pattern):
            found.update(" ".join(_python_functions(plan, pattern)).encode())
        for function in functions:
            found.update("\n".join(self._described(function, 0)).encode())
        return found.hexdigest()[:24]

    def _described(self, value: Any, depth: int) -> Iterator[str]:
        """Texts that describe a value, without addresses; for an opaque value, its class."""
        if isinstance(value, _PLAIN):
            yield f"{type(value).__name__} {value!r}"
        elif depth == _MAX_DEPTH:
            yield type(value).__qualname__
        elif isinstance(value, dict | list | set):
            if id(value) not in self._seen:
                # The value is kept too, so that no other object gets its id.
                self._seen[id(value)] = (value, [])
                self._seen[id(value)][1].extend(self._content(value, depth))
            yield from self._seen[id(value)][1]
        elif isinstance(value, tuple | frozenset):
            yield from self._content(value, depth)
        else:
            yield from self._of_callable(value, depth)

    def _content(self, value: Any, depth: int) -> Iterator[str]:
        if isinstance(value, dict):
            value = [part for item in list(value.items()) for part in item]
        texts = [" ".join(self._described(one, depth + 1)) for one in list(value)]
        yield from sorted(texts) if isinstance(value, set | frozenset) else texts

    def _of_callable(self, value: Any, depth: int) -> Iterator[str]:
        captured: tuple[Any, ...] = ()
        if isinstance(value, partial):
            captured = (value.func, value.args, *value.keywords.items())
        elif isinstance(value, MethodType):
            captured = (value.__func__, value.__self__)
        elif isinstance(value, FunctionType):
            yield from self._code(value.__code__)
            named = (value.__kwdefaults__ or {}).items()
            captured = (value.__defaults__, *named, *_cells(value), *_globals(value))
        else:
            yield getattr(value, "__qualname__", type(value).__qualname__)
            if _is_own(type(value)):
                captured = tuple(getattr(value, "__dict__", {}).items())
        for one in captured:
            yield from self._described(one, depth + 1)

    def _code(self, code: CodeType) -> Iterator[str]:
        yield f"{code.co_name} {code.co_code.hex()} {code.co_names}"
        for constant in code.co_consts:
            yield from self._code(constant) if isinstance(constant, CodeType) else self._described(constant, 0)


def _python_functions(plan: Any, pattern: Any) -> Iterator[str]:
    """Hashes of the pickled Python functions in a plan: their names do not show captured values."""
    for expression in items(plan.expressions()):
        yield from _python_functions_in(expression, pattern)
    for child in items(plan.children()):
        yield from _python_functions(child, pattern)


def _python_functions_in(expression: Any, pattern: Any) -> Iterator[str]:
    if not expression.containsPattern(pattern):
        return
    if node_kind(expression) in _OF_PYTHON:
        yield str(expression.func().command().hashCode())
    for child in items(expression.children()):
        yield from _python_functions_in(child, pattern)


def _is_own(kind: type) -> bool:
    """Whether a class is defined in the script or in a file next to it."""
    package = kind.__module__.partition(".")[0]
    file = getattr(sys.modules.get(package), "__file__", None) or ""
    return package == "__main__" or not (package in sys.stdlib_module_names or "site-packages" in file)


def _cells(function: FunctionType) -> list[Any]:
    return [_content(cell) for cell in function.__closure__ or ()]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        # The cell is still empty.
        return None


def _globals(function: FunctionType) -> list[tuple[str, Any]]:
    """The global values that a function uses, except builtins."""
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    return [(name, function.__globals__[name]) for name in sorted(names & function.__globals__.keys())]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
