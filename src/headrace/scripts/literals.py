"""Reads from a script's text, before it runs: connectors, settings needed at session start, local modules."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.connectors.lock import ALWAYS, connectors

# Formats and modules that need a connector with another name.
_PROVIDED_BY = {"eventhubs": "kafka", "pyspark.sql.avro.functions": "avro"}
# Modules that only pipeline files use.
_OF_PIPELINES = ("dlt", "pyspark.pipelines", "headrace.pipelines")


@dataclass(frozen=True)
class Literals:
    """Facts from the text of a script.

    Attributes:
        connectors: required by its formats and modules.
        confs: settings with literal keys and values, in the order of the text; the last one wins.
        pipeline_line: the line that imports the vendor's pipelines, or 0.
        local_modules: whether it imports a module from its own folder.
    """

    connectors: frozenset[str]
    confs: Mapping[str, str]
    pipeline_line: int = 0
    local_modules: bool = False


def literals_of(trees: Iterable[ast.AST], folder: Path) -> Literals:
    """The facts from the parsed texts of a script.

    Args:
        trees: one per cell, or one for the whole script.
        folder: the folder of the script.
    """
    nodes = [node for tree in trees for node in ast.walk(tree)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    modules = dict(_modules(nodes))
    known = set(connectors()) - {ALWAYS}
    words = {text.casefold() for call in calls for text in _formats(call)} | set(modules)
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    words |= {word for word in known if any(f"read_{word}(" in text.casefold() for text in texts)}
    needed = {_PROVIDED_BY.get(word, word) for word in words} & known
    pipeline = next((line for name, line in modules.items() if name in _OF_PIPELINES), 0)
    local = any(_is_local(folder, name) for name in modules)
    return Literals(frozenset(needed), dict(_confs(calls)), pipeline, local)


def split_confs(confs: Mapping[str, str], modifiable: Callable[[str], bool]) -> tuple[dict[str, str], dict[str, str]]:
    """Split settings into those that a running session accepts, and the others."""
    later = {key: value for key, value in confs.items() if modifiable(key)}
    return later, {key: value for key, value in confs.items() if key not in later}


def _formats(call: ast.Call) -> Iterator[str]:
    given = _method(call)
    if given == "format" and call.args and isinstance(call.args[0], ast.Constant):
        yield str(call.args[0].value)
    for keyword in call.keywords:
        if keyword.arg == "format" and isinstance(keyword.value, ast.Constant):
            yield str(keyword.value.value)


def _confs(calls: Iterable[ast.Call]) -> Iterator[tuple[str, str]]:
    for call in sorted(calls, key=lambda call: (call.end_lineno or 0, call.end_col_offset or 0)):
        method, values = _method(call), [_constant(value) for value in call.args]
        if method == "master" and values[:1] != [None]:
            yield "spark.master", str(values[0])
        elif method in ("config", "set") and len(values) == 2 and None not in values:
            key = str(values[0])
            if key.startswith("spark."):
                yield key, str(values[1])
        elif method == "config":
            given = {word.arg: _constant(word.value) for word in call.keywords}
            if given.get("key") is not None and given.get("value") is not None:
                yield str(given["key"]), str(given["value"])


def _constant(node: ast.expr) -> str | None:
    if not isinstance(node, ast.Constant) or node.value is None:
        return None
    return str(node.value).lower() if isinstance(node.value, bool) else str(node.value)


def _method(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def _modules(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, int]]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module, node.lineno
            yield from ((f"{node.module}.{alias.name}", node.lineno) for alias in node.names)


def _is_local(folder: Path, module: str) -> bool:
    first = module.partition(".")[0]
    return (folder / f"{first}.py").is_file() or (folder / first / "__init__.py").is_file()
