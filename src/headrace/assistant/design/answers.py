"""Writes answers into the text of a requirements file, without touching its other lines and comments."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import yaml

from headrace.assistant.design.questions import Question
from headrace.assistant.design.requirement_keys import REQUIREMENTS
from headrace.settings.document import parse_document
from headrace.settings.key import ValueType

# A plain scalar that YAML reads as this text.
_PLAIN = re.compile(r"[A-Za-z][\w ./-]*|[0-9][\w.]* [A-Za-z]+")
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_SPECIAL = frozenset({"true", "false", "null", "yes", "no", "on", "off"})


def with_answer(text: str, question: Question, answer: str) -> str:
    """The text of a requirements file with an answer as its value.

    Args:
        text: of the file; it can be parsed.
        question: what is answered.
        answer: as typed: a list of names is separated by commas, a schema is DDL.
    """
    root = parse_document(text, "requirements.yml", REQUIREMENTS.errors)
    path = question.id.split(".")
    node: yaml.Node = root
    if path[0] in ("sources", "outputs"):
        node = _item(root, path[0], path[1])
        path = path[2:]
    while len(path) > 1:
        inner = _value(node, path[0])
        if inner is None:
            return _inserted(text, node, path[0], _nested(path[1:], answer))
        node, path = inner, path[1:]
    return _inserted(text, node, path[0], _typed(question, answer))


def _item(root: yaml.Node, key: str, name: str) -> yaml.Node:
    """The mapping of a list whose name is given."""
    items = _value(root, key)
    listed: Sequence[yaml.Node] = items.value if isinstance(items, yaml.SequenceNode) else ()
    for item in listed:
        found = _value(item, "name")
        if isinstance(found, yaml.ScalarNode) and found.value == name:
            return item
    raise ValueError(f"{key} has no item {name}")


def _value(node: yaml.Node, key: str) -> yaml.Node | None:
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return next((value for name, value in pairs if name.value == key), None)


def _nested(path: list[str], answer: str) -> Any:
    value: Any = _scalar(answer)
    for key in reversed(path):
        value = f"{{{key}: {value}}}"
    return value


def _typed(question: Question, answer: str) -> str:
    """The answer as YAML, by the type of its key."""
    parts = question.id.split(".")
    path = f"{parts[0]}[].{parts[-1]}" if parts[0] in ("sources", "outputs") else question.id
    key = next(key for key in REQUIREMENTS.keys if key.path == path)
    if key.type is ValueType.TEXTS:
        return f"[{', '.join(_scalar(name.strip()) for name in answer.split(',') if name.strip())}]"
    if key.type is ValueType.MAP:
        columns = [column.strip().partition(" ") for column in _split(answer)]
        return f"{{{', '.join(f'{name}: {json.dumps(kind.strip())}' for name, _, kind in columns)}}}"
    return answer if key.type is ValueType.DECIMAL and _NUMBER.fullmatch(answer) else _scalar(answer)


def _split(ddl: str) -> list[str]:
    """The columns of DDL: commas in parentheses and angle brackets belong to a type."""
    found, depth = [""], 0
    for char in ddl:
        depth += (char in "(<") - (char in ")>")
        if char == "," and not depth:
            found.append("")
        else:
            found[-1] += char
    return [column for column in found if column.strip()]


def _scalar(answer: str) -> str:
    if answer.casefold() in _SPECIAL or not _PLAIN.fullmatch(answer):
        return json.dumps(answer, ensure_ascii=False)
    return answer


def _inserted(text: str, node: yaml.Node, key: str, value: str) -> str:
    """The text with a new entry in a mapping: a line of its own, or before the brace of a mapping on one line."""
    if not isinstance(node, yaml.MappingNode) or not node.value:
        return f"{text.rstrip()}\n{key}: {value}\n".lstrip("\n")
    if node.flow_style:
        end = node.end_mark.index - 1
        return f"{text[:end].rstrip()}, {key}: {value}{text[end:]}"
    last = _last_mark(node)
    line_end = text.find("\n", last)
    line_end = len(text) if line_end < 0 else line_end
    margin = " " * node.value[0][0].start_mark.column
    return f"{text[:line_end]}\n{margin}{key}: {value}{text[line_end:]}"


def _last_mark(node: yaml.Node) -> int:
    """Where the last value in a node ends, before comments and empty lines that follow it."""
    if isinstance(node, yaml.MappingNode) and node.value and not node.flow_style:
        return _last_mark(node.value[-1][1])
    if isinstance(node, yaml.SequenceNode) and node.value and not node.flow_style:
        return _last_mark(node.value[-1])
    if isinstance(node, yaml.ScalarNode) and not node.value:
        return node.start_mark.index
    return node.end_mark.index
