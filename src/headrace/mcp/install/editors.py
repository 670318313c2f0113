"""Which files each editor reads, and what they get."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import Any

from headrace.atomic_write import replace_file
from headrace.errors import PipelineError, Problems, problems_of, raise_all
from headrace.mcp.install.config_files import json_with_servers, markdown_with_block, toml_with_servers
from headrace.mcp.install.package_files import (
    AGENT,
    SKILLS,
    agent_file,
    agent_skill,
    codex_block,
    copilot_agent,
    cursor_rule,
    skill_file,
)

# Java starts within an update, and a tool may take minutes.
_CODEX_TIMES = {"startup_timeout_sec": 60, "tool_timeout_sec": 1_000}

# From the present text of a file (None without one) to the new one; replaces other text if the last argument is true.
Merge = Callable[[str | None, bool], str]


class Editor(str, Enum):
    """An editor, or a command-line assistant."""

    CLAUDE = "claude"
    CURSOR = "cursor"
    COPILOT = "copilot"
    CODEX = "codex"


class FileState(str, Enum):
    """What happened to a file."""

    CREATED = "created"
    CHANGED = "changed"
    UNCHANGED = "unchanged"


@dataclass(frozen=True)
class InstalledFile:
    """A file, relative to the folder that the editor opens."""

    path: str
    state: FileState


@dataclass(frozen=True)
class Launch:
    """How an editor starts the server.

    Attributes:
        command: the program.
        project: the pipeline's folder, relative to the folder that the editor opens; ``.`` for that folder.
        allow_write: also offer tools that write.
    """

    command: str = "headrace"
    project: str = "."
    allow_write: bool = False

    def servers(self, root: str, form: Mapping[str, Any], end: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        """The entries of both servers.

        Args:
            root: what the editor replaces by the folder that it opens; empty if it starts servers there.
            form: further keys before the command.
            end: further keys after it.
        """
        place = [part for part in (root, "" if self.project == "." else self.project) if part]
        where = ["--project", "/".join(place)] if place else []
        writes = ["--allow-write"] if self.allow_write else []
        return {
            "headrace": {**form, "command": self.command, "args": [*where, "mcp", *writes], **end},
            "data-knowledge-base": {**form, "command": self.command, "args": ["mcp", "--only", "knowledge"], **end},
        }


def install(editor: Editor, folder: Path, launch: Launch, *, force: bool) -> tuple[InstalledFile, ...]:
    """Write the files of an editor into a folder; either all of them are written, or none.

    Args:
        editor: for which editor.
        folder: the folder that it opens.
        launch: how it starts the server.
        force: replace texts of these files that differ. What others wrote into configuration files stays.

    Raises:
        Problems: ASSIST.DIFFERS and ASSIST.UNREADABLE for each such file, ASSIST.NOT_WRITTEN.
    """
    problems: list[PipelineError] = []
    planned: list[tuple[str, str | None, str]] = []
    for path, merge in _files(editor, launch):
        try:
            present = _present(folder / path, path)
            planned.append((path, present, merge(present, force)))
        except (PipelineError, Problems) as error:
            problems += problems_of(error)
    raise_all(problems)
    return tuple(_written(folder, *one) for one in planned)


def _files(editor: Editor, launch: Launch) -> Iterator[tuple[str, Merge]]:
    stdio = {"type": "stdio"}
    match editor:
        case Editor.CLAUDE:
            # Servers start in the folder, or in one below it from which headrace finds the settings.
            root = "" if launch.project == "." else "${CLAUDE_PROJECT_DIR:-.}"
            yield ".mcp.json", _json(".mcp.json", "mcpServers", launch.servers(root, stdio, {}))
            yield f".claude/agents/{AGENT}.md", partial(_whole, f".claude/agents/{AGENT}.md", agent_file())
            yield from _skills(".claude/skills")
        case Editor.CURSOR:
            servers = launch.servers("${workspaceFolder}", stdio, {})
            yield ".cursor/mcp.json", _json(".cursor/mcp.json", "mcpServers", servers)
            yield f".cursor/rules/{AGENT}.mdc", partial(_whole, f".cursor/rules/{AGENT}.mdc", cursor_rule())
            yield from _skills(".cursor/skills")
        case Editor.COPILOT:
            servers = launch.servers("${workspaceFolder}", stdio, {})
            yield ".vscode/mcp.json", _json(".vscode/mcp.json", "servers", servers)
            path = f".github/agents/{AGENT}.agent.md"
            yield path, partial(_whole, path, copilot_agent())
            yield from _skills(".github/skills")
        case Editor.CODEX:
            yield ".codex/config.toml", _toml(".codex/config.toml", launch.servers("", {}, _CODEX_TIMES))
            yield "AGENTS.md", _block("AGENTS.md", codex_block())
            path = f".agents/skills/{AGENT}/SKILL.md"
            yield path, partial(_whole, path, agent_skill())
            yield from _skills(".agents/skills")


def _skills(folder: str) -> Iterator[tuple[str, Merge]]:
    for name in SKILLS:
        path = f"{folder}/{name}/SKILL.md"
        yield path, partial(_whole, path, skill_file(name))


def _json(file: str, key: str, servers: Mapping[str, Mapping[str, Any]]) -> Merge:
    return lambda text, force: json_with_servers(text, file, key, servers, force=force)


def _toml(file: str, servers: Mapping[str, Mapping[str, Any]]) -> Merge:
    return lambda text, force: toml_with_servers(text, file, servers, force=force)


def _block(file: str, block: str) -> Merge:
    return lambda text, force: markdown_with_block(text, file, block, force=force)


def _whole(file: str, new: str, text: str | None, force: bool) -> str:  # noqa: FBT001 - the last argument of a Merge
    if text is not None and text != new and not force:
        raise PipelineError("ASSIST.DIFFERS", file=file, part="the file")
    return new


def _present(file: Path, path: str) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError("ASSIST.UNREADABLE", file=path, reason=str(error)) from error


def _written(folder: Path, path: str, present: str | None, text: str) -> InstalledFile:
    if present == text:
        return InstalledFile(path, FileState.UNCHANGED)
    file = folder / path
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_file(file.resolve(), text)
    except OSError as error:
        raise PipelineError("ASSIST.NOT_WRITTEN", file=path, reason=error.strerror or error) from error
    return InstalledFile(path, FileState.CREATED if present is None else FileState.CHANGED)
