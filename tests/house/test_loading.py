"""What starts without Spark does not load PySpark either, which takes seconds and memory."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
# Of these, others are given by name and loaded when they are used.
WITHOUT_SPARK = ("headrace.serve.server", "headrace.events.reader", "headrace.mcp.server")


def file_of(module: str) -> Path | None:
    place = SOURCE / module.replace(".", "/")
    found = (place / "__init__.py", place.with_suffix(".py"))
    return next((file for file in found if file.is_file()), None)


def imported_at_once(module: str) -> Iterator[str]:
    """What a module imports when it is loaded, with the packages around it."""
    file = file_of(module)
    for statement in ast.parse(file.read_text(encoding="utf-8")).body if file else ():
        match statement:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=str(name), names=names):
                yield from (inner if file_of(inner := f"{name}.{alias.name}") else name for alias in names)
    yield module.rpartition(".")[0]


@pytest.mark.parametrize("root", WITHOUT_SPARK)
def test_no_import_leads_from_what_starts_without_spark_to_pyspark(root: str) -> None:
    assert file_of(root) is not None
    found = {root: root}
    waiting = [root]
    for module in waiting:
        for name in filter(None, imported_at_once(module)):
            if name not in found:
                found[name] = f"{found[module]} -> {name}"
                waiting.append(name)

    assert [path for name, path in found.items() if name.partition(".")[0] in ("pyspark", "py4j")] == []
