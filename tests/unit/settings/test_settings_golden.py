"""The texts of errors, one Markdown file per case: a block for each file of the project, and the error."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from headrace.errors import PipelineError, Problems, problems_of
from headrace.settings.discover import find_settings
from headrace.settings.load import load_settings
from headrace.settings.source_files import source_files

CASES = sorted((Path(__file__).parent / "cases").glob("*.md"))
BLOCK = re.compile(r"^```(\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_settings_errors_match_their_golden_texts(case, tmp_path):
    text = case.read_text(encoding="utf-8")
    blocks = dict(BLOCK.findall(text))
    expected = blocks.pop("error")
    write(tmp_path, blocks)

    found = errors(tmp_path)

    if os.environ.get("HEADRACE_GOLDEN") == "rewrite":
        case.write_text(text.replace(f"```error\n{expected}```", f"```error\n{found}```"), encoding="utf-8")
    else:
        assert found == expected


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def errors(folder: Path) -> str:
    try:
        source_files(load_settings(find_settings(folder), environ={}))
    except (PipelineError, Problems) as error:
        rendered = "\n".join(problem.render() for problem in problems_of(error))
        return rendered.replace(str(folder), "<project>") + "\n"
    return "none\n"
