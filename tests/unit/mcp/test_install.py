"""`headrace assist install` extends what is there, and replaces nothing by itself."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from headrace.cli.main import call
from headrace.errors import PipelineError, Problems
from headrace.mcp.install.config_files import json_with_servers, markdown_with_block, toml_with_servers
from headrace.mcp.install.editors import Editor, FileState, Launch, install

SERVERS = {"headrace": {"command": "headrace", "args": ["mcp"]}, "data-knowledge-base": {"command": "headrace"}}
EVERYTHING = {
    Editor.CLAUDE: {".mcp.json", ".claude/agents/streaming-tables-agent.md"},
    Editor.CURSOR: {".cursor/mcp.json", ".cursor/rules/streaming-tables-agent.mdc"},
    Editor.COPILOT: {".vscode/mcp.json", ".github/agents/streaming-tables-agent.agent.md"},
    Editor.CODEX: {".codex/config.toml", "AGENTS.md", ".agents/skills/streaming-tables-agent/SKILL.md"},
}
SKILLS = {
    Editor.CLAUDE: ".claude/skills",
    Editor.CURSOR: ".cursor/skills",
    Editor.COPILOT: ".github/skills",
    Editor.CODEX: ".agents/skills",
}
TOML = """\
# My settings.
model = "a-model"

[mcp_servers.docs] # another server
command = "docs"

