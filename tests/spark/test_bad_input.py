"""What is wrong with a project is told with code, message, place and hint, exit 2, before anything is written.

Each case is a Markdown file: a block for each file of the project, then what ``validate`` prints for a person and as
JSON. ``HEADRACE_GOLDEN=rewrite`` writes the last two anew.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest
from tests.tiers import EVERYTHING

from headrace.cli.failures import WRONG
from headrace.cli.main import call
from headrace.testing.warm import unchanged

pytestmark = pytest.mark.spark

CASES = sorted((Path(__file__).parents[1] / "cases" / "bad_input").glob("*.md"))
BLOCK = re.compile(r"^```(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TOLD = ("validate", "json")


@pytest.fixture
def told(headrace_session, tmp_path, capsys):
    """Run verbs on a project in a scratch folder: exit code, text for a person, and text for a program."""
    project = tmp_path / "project"
    project.mkdir()

    def run(*words):
        code = call(["--project", str(project), *words])
        said = capsys.readouterr()
        return code, *(text.replace(str(project), "<project>") for text in (said.err, said.out))

    with unchanged(headrace_session, project):
        yield project, run


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_an_invalid_project_prints_the_expected_problems_and_writes_nothing(case, told):
    text = case.read_text(encoding="utf-8")
    blocks = dict(BLOCK.findall(text))
    expected = [blocks.pop(name, "") for name in TOLD]
    project, run = told
    write(project, {name: block.replace("<project>", str(project)) for name, block in blocks.items()})
    before = listing(project)

    runs = [run("run"), run("plan", "--output", "json")]

    found = [runs[0][1], pretty(runs[1][2])]
    if os.environ.get("HEADRACE_GOLDEN") == "rewrite":
        case.write_text(rewritten(text, found), encoding="utf-8")
    else:
        assert found == expected
    assert [code for code, _, _ in runs] == [WRONG] * 2
    assert listing(project) == before


@pytest.mark.parametrize("case", CASES if EVERYTHING else CASES[::9], ids=lambda case: case.stem)
def test_validate_reports_the_same_problems_as_an_update(case, told):
    blocks = dict(BLOCK.findall(case.read_text(encoding="utf-8")))
    project, run = told
    write(project, {name: block.replace("<project>", str(project)) for name, block in blocks.items()})
    before = listing(project)

    code, text, _ = run("validate")

    assert (code, text) == (WRONG, blocks["validate"])
    assert listing(project) == before


def test_an_unknown_selection_is_reported_with_the_nearest_name_and_writes_nothing(told):
    project, run = told
    view = "CREATE MATERIALIZED VIEW bronze AS SELECT 1 AS id;"
    write(project, {"pipeline.yml": "name: shop", "transformations/a.sql": view})
    before = listing(project)

    code, text, _ = run("run", "--refresh", "bronse")

    assert code == WRONG
    assert text.splitlines() == [
        'error[SELECTION.UNKNOWN]: selected table "bronse" is not in the pipeline',
        '  hint: Did you mean "bronze"?',
    ]
    assert listing(project) == before


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def listing(folder: Path) -> dict[str, int]:
    """Every path below a folder with the time of its last change."""
    return {str(path.relative_to(folder)): path.stat().st_mtime_ns for path in folder.rglob("*")}


def pretty(document: str) -> str:
    """The one JSON document of a verb, indented; anything else as it is."""
    try:
        return json.dumps(json.loads(document), indent=2, ensure_ascii=False) + "\n"
    except json.JSONDecodeError:
        return document


def rewritten(text: str, found: list[str]) -> str:
    kept = re.split(r"^```(?:validate|json)$", text, maxsplit=1, flags=re.MULTILINE)[0].rstrip()
    return kept + "".join(f"\n\n```{name}\n{told}```" for name, told in zip(TOLD, found, strict=True)) + "\n"
