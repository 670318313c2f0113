"""The words of ``headrace exec``: those behind the file are the script's."""

from __future__ import annotations

import pytest

from headrace.cli.arguments import hoist_global_options, project_and_verb
from headrace.cli.main import call


def test_arguments_after_the_script_file_belong_to_the_script():
    assert hoist_global_options(["exec", "--output", "json", "job.py", "-v", "--output", "x"]) == [
        *("--output", "json"),
        *("exec", "job.py", "-v", "--output", "x"),
    ]


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("exec", "none.py"), "SCRIPT.NOT_FOUND"),
        (("exec", "--for", "soon", "none.py"), "CLI.DURATION"),
        (("exec", "--path", "/mnt", "none.py"), "CLI.NOT_PAIR"),
        (("exec", "none.txt"), "SCRIPT.NOT_FOUND"),
    ],
)
def test_exec_rejects_missing_scripts_and_invalid_options(words, code, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert call(words) == 2
    assert code in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "project", "verb"),
    [
        (["plan"], None, ["plan"]),
        (["--project", "shop", "-v", "plan", "--set", "a=b"], "shop", ["plan", "--set", "a=b"]),
        (["--project=shop", "--output=json", "--profile", "plan", "sql", "SELECT 1"], "shop", ["sql", "SELECT 1"]),
        (["--version"], None, []),
        (["--project"], "", []),
        ([], None, []),
    ],
)
def test_the_project_and_the_verb_are_found_without_the_parser(
    words: list[str], project: str | None, verb: list[str]
) -> None:
    assert project_and_verb(words) == (project, verb)