[profiles.fast]
model = "small"
"""


def files_in(folder: Path) -> dict[str, str]:
    return {
        file.relative_to(folder).as_posix(): file.read_text(encoding="utf-8")
        for file in folder.rglob("*")
        if file.is_file()
    }


@pytest.mark.parametrize("editor", Editor)
def test_an_editor_gets_its_files_and_the_second_time_changes_nothing(editor: Editor, tmp_path: Path) -> None:
    first = install(editor, tmp_path, Launch(), force=False)
    written = files_in(tmp_path)
    second = install(editor, tmp_path, Launch(), force=False)

    skills = {
        f"{SKILLS[editor]}/{name}/SKILL.md"
        for name in ("streaming-tables", "pipeline-doctor", "mermaid-diagrams-skill")
    }
    assert set(written) == EVERYTHING[editor] | skills
    assert {file.state for file in first} == {FileState.CREATED}
    assert ({file.state for file in second}, files_in(tmp_path)) == ({FileState.UNCHANGED}, written)


@pytest.mark.parametrize(
    ("editor", "args"),
    [
        (Editor.CLAUDE, ["--project", "${CLAUDE_PROJECT_DIR:-.}/shop", "mcp", "--allow-write"]),
        (Editor.CURSOR, ["--project", "${workspaceFolder}/shop", "mcp", "--allow-write"]),
        (Editor.COPILOT, ["--project", "${workspaceFolder}/shop", "mcp", "--allow-write"]),
        (Editor.CODEX, ["--project", "shop", "mcp", "--allow-write"]),
    ],
)
def test_the_server_is_started_on_the_project(editor: Editor, args: list[str], tmp_path: Path) -> None:
    install(editor, tmp_path, Launch("/venv/bin/headrace", "shop", allow_write=True), force=False)

    (config,) = (text for name, text in files_in(tmp_path).items() if name.endswith(("mcp.json", ".toml")))
    document = tomllib.loads(config) if config.startswith("[") else json.loads(config)
    (servers,) = document.values()
    assert (servers["headrace"]["command"], servers["headrace"]["args"]) == ("/venv/bin/headrace", args)
    assert servers["data-knowledge-base"]["args"] == ["mcp", "--only", "knowledge"]


def test_nothing_is_written_when_one_file_differs_and_all_of_them_are_named(tmp_path: Path) -> None:
    install(Editor.CLAUDE, tmp_path, Launch(), force=False)
    agent, skill = (
        tmp_path / ".claude" / name for name in ("agents/streaming-tables-agent.md", "skills/pipeline-doctor/SKILL.md")
    )
    agent.write_text("mine", encoding="utf-8")
    skill.write_text("mine", encoding="utf-8")
    (tmp_path / ".mcp.json").write_text('{"mcpServers": {"headrace": {"command": "mine"}}}', encoding="utf-8")
    before = files_in(tmp_path)

    with pytest.raises(Problems) as caught:
        install(Editor.CLAUDE, tmp_path, Launch(), force=False)

    assert {(error.code, error.params["file"]) for error in caught.value} == {
        ("ASSIST.DIFFERS", ".mcp.json"),
        ("ASSIST.DIFFERS", ".claude/agents/streaming-tables-agent.md"),
        ("ASSIST.DIFFERS", ".claude/skills/pipeline-doctor/SKILL.md"),
    }
    assert files_in(tmp_path) == before

    forced = install(Editor.CLAUDE, tmp_path, Launch(), force=True)

    assert [file.state for file in forced].count(FileState.CHANGED) == 3
    assert "mine" not in "".join(files_in(tmp_path).values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{\n\t"inputs": ["ä"],\n\t"servers": {"docs": {"url": "u"}}\n}', '{\n\t"inputs": [\n\t\t"ä"\n\t],'),
        ('{\n    "other": 1\n}\n', '{\n    "other": 1,\n    "servers": {'),
    ],
)
def test_json_keeps_its_other_keys_its_indent_and_its_end(text: str, expected: str) -> None:
    found = json_with_servers(text, "f", "servers", SERVERS, force=False)

    others = json.loads(text)
    assert json.loads(found) == {**others, "servers": {**others.get("servers", {}), **SERVERS}}
    assert found.startswith(expected)
    assert found.endswith("\n") == text.endswith("\n")


def test_toml_keeps_its_text_and_gets_tables(tmp_path: Path) -> None:
    found = toml_with_servers(TOML, "f", SERVERS, force=False)

    assert found.startswith(TOML)
    assert tomllib.loads(found)["mcp_servers"] == {"docs": {"command": "docs"}, **SERVERS}


def test_a_toml_table_is_replaced_with_those_below_it_when_forced() -> None:
    text = (
        f'{TOML}\n[mcp_servers."headrace"]\ncommand = "old"\n\n[mcp_servers.headrace.env]\nA = "b"\n\n[last]\nx = 1\n'
    )

    found = toml_with_servers(text, "f", SERVERS, force=True)

    assert tomllib.loads(found) == {
        **tomllib.loads(TOML),
        "last": {"x": 1},
        "mcp_servers": {"docs": {"command": "docs"}, **SERVERS},
    }
    assert "# My settings." in found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1, // mine\n"servers": {}}', "plain JSON"),
        ('{"a": 1, "a": 2}', "twice"),
        ("[]", "not an object"),
        ('{"servers": []}', "not an object"),
    ],
)
def test_json_that_would_lose_something_is_refused(text: str, reason: str) -> None:
    with pytest.raises(PipelineError) as caught:
        json_with_servers(text, "f", "servers", SERVERS, force=True)

    assert (caught.value.code, reason in caught.value.params["reason"]) == ("ASSIST.UNREADABLE", True)


@pytest.mark.parametrize("text", ["a = ", 'mcp_servers = {docs = {command = "docs"}}\n'])
def test_toml_that_cannot_be_extended_is_refused(text: str) -> None:
    with pytest.raises(PipelineError) as caught:
        toml_with_servers(text, "f", SERVERS, force=True)

    assert caught.value.code == "ASSIST.UNREADABLE"


def test_a_part_of_a_markdown_file_is_added_kept_and_replaced_when_forced() -> None:
    added = markdown_with_block("# Mine\n", "f", "old", force=False)
    kept = markdown_with_block(added + "\nmore\n", "f", "old", force=False)
    with pytest.raises(PipelineError, match="differs"):
        markdown_with_block(kept, "f", "new", force=False)
    replaced = markdown_with_block(kept, "f", "new", force=True)

    assert (added.startswith("# Mine\n\n<!--"), kept) == (True, added + "\nmore\n")
    assert replaced == kept.replace("\nold\n", "\nnew\n")


def test_the_command_line_installs_and_says_what_it_wrote(capsys: Any, tmp_path: Path) -> None:
    (tmp_path / "shop").mkdir()
    words = ["--project", str(tmp_path / "shop"), "assist", "install", "claude", "--dir", str(tmp_path)]

    code = call([*words, "--output", "json"])

    written = json.loads(capsys.readouterr().out)
    assert (code, written[0]) == (0, {"file": ".mcp.json", "state": "created"})
    assert "${CLAUDE_PROJECT_DIR:-.}/shop" in (tmp_path / ".mcp.json").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (["assist", "install", "claude", "--dir", "{}/none"], "CLI.NO_FOLDER"),
        (["--project", "/", "assist", "install", "claude", "--dir", "{}"], "ASSIST.OUTSIDE"),
        (["mcp", "--only", "knowledge", "--allow-write"], "CLI.CONFLICT"),
        (["--project", "{}/none", "mcp"], "CLI.NO_FOLDER"),
    ],
)
def test_a_wrong_command_line_is_an_error(capsys: Any, tmp_path: Path, words: list[str], code: str) -> None:
    returned = call(["--output", "json", *(word.format(tmp_path) for word in words)])

    assert (returned, json.loads(capsys.readouterr().out)["error"]["code"]) == (2, code)


def test_a_folder_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    (tmp_path / ".claude").write_text("a file", encoding="utf-8")

    with pytest.raises((PipelineError, Problems)) as caught:
        install(Editor.CLAUDE, tmp_path, Launch(), force=False)

    assert "ASSIST." in json.dumps(caught.value.to_json())
