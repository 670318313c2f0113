"""Adds servers to configuration files of editors, and keeps everything else that is in them."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from typing import Any

from headrace.errors import PipelineError, raise_all

BLOCK_BEGIN = "<!-- headrace: begin (headrace assist install writes this part) -->"
BLOCK_END = "<!-- headrace: end -->"
_BLOCK = re.compile(rf"^{re.escape(BLOCK_BEGIN)}\n.*?^{re.escape(BLOCK_END)}\n?", re.MULTILINE | re.DOTALL)
_INDENT = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_TABLES = "mcp_servers"

Servers = Mapping[str, Mapping[str, Any]]


def json_with_servers(text: str | None, file: str, key: str, servers: Servers, *, force: bool) -> str:
    """The text of a JSON file with servers below a key.

    Args:
        text: the present text; None for a new file.
        file: its name, for errors.
        key: where the file has its servers.
        servers: the entries by name.
        force: replace entries that differ.

    Raises:
        PipelineError, Problems: ASSIST.UNREADABLE, or ASSIST.DIFFERS for each entry that differs.
    """
    document = {} if text is None else _parsed_json(text, file)
    present = document.setdefault(key, {})
    if not isinstance(present, dict):
        raise PipelineError("ASSIST.UNREADABLE", file=file, reason=f'"{key}" is not an object')
    _check_same(present, servers, file, force=force)
    if text is not None and all(present.get(name) == entry for name, entry in servers.items()):
        return text
    present.update({name: dict(entry) for name, entry in servers.items()})
    indent = _INDENT.search(text or "")
    end = "" if text is not None and not text.endswith("\n") else "\n"
    return json.dumps(document, indent=indent[1] if indent else 2, ensure_ascii=False) + end


def toml_with_servers(text: str | None, file: str, servers: Servers, *, force: bool) -> str:
    """The text of a TOML file with a table ``mcp_servers.NAME`` for each server.

    Raises:
        PipelineError, Problems: ASSIST.UNREADABLE, or ASSIST.DIFFERS for each table that differs.
    """
    found = text or ""
    document = _parsed_toml(found, file)
    present = document.get(_TABLES, {})
    _check_same(present, servers, file, force=force)
    for name, entry in servers.items():
        if present.get(name) != entry:
            found = _with_table(_without_table(found, name), name, entry)
    expected = {**document, _TABLES: {**present, **{name: dict(entry) for name, entry in servers.items()}}}
    # What we do not understand, such as an inline table, is not changed.
    if _parsed_toml(found, file) != expected:
        raise PipelineError("ASSIST.UNREADABLE", file=file, reason=f'"{_TABLES}" is written in another form')
    return found


def markdown_with_block(text: str | None, file: str, block: str, *, force: bool) -> str:
    """The text of a Markdown file with our part between two marks, at its end if it is new.

    Raises:
        PipelineError: ASSIST.DIFFERS if the part has other text.
    """
    part = f"{BLOCK_BEGIN}\n{block.strip()}\n{BLOCK_END}\n"
    found = text or ""
    present = _BLOCK.search(found)
    if present is None:
        gap = "" if not found or found.endswith("\n\n") else "\n" if found.endswith("\n") else "\n\n"
        return f"{found}{gap}{part}"
    if present[0].rstrip("\n") != part.rstrip("\n") and not force:
        raise PipelineError("ASSIST.DIFFERS", file=file, part="the part of Headrace")
    return f"{found[: present.start()]}{part}{found[present.end() :]}"


def _check_same(present: Mapping[str, Any], servers: Servers, file: str, *, force: bool) -> None:
    differing = [name for name, entry in servers.items() if name in present and present[name] != entry]
    if not force:
        raise_all(PipelineError("ASSIST.DIFFERS", file=file, part=f'server "{name}"') for name in differing)


def _parsed_json(text: str, file: str) -> dict[str, Any]:
    def distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        if len(set(names)) < len(names):
            raise ValueError("a key is in it twice")
        return dict(pairs)

    try:
        found = json.loads(text, object_pairs_hook=distinct)
    except ValueError as error:
        # Some editors allow comments, which would be lost.
        raise PipelineError("ASSIST.UNREADABLE", file=file, reason=f"it is not plain JSON ({error})") from error
    if not isinstance(found, dict):
        raise PipelineError("ASSIST.UNREADABLE", file=file, reason="it is not an object")
    return found


def _parsed_toml(text: str, file: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PipelineError("ASSIST.UNREADABLE", file=file, reason=str(error)) from error


def _without_table(text: str, name: str) -> str:
    """The text without a table and the tables below it."""
    header = re.compile(rf'^\[{_TABLES}\.(?:{re.escape(name)}|"{re.escape(name)}")(?:\.[^]]*)?\]', re.MULTILINE)
    kept, dropping = [], False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            dropping = header.match(line.lstrip()) is not None
        if not dropping:
            kept.append(line)
    return "".join(kept)


def _with_table(text: str, name: str, entry: Mapping[str, Any]) -> str:
    lines = [f"[{_TABLES}.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in entry.items())]
    head = text.rstrip("\n")
    return (f"{head}\n\n" if head else "") + "\n".join(lines) + "\n"
