"""The words of ``headrace exec``: those behind the file are the script's."""

from __future__ import annotations

import pytest

from headrace.cli.arguments import hoist_global_options
from headrace.cli.main import call


def test_words_behind_the_file_stay_the_scripts():
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
def test_what_keeps_a_script_from_starting_is_wrong_on_the_command_line(words, code, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert call(words) == 2
    assert code in capsys.readouterr().err
