"""The reference page of Auto Loader's cases, generated from the data that a test runs: tests/cases/auto_loader."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

CASES = Path(__file__).resolve().parent.parent / "tests" / "cases" / "auto_loader"
_ORDER = ("inference", "hints", "evolution", "rescue")
_INTRODUCTION = """\
# Auto Loader: cases

Examples of schema inference, hints, evolution and rescued data. Each shows the options, the files, and the resulting
columns and rows. A test runs every example from the same data (`tests/unit/autoloader/test_cases.py`). `_rescued_data`
is shown only if it has a value.
"""


def auto_loader_cases_page() -> str:
    """The expected text of docs/reference/auto-loader-cases.md."""
    return "\n".join([_INTRODUCTION, *(line for name in _ORDER for line in _chapter(name))])


def _chapter(name: str) -> Iterator[str]:
    document = tomllib.loads((CASES / f"{name}.toml").read_text(encoding="utf-8"))
    yield f"## {document['title']}\n\n{document['about']}\n"
    for case in document["case"]:
        yield f"### {case['title']}\n"
        yield from _step_lines(case, {"cloudFiles.format": case["format"]})
        for step in case.get("then", ()):
            yield "Then:\n"
            yield from _step_lines(step, {})


def _step_lines(step: Mapping[str, Any], options: Mapping[str, str]) -> Iterator[str]:
    given = [f'{name} = "{value}"' for name, value in {**options, **step.get("options", {})}.items()]
    if "schema" in step:
        given.append(f"schema: {step['schema']}")
    for name, text in step.get("files", {}).items():
        given += [f"{name}:", *(f"    {line}" for line in text.strip().split("\n"))]
    if given:
        yield _block(given)
    if "columns" in step:
        yield f"Columns: `{step['columns']}`\n"
    if "rows" in step:
        yield _block([json.dumps(_plain(row), ensure_ascii=False) for row in step["rows"]])
    if "stops_at" in step:
        yield f"Stops, because of the new fields {', '.join(f'`{name}`' for name in step['stops_at'])}.\n"
    if "fails" in step:
        yield f"Fails: `{step['fails']}`\n"


def _plain(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: None if value == "NULL" else value if _is_json(value) else str(value) for name, value in row.items()}


def _is_json(value: Any) -> bool:
    return isinstance(value, (str, int, float, bool, list, dict))


def _block(lines: list[str]) -> str:
    return "\n".join(f"    {line}" for line in lines) + "\n"
