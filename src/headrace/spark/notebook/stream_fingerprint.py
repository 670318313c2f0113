"""What a stream of a script does, as a short text: two streams that one line starts are told apart by it.

It is the same in the next run, as far as the rows that are asked for and the values that the functions hold are.
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

# Numbers of columns and addresses of objects, which are others in each run.
_CHANCE = re.compile(r"#\d+L?|@[0-9a-f]{4,}\b")
_PLAIN = (str, bytes, int, float, complex, type(None), date, timedelta, Decimal, Enum, PurePath)
_OF_PYTHON = frozenset(("PythonUDF", "PythonUDAF", "PythonUDTF"))
# How deep the values of functions are looked at: what lies below hardly says what a stream does.
_DEEPEST = 4
# Of a plan's text: neither more about each node nor numbers of them, and no list of columns is cut.
_WHOLE = (False, False, 1_000_000, False, False)


class StreamFingerprints:
    """Those of the streams of one run.

    Lists, dicts and sets are what they were when they were first met: a function may collect in them what it has seen,
    which says nothing of what it does.
    """

    def __init__(self) -> None:
        self._met: dict[int, tuple[Any, list[str]]] = {}

    def of(self, frame: DataFrame, *functions: Any) -> str:
        """A text that changes with what a stream reads and makes of it, and with the functions that take its rows.

        Args:
            frame: the rows of the stream.
            functions: the user's own, such as that of ``foreachBatch``; None for none.
        """
        java: Any = frame._jdf  # noqa: SLF001 - plans have no public form
        plan = java.queryExecution().analyzed()
        tree = plan.treeString(*_WHOLE)
        found = sha256(_CHANCE.sub("", tree).encode())
        jvm: Any = frame.sparkSession._jvm  # noqa: SLF001 - the same
        pattern = jvm.org.apache.spark.sql.catalyst.trees.TreePattern.PYTHON_UDF()
        if plan.containsPattern(pattern):
            found.update(" ".join(_python_functions(plan, pattern)).encode())
        for function in functions:
            found.update("\n".join(self._described(function, 0)).encode())
        return found.hexdigest()[:24]

    def _described(self, value: Any, depth: int) -> Iterator[str]:
        """The texts of what a value is, without addresses; of what nobody can look into, its class."""
        if isinstance(value, _PLAIN):
            yield f"{type(value).__name__} {value!r}"
        elif depth == _DEEPEST:
            yield type(value).__qualname__
        elif isinstance(value, dict | list | set):
            if id(value) not in self._met:
                # Kept as well, so that nothing else gets its number.
                self._met[id(value)] = (value, [])
                self._met[id(value)][1].extend(self._content(value, depth))
            yield from self._met[id(value)][1]
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
        held: tuple[Any, ...] = ()
        if isinstance(value, partial):
            held = (value.func, value.args, *value.keywords.items())
        elif isinstance(value, MethodType):
            held = (value.__func__, value.__self__)
        elif isinstance(value, FunctionType):
            yield from self._code(value.__code__)
            named = (value.__kwdefaults__ or {}).items()
            held = (value.__defaults__, *named, *_cells(value), *_globals(value))
        else:
            yield getattr(value, "__qualname__", type(value).__qualname__)
            if _is_own(type(value)):
                held = tuple(getattr(value, "__dict__", {}).items())
        for one in held:
            yield from self._described(one, depth + 1)

    def _code(self, code: CodeType) -> Iterator[str]:
        yield f"{code.co_name} {code.co_code.hex()} {code.co_names}"
        for constant in code.co_consts:
            yield from self._code(constant) if isinstance(constant, CodeType) else self._described(constant, 0)


def _python_functions(plan: Any, pattern: Any) -> Iterator[str]:
    """What the functions of Python in a plan were sent as: the name alone does not say what they hold."""
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
    """Whether a class is one of the script, or of a file beside it."""
    package = kind.__module__.partition(".")[0]
    file = getattr(sys.modules.get(package), "__file__", None) or ""
    return package == "__main__" or not (package in sys.stdlib_module_names or "site-packages" in file)


def _cells(function: FunctionType) -> list[Any]:
    return [_content(cell) for cell in function.__closure__ or ()]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        # It is filled later.
        return None


def _globals(function: FunctionType) -> list[tuple[str, Any]]:
    """What the names in a function stand for, but for those of Python itself."""
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    return [(name, function.__globals__[name]) for name in sorted(names & function.__globals__.keys())]


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)
