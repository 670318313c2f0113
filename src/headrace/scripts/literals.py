"""What a script's text says before it runs: connectors, settings that a session takes at its start, local modules."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.connectors.lock import ALWAYS, connectors

# What other formats and modules need besides the connectors' own names.
_BROUGHT_BY = {"eventhubs": "kafka", "pyspark.sql.avro.functions": "avro"}
# Names of modules in which only a file of a pipeline has something to declare.
_OF_PIPELINES = ("dlt", "pyspark.pipelines", "headrace.pipelines")


@dataclass(frozen=True)
class Literals:
    """What stands in the text.

    Attributes:
        connectors: that formats and modules need.
        confs: settings with literal keys and values, in the order of the text; the last one wins.
        pipeline_line: the line that imports the vendor's pipelines, or 0.
        local_modules: whether it imports a module that lies beside it.
    """

    connectors: frozenset[str]
    confs: Mapping[str, str]
    pipeline_line: int = 0
    local_modules: bool = False


def literals_of(trees: Iterable[ast.AST], folder: Path) -> Literals:
    """What the parsed texts of a script say.

    Args:
        trees: one for each cell, or one in all.
        folder: the one that the script lies in.
    """
    nodes = [node for tree in trees for node in ast.walk(tree)]
    calls = [node for node in nodes if isinstance(node, ast.Call)]
    modules = dict(_modules(nodes))
    known = set(connectors()) - {ALWAYS}
    words = {text.casefold() for call in calls for text in _formats(call)} | set(modules)
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    words |= {word for word in known if any(f"read_{word}(" in text.casefold() for text in texts)}
    needed = {_BROUGHT_BY.get(word, word) for word in words} & known
    pipeline = next((line for name, line in modules.items() if name in _OF_PIPELINES), 0)
    local = any(_lies_in(folder, name) for name in modules)
    return Literals(frozenset(needed), dict(_confs(calls)), pipeline, local)


def split_confs(confs: Mapping[str, str], modifiable: Callable[[str], bool]) -> tuple[dict[str, str], dict[str, str]]:
    """The settings that a session takes while it runs, and the others."""
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


def _lies_in(folder: Path, module: str) -> bool:
    first = module.partition(".")[0]
    return (folder / f"{first}.py").is_file() or (folder / first / "__init__.py").is_file()
