"""The glossary names things that are there, under the words by which people look for them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from headrace import pipelines

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
COMMAND_LINE = (ROOT / "docs" / "reference" / "command-line.md").read_text(encoding="utf-8")
ROWS = [
    tuple(cell.strip() for cell in line.strip("|").split("|"))
    for line in GLOSSARY.splitlines()
    if line.startswith("| ") and not line.startswith("| term ")
]
# Words that people search for, and the term under which they are found.
SOUGHT = {
    "dead letter queue": "dead letter",
    "DLQ": "dead letter",
    "upsert": "change data capture",
    "late data": "late row",
    "small files": "compaction",
    "idempotent writes": "exactly-once",
    "backpressure": "lag",
    "schema drift": "schema evolution",
    "merge": "change data capture",
    "audit log": "event log",
    "micro-batch": "batch",
    "split brain": "fencing",
}


def is_there(name: str) -> bool:
    """Whether a name of the last column is one of the package, of its API, or of its command line."""
    if name.startswith("dp."):
        return hasattr(pipelines, name.removeprefix("dp."))
    if name.startswith(("--", "headrace ")):
        return name in COMMAND_LINE
    place = ROOT / "src" / Path(*name.split("."))
    if place.is_dir() or place.with_suffix(".py").is_file():
        return True
    module = place.parent.with_suffix(".py")
    tree = ast.parse(module.read_text(encoding="utf-8")) if module.is_file() else ast.Module([], [])
    return any(getattr(node, "name", None) == place.name for node in tree.body)


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_every_term_has_a_meaning_and_an_existing_name_in_code(row: tuple[str, ...]) -> None:
    term, meaning, _, code = row

    assert (bool(term), meaning.endswith("."), is_there(code.strip("`"))) == (True, True, True)


def test_each_term_is_listed_once() -> None:
    terms = [row[0] for row in ROWS]

    assert sorted(terms) == sorted(set(terms))


@pytest.mark.parametrize("word", SOUGHT)
def test_a_common_synonym_leads_to_its_term(word: str) -> None:
    found = [row[0] for row in ROWS if word in re.split(r", ", row[2])]

    assert SOUGHT[word] in found
