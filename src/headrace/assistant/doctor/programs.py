"""Finds the calls of Python files that an edit changes: watermarks, and readers of streams with their options."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from headrace.assistant.doctor.facts import ProgramFile
from headrace.assistant.doctor.findings import Edit, lines_of
from headrace.assistant.doctor.stream_reader import Span, StreamReader, span_edit

_LOADS = frozenset({"load", "json", "csv", "parquet", "text", "orc", "table"})
_WATERMARK = "withWatermark"
# Functions of headrace.patterns: the position of the column, if it can have one, and the argument with the delay.
_PATTERNS: Mapping[str, tuple[int | None, str]] = {
    "windowed": (2, "delay"),
    "sessionize": (2, "delay"),
    "deduplicate": (None, "within"),
}
# Decorators that define a dataset.
_DATASETS = frozenset({"table", "streaming_table", "materialized_view", "temporary_view", "view"})


@dataclass(frozen=True)
class Watermark:
    """A call that sets a watermark, with a literal column and delay, in the query of a dataset.

    It is ``withWatermark``, or a function of ``headrace.patterns`` with a delay.
    """

    file: ProgramFile
    dataset: str
    column: str
    delay: str
    call: ast.Call
    delay_node: ast.expr

    def with_delay(self, delay: str) -> Edit | None:
        """The edit that gives it another delay; None if the literal has several lines."""
        return _replaced(self.file, self.delay_node, f'"{delay}"')

    def after(self, call: str) -> Edit | None:
        """The edit that inserts another call before it; None if the place for it is not clear."""
        if isinstance(self.call.func, ast.Attribute) and self.call.func.attr == _WATERMARK:
            return _inserted(self.file, self.call, call)
        events = self.call.args[0] if self.call.args else None
        return _replaced(self.file, events, f"{events.id}.{call}") if isinstance(events, ast.Name) else None


def watermarks(files: Sequence[ProgramFile]) -> Iterator[Watermark]:
    """The watermarks with literal columns and delays, in the functions of datasets."""
    for file, dataset, node in _nodes(files):
        if not isinstance(node, ast.Call):
            continue
        column, delay = _watermark_arguments(node)
        named, delayed = _text(column), _text(delay)
        if named is not None and delayed is not None and delay is not None:
            yield Watermark(file, dataset, named, delayed, node, delay)


def _watermark_arguments(call: ast.Call) -> tuple[ast.expr | None, ast.expr | None]:
    """The column and the delay of a call; none if it sets no watermark."""
    name = ast.unparse(call.func).rpartition(".")[2]
    if name == _WATERMARK and isinstance(call.func, ast.Attribute):
        column = call.args[0] if call.args else _keyword(call, "eventTime")
        return column, call.args[1] if len(call.args) > 1 else _keyword(call, "delayThreshold")
    pattern = _PATTERNS.get(name)
    if pattern is None:
        return None, None
    position, delay = pattern
    column = call.args[position] if position is not None and len(call.args) > position else _keyword(call, "at")
    return column, _keyword(call, delay)


def python_readers(files: Sequence[ProgramFile]) -> Iterator[StreamReader]:
    """The readers of streams in the functions of datasets."""
    for file, dataset, node in _nodes(files):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LOADS:
            found = _reader(file, dataset, node)
            if found is not None:
                yield found


def defined_datasets(files: Sequence[ProgramFile]) -> set[str]:
    """The datasets that decorated functions define, with literal names."""
    return {
        _dataset(function)
        for file in files
        for function in _functions(file)
        for decorator in function.decorator_list
        if _called(decorator) in _DATASETS and _has_literal_name(decorator)
    }


def python_definitions(files: Sequence[ProgramFile]) -> Iterator[tuple[str, str, int]]:
    """The dataset that each decorated function of a Python file defines or writes to, with file and line."""
    for file in files:
        # A notebook has no lines that a reader could find.
        for function in _functions(file) if file.name.endswith(".py") else ():
            if function.decorator_list:
                yield _dataset(function), file.name, function.decorator_list[0].lineno


def _has_literal_name(decorator: ast.expr) -> bool:
    named = _keyword(decorator, "name") if isinstance(decorator, ast.Call) else None
    return named is None or _text(named) is not None


def _called(decorator: ast.expr) -> str:
    """The last part of the name of a decorator."""
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(function).rpartition(".")[2]


def datasets_with(files: Sequence[ProgramFile], key: str, value: str) -> set[str]:
    """The datasets in whose decorators a dictionary has a literal key with a literal value."""
    return {
        _dataset(function)
        for file in files
        for function in _functions(file)
        for decorator in function.decorator_list
        for node in ast.walk(decorator)
        if isinstance(node, ast.Dict)
        for one, its_value in zip(node.keys, node.values, strict=True)
        if _text(one) == key and _text(its_value) == value
    }


def dataset_at(file: ProgramFile, line: int) -> str | None:
    """The dataset whose function has a line of a program; None outside of such functions."""
    found = None
    for function in _functions(file):
        if function.decorator_list and function.lineno <= line <= (function.end_lineno or function.lineno):
            found = _dataset(function)
    return found


def is_of(dataset: str | None, name: str) -> bool:
    """Whether a name in the program may be that of a dataset, which can have a catalog and a schema."""
    return dataset is not None and dataset.rpartition(".")[2] == name.rpartition(".")[2]


def _nodes(files: Sequence[ProgramFile]) -> Iterator[tuple[ProgramFile, str, ast.AST]]:
    """Each node of a function that defines a dataset or a flow, with the name of the dataset."""
    for file in files:
        for function in _functions(file):
            dataset = _dataset(function)
            yield from ((file, dataset, node) for node in ast.walk(function))


def tree_of(file: ProgramFile) -> ast.Module | None:
    """The syntax tree of a Python file or of the Python cells of a notebook; None if it cannot be parsed."""
    if not file.name.endswith((".py", ".ipynb")):
        return None
    try:
        return ast.parse(file.code)
    except (SyntaxError, ValueError, RecursionError):
        return None


def _functions(file: ProgramFile) -> Iterator[ast.FunctionDef]:
    """The functions of a Python file."""
    tree = tree_of(file)
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)) if tree is not None else ()


def _dataset(function: ast.FunctionDef) -> str:
    """The dataset that a decorated function writes; its own name for one without a decorator that says so."""
    for decorator in function.decorator_list:
        # Expectations have names of their own.
        if isinstance(decorator, ast.Call) and not _called(decorator).startswith("expect"):
            named = _text(_keyword(decorator, "target")) or _text(_keyword(decorator, "name"))
            if named is not None:
                return named
    return function.name


def _reader(file: ProgramFile, dataset: str, load: ast.Call) -> StreamReader | None:
    """The reader of a chain that ends with a load; None if the chain does not begin with ``readStream``."""
    assert isinstance(load.func, ast.Attribute)  # noqa: S101 - the caller has checked it
    kind, shows_all = "" if load.func.attr == "load" else load.func.attr, True
    options: dict[str, str] = {}
    calls: dict[str, ast.Call] = {}
    node: ast.expr = load.func.value
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        name, first = node.func.attr, _text(node.args[0] if node.args else None)
        if name == "format":
            kind = first or ""
        elif name == "option" and first is not None and len(node.args) > 1:
            calls.setdefault(first.lower(), node)
            options.setdefault(first.lower(), ast.unparse(node.args[1]))
        elif name in ("option", "options"):
            shows_all = False
        node = node.func.value
    if not (isinstance(node, ast.Attribute) and node.attr == "readStream"):
        return None
    values = {name: span for name, call in calls.items() if (span := _span(file, call.args[1])) is not None}
    place = _before(file, load)
    return StreamReader(
        file, dataset, kind.lower(), options, shows_all, load.lineno, values, place, '.option("{name}", {value})'
    )


def _keyword(call: ast.Call, name: str) -> ast.expr | None:
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None


def _replaced(file: ProgramFile, node: ast.expr, text: str) -> Edit | None:
    span = _span(file, node)
    return None if span is None else span_edit(file, span, text)


def _inserted(file: ProgramFile, call: ast.Call, text: str) -> Edit | None:
    """Another call of the chain, before the dot of this one."""
    place = _before(file, call)
    return None if place is None else span_edit(file, place, f".{text}")


def _span(file: ProgramFile, node: ast.expr) -> Span | None:
    """Where a node is; None if it has several lines."""
    if node.end_lineno != node.lineno or node.end_col_offset is None:
        return None
    begin, end = (_characters(file, node.lineno, offset) for offset in (node.col_offset, node.end_col_offset))
    return Span(node.lineno, begin, end)


def _before(file: ProgramFile, call: ast.Call) -> Span | None:
    """The place before the dot of a call."""
    function = call.func
    if not isinstance(function, ast.Attribute) or function.end_lineno is None or function.end_col_offset is None:
        return None
    end = _characters(file, function.end_lineno, function.end_col_offset)
    column = end - len(function.attr) - 1
    is_dot = lines_of(file.code)[function.end_lineno - 1][column : column + 1] == "."
    return Span(function.end_lineno, column, column) if is_dot else None


def _characters(file: ProgramFile, line: int, offset: int) -> int:
    """The column in characters for an offset in bytes."""
    return len(lines_of(file.code)[line - 1].encode()[:offset].decode(errors="ignore"))
