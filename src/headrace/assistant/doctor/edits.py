"""Exact edits of a settings file: a value at a path, wherever the file already has a part of the path."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import yaml

from headrace.assistant.doctor.findings import Edit, lines_of

_INDENT = 2
# Text without characters that mean something to YAML.
_SIMPLE = re.compile(r"[\w/.$-]+(?: [\w/.$-]+)*", re.ASCII)


def settings_edit(
    file: str, content: str, path: Sequence[str], value: str, *, profile: str | None = None
) -> Edit | None:
    """The edit that gives a setting a value and changes no other; None if the file is no YAML, or has an unusual form.

    Args:
        file: the name of the settings file.
        content: its text.
        path: the keys that lead to the setting.
        value: its new value; a mapping in flow style if it begins with a brace.
        profile: the profile in force, whose value of the setting wins.
    """
    root = _parsed(file, content)
    if root is None:
        return None
    in_profile = ("profiles", profile, *path) if profile else tuple(path)
    target = in_profile if profile and _has(root, in_profile[:-1]) else tuple(path)
    edit = _edit(file, lines_of(content), root, target, value)
    return edit if edit is not None and _sets_only(edit, content, target, value) else None


def _edit(file: str, lines: Sequence[str], root: yaml.Node, target: Sequence[str], value: str) -> Edit | None:
    node, depth = root, 0
    while depth < len(target) and (entry := _entry(node, target[depth])) is not None:
        key, below = entry
        if depth == len(target) - 1:
            return _replaced(file, lines, key, below, value)
        if not isinstance(below, yaml.MappingNode):
            # A key without a value.
            is_empty = isinstance(below, yaml.ScalarNode) and not below.value
            return _filled(file, lines, key, target[depth:], value) if is_empty else None
        node, depth = below, depth + 1
    return _added(file, lines, node, target[depth:], value)


def _sets_only(edit: Edit, content: str, path: Sequence[str], value: str) -> bool:
    """Whether the file has the value after the edit, and all else is the same: several settings can share lines."""
    try:
        after = yaml.safe_load(edit.applied_to(content))
    except yaml.YAMLError:
        return False
    return bool(after == _with(yaml.safe_load(content), path, yaml.safe_load(yaml_text(value))))


def _with(tree: Any, path: Sequence[str], value: Any) -> Any:
    return {**(tree or {}), path[0]: _with((tree or {}).get(path[0]), path[1:], value)} if path else value


def removed_setting(file: str, content: str, path: Sequence[str]) -> Edit | None:
    """The edit that removes a setting that has a line of its own; None if there is no such line."""
    node: yaml.Node | None = _parsed(file, content)
    entry: tuple[yaml.Node, yaml.Node] | None = None
    for name in path:
        entry = None if node is None else _entry(node, name)
        node = None if entry is None else entry[1]
    if entry is None:
        return None
    line = lines_of(content)[entry[0].start_mark.line]
    is_alone = re.fullmatch(rf"\s*[\"']?{re.escape(path[-1])}[\"']?\s*:[^{{}}]*", line) is not None
    same_line = entry[0].start_mark.line == entry[1].start_mark.line
    return Edit(file, entry[0].start_mark.line + 1, "") if is_alone and same_line else None


def yaml_text(text: str) -> str:
    """A text as YAML, quoted if it could be read as something else."""
    is_plain = _SIMPLE.fullmatch(text) is not None and yaml.safe_load(text) == text
    return text if is_plain or text.startswith("{") else json.dumps(text, ensure_ascii=False)


def _parsed(file: str, content: str) -> yaml.MappingNode | None:
    if not file.endswith((".yml", ".yaml")):
        return None
    try:
        root = yaml.compose(content, Loader=yaml.SafeLoader)
    except yaml.YAMLError:
        return None
    return root if isinstance(root, yaml.MappingNode) else None


def _entry(node: yaml.Node, name: str) -> tuple[yaml.Node, yaml.Node] | None:
    for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
        if key.value == name:
            return key, value
    return None


def _has(root: yaml.Node, path: Sequence[str]) -> bool:
    node: yaml.Node = root
    for name in path:
        entry = _entry(node, name)
        if entry is None:
            return False
        node = entry[1]
    return True


def _replaced(file: str, lines: Sequence[str], key: yaml.Node, below: yaml.Node, value: str) -> Edit | None:
    """The line of a scalar with another value."""
    start, end = below.start_mark, below.end_mark
    if not isinstance(below, yaml.ScalarNode) or start.line != end.line or key.start_mark.line != start.line:
        return None
    line = lines[start.line]
    if not below.value and start.column == end.column:
        return Edit(file, start.line + 1, f"{line[: key.end_mark.column]}: {yaml_text(value)}")
    return Edit(file, start.line + 1, f"{line[: start.column]}{yaml_text(value)}{line[end.column :]}")


def _filled(file: str, lines: Sequence[str], key: yaml.Node, path: Sequence[str], value: str) -> Edit:
    """A key without a value, with one."""
    column = key.start_mark.column
    return Edit(file, key.start_mark.line + 1, lines[key.start_mark.line][:column] + _block(path, value, column))


def _added(file: str, lines: Sequence[str], node: yaml.Node, path: Sequence[str], value: str) -> Edit | None:
    """A new entry of a mapping: after its last line, or inside its braces."""
    if getattr(node, "flow_style", False):
        line, column = node.start_mark.line, node.start_mark.column
        inner = ", " if node.value else ""
        text = _flow(path, value)
        return Edit(file, line + 1, f"{lines[line][: column + 1]}{text}{inner}{lines[line][column + 1 :]}")
    column = node.value[0][0].start_mark.column
    if column == 0:
        return Edit(file, len(lines) + 1, _block(path, value, 0))
    # Before the first entry, whose line is known.
    first = node.value[0][0].start_mark.line
    return Edit(file, first + 1, f"{' ' * column}{_block(path, value, column)}\n{lines[first]}")


def _block(path: Sequence[str], value: str, column: int) -> str:
    parts = []
    for depth, name in enumerate(path):
        indent = " " * (column + depth * _INDENT) if depth else ""
        parts.append(f"{indent}{yaml_text(name)}:")
    return "\n".join(parts) + f" {yaml_text(value)}"


def _flow(path: Sequence[str], value: str) -> str:
    names = "".join(f"{yaml_text(name)}: " + ("{" if depth < len(path) - 1 else "") for depth, name in enumerate(path))
    return f"{names}{yaml_text(value)}{'}' * (len(path) - 1)}"
