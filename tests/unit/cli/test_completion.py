"""Completion in shells: what follows which words, the names of a project, and bash itself."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headrace.cli.completion.answer import VARIABLE, answer, grammar
from headrace.cli.completion.candidates import FILES, FOLDERS, Names, candidates
from headrace.cli.completion.stored_names import stored_names
from headrace.cli.main import call
from headrace.settings.storage import path_safe

NAMES = {"dataset": ["orders", "daily", "ops.log"], "flow": ["orders", "late"], "profile": ["dev", "prod"]}


def found(*words):
    reply = candidates(words, grammar(), Names(lambda kind, _given: NAMES[kind]))
    return [candidate.word for candidate in reply.found] or reply.shell


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["stat"], ["status", "state"]),
        (["quarantine", ""], ["list", "show", "replay"]),
        (["quarantine", "show", "d"], ["daily"]),
        (["quarantine", "show", "daily", ""], ""),
        (["run", "--ref"], ["--refresh"]),
        (["run", "--refresh", ""], ["orders", "daily", "ops.log"]),
        (["run", "--refresh", "orders,"], ["orders,daily", "orders,ops.log"]),
        (["run", "--refresh=o"], ["--refresh=orders", "--refresh=ops.log"]),
        (["run", "--exclude", "orders,+d"], ["orders,+daily"]),
        (["run", "--full-refresh", "st"], ["state:modified"]),
        (["run", "--refresh", "orders", "--cont"], ["--continuous"]),
        (["run", "--reset-checkpoint", "l"], ["late"]),
        (["--output", ""], ["text", "json"]),
        (["--output", "json", "run", "--output", "t"], ["text"]),
        (["--project", ""], FOLDERS),
        (["--profile", "p", "run", "--profile", "p"], ["prod"]),
        (["backfill", ""], ["orders", "late"]),
        (["backfill", "orders", "--from", ""], ""),
        (["lint", "a.py", ""], FILES),
        (["exec", ""], FILES),
        (["exec", "a.py", "--output"], FILES),
        (["init", ""], ""),
        (["completion", "z"], ["zsh"]),
        (["status", ""], ["--help"]),
        (["no-verb", ""], ""),
    ],
)
def test_candidates_follow_from_the_words_before(words, expected):
    if words[:1] == ["no-verb"]:
        assert "run" in found(*words)
    else:
        assert found(*words) == expected


def test_every_candidate_of_the_first_word_is_described():
    reply = candidates([""], grammar(), Names(lambda *_: []))

    assert len(reply.found) > 20
    assert [candidate.word for candidate in reply.found if not candidate.about] == []


@pytest.fixture
def shop(tmp_path, monkeypatch):
    (tmp_path / "pipeline.yml").write_text("name: shop\nschema: sales\nprofiles: {dev: {}, prod: {}}\n")
    storage = tmp_path / "storage"
    for table in ("sales/orders", "sales/orders_quarantine", "ops/log", "main/sales/far"):
        (storage / "tables" / table / "_delta_log").mkdir(parents=True)
    for flow in ("orders", "späte aufträge", "x" * 300):
        folder = storage / "checkpoints" / "sales" / "orders" / path_safe(flow)
        folder.mkdir(parents=True)
        (folder / "flow.json").touch()
    (storage / "system" / "views" / "sales").mkdir(parents=True)
    (storage / "system" / "views" / "sales" / "seen.json").touch()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_names_are_those_of_the_storage_as_users_write_them(shop):
    assert stored_names("dataset", {}, {}) == ["main.sales.far", "ops.log", "orders", "seen"]
    assert stored_names("flow", {}, {}) == ["orders", "späte aufträge"]
    assert stored_names("profile", {}, {}) == ["dev", "prod"]


@pytest.mark.parametrize("text", [None, "", "nonsense: 1", "name: [", "name: other\nstorage: elsewhere"])
def test_there_are_no_names_without_a_project_that_can_be_read(tmp_path, text):
    if text is not None:
        (tmp_path / "pipeline.yml").write_text(text)

    assert stored_names("dataset", {"--project": str(tmp_path)}, {}) == []


def test_names_that_a_shell_would_run_are_no_candidates(shop):
    (shop / "pipeline.yml").write_text("name: shop\nprofiles: {dev: {}, 'x;touch${IFS}y;#': {}, $(id): {}}\n")

    lines = list(answer(["headrace run --profile "], {VARIABLE: "bash", "HOME": str(shop)}))

    assert lines == ["dev\t"]


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("headrace run --refresh o", [":open", "ops.log\t", "orders\t"]),
        # Bash replaces what follows the equals sign.
        ("headrace run --refresh=o", [":open", "ops.log\t", "orders\t"]),
        ("headrace --output=j", ["json\t"]),
        ("headrace --project ", [":folders"]),
        ("headrace --project 'a fol", [":folders"]),
    ],
)
def test_bash_gets_a_line_for_each_candidate(shop, line, expected):
    lines = list(answer([line], {VARIABLE: "bash"}))

    assert [found for found in lines if "main." not in found] == expected


def test_bash_completes_with_the_printed_script(shop, capsys):
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("no bash")
    call(["completion", "bash"])
    script = capsys.readouterr().out
    line = "headrace run --refresh orders,ops"
    asked = f'COMP_LINE="{line}"; COMP_POINT={len(line)}; COMP_WORDS=(headrace); _headrace; echo "${{COMPREPLY[*]}}"'

    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [bash, "-c", script + asked], capture_output=True, text=True, check=True, env={**os.environ, "PATH": path}
    )

    assert done.stdout.strip() == "orders,ops.log"


def test_completion_imports_neither_the_parser_nor_what_verbs_need():
    program = (
        "import os, sys; os.environ['_HEADRACE_COMPLETE'] = 'zsh'; sys.argv[1:] = ['run', '--refresh', ''];"
        "from headrace.cli.entry import main; main();"
        "slow = ('typer', 'rich', 'pyarrow', 'deltalake', 'pyspark', 'sqlglot');"
        "print([name for name in slow if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script_that_asks_the_program(capsys, shell):
    assert call(["completion", shell, "--output", "json"]) == 0

    assert f"{VARIABLE}={shell}" in json.loads(capsys.readouterr().out)["script"]
