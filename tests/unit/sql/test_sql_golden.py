"""What SQL files declare and which problems they have, one Markdown file per case: the file, and what comes of it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from headrace.model.names import Naming
from headrace.model.refresh import RefreshPolicy
from headrace.pipelines.registry import Registry
from headrace.sql.load import load_sql

CASES = sorted((Path(__file__).parent / "cases").glob("*.md"))
BLOCK = re.compile(r"^```(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
CONFIGURATION = {"path": "/landing", "schema": "silver", "start": "DATE'2024-01-01'", "limit": "10"}
PARAMETERS = {"city": "O'Hare; --", "table": "sales.`the orders`", "no_name": "a..b"}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_a_sql_file_produces_the_expected_definitions_and_problems(case):
    text = case.read_text(encoding="utf-8")
    blocks = dict(BLOCK.findall(text))
    expected = blocks["result"]

    found = result(blocks["file.sql"])

    if os.environ.get("HEADRACE_GOLDEN") == "rewrite":
        case.write_text(text.replace(f"```result\n{expected}```", f"```result\n{found}```"), encoding="utf-8")
    else:
        assert found == expected


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_crlf_line_endings_do_not_change_the_result(case):
    text = dict(BLOCK.findall(case.read_text(encoding="utf-8")))["file.sql"]

    assert result(text.replace("\n", "\r\n")).replace("\r\n", "\n") == result(text)


def result(text: str) -> str:
    registry = Registry(Naming(), Path())
    load_sql(text, "file.sql", registry, CONFIGURATION, PARAMETERS)
    definitions = registry.definitions()
    blocks = [
        *(described(dataset) for dataset in definitions.datasets),
        *(described(flow) for flow in definitions.flows),
        *(problem.render() for problem in registry.problems),
    ]
    return "\n".join(blocks) + "\n"


def described(value) -> str:
    """The fields that say something, one a line."""
    silent = (RefreshPolicy.AUTO,)
    shown = {
        name: field
        for name, field in vars(value).items()
        if name not in {"name", "location"} and field and field not in silent
    }
    lines = [f"{type(value).__name__} {value.name} at {value.location}"]
    for name, field in shown.items():
        if name == "query":
            lines += [f"  {key}: {part}" for key, part in vars(field).items() if key not in {"naming", "checked"}]
        elif name == "expectations":
            lines += [f"  {rule.action.value} {rule.name} at {rule.location}: {rule.predicate}" for rule in field]
        else:
            lines.append(f"  {name}: {getattr(field, 'value', field)}")
    return "\n".join(lines)
