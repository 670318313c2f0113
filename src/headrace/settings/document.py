"""A settings file, or another document, as a tree with line numbers: YAML, or JSON with comments and trailing commas.

Scalars follow YAML 1.2: ``yes``, ``on`` and ``2026-01-01`` are strings, ``010`` is ten.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

from headrace.errors import PipelineError
from headrace.model.location import Location
from headrace.settings.key import DocumentErrors

NULL = "tag:yaml.org,2002:null"
BOOLEAN = "tag:yaml.org,2002:bool"
INTEGER = "tag:yaml.org,2002:int"
FLOAT = "tag:yaml.org,2002:float"
TEXT = "tag:yaml.org,2002:str"

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_STRING}|,(?=\s*[}}\]])")
# YAML allows no tab between tokens, JSON does.
_TAB = re.compile(rf"{_STRING}|\t")


class _Yaml12Loader(yaml.SafeLoader):
    """Resolves plain scalars by the core schema of YAML 1.2."""

    yaml_implicit_resolvers = {}  # noqa: RUF012 - PyYAML declares it


_Yaml12Loader.add_implicit_resolver(NULL, re.compile(r"(?:~|null|Null|NULL|)\Z"), ["~", "n", "N", ""])
_Yaml12Loader.add_implicit_resolver(BOOLEAN, re.compile(r"(?:true|True|TRUE|false|False|FALSE)\Z"), list("tTfF"))
_Yaml12Loader.add_implicit_resolver(INTEGER, re.compile(r"[-+]?[0-9]{1,18}\Z"), list("-+0123456789"))
_Yaml12Loader.add_implicit_resolver(
    FLOAT, re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z"), list("-+.0123456789")
)


_SETTINGS_ERRORS = DocumentErrors()


def read_document(file: Path, errors: DocumentErrors = _SETTINGS_ERRORS) -> yaml.Node:
    """The tree of *file*; an empty file is an empty mapping.

    Raises:
        PipelineError: the file cannot be read, or its text cannot be parsed; with the line.
    """
    return parse_document(read_text(file, errors), file.name, errors)


def read_text(file: Path, errors: DocumentErrors = _SETTINGS_ERRORS) -> str:
    """The text of *file*.

    Raises:
        PipelineError: the file cannot be read, or is not UTF-8.
    """
    try:
        return file.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise PipelineError(errors.unreadable, file=file, reason=error.strerror or "it cannot be read") from error
    except UnicodeDecodeError as error:
        raise _syntax(file.name, 0, "the file is not UTF-8", errors) from error


def parse_document(text: str, name: str, errors: DocumentErrors = _SETTINGS_ERRORS) -> yaml.Node:
    """The tree of the text of a file with this *name*; an empty text is an empty mapping.

    Raises:
        PipelineError: the text cannot be parsed; with the line.
    """
    if name.endswith(".json"):
        text = _plain_json(name, text, errors)
    try:
        root = yaml.compose(text, Loader=_Yaml12Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, reason = mark.line + 1 if mark else 0, error.problem or "it is not valid YAML"
        raise _syntax(name, line, reason, errors) from error
    except yaml.YAMLError as error:
        raise _syntax(name, 0, "a character is not allowed in YAML", errors) from error
    except RecursionError as error:
        raise _syntax(name, 0, "values are nested too deeply", errors) from error
    return root or yaml.MappingNode("tag:yaml.org,2002:map", [])


def line_of(node: yaml.Node) -> int:
    """The line where *node* starts, counted from 1; 0 for an empty file."""
    return node.start_mark.line + 1 if node.start_mark else 0


def text_of(node: yaml.Node) -> str:
    """The text of a scalar as written; surrogate pairs of JSON become one character."""
    text = str(node.value)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def repeated_keys(root: yaml.Node) -> Iterator[tuple[str, int, int]]:
    """Each duplicate key of a mapping, with the lines of the first and the later one."""
    seen: set[int] = set()
    waiting = [root]
    while waiting:
        node = waiting.pop()
        # An alias can refer to one of its ancestors.
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, yaml.SequenceNode):
            waiting.extend(node.value)
        elif isinstance(node, yaml.MappingNode):
            waiting.extend(value for _, value in node.value)
            yield from _repeated_in(node)


def _repeated_in(node: yaml.MappingNode) -> Iterator[tuple[str, int, int]]:
    first: dict[str, int] = {}
    for key, _ in node.value:
        if isinstance(key, yaml.ScalarNode):
            name, line = text_of(key), line_of(key)
            if name in first:
                yield name, first[name], line
            first.setdefault(name, line)


def _plain_json(name: str, text: str, errors: DocumentErrors) -> str:
    """The JSON without comments, trailing commas and tabs; every token keeps its line and column."""
    for pattern in (_COMMENT, _TRAILING_COMMA, _TAB):
        text = pattern.sub(_blanked, text)
    try:
        if text.strip():
            json.loads(text)
    except json.JSONDecodeError as error:
        raise _syntax(name, error.lineno, error.msg.lower(), errors) from error
    except RecursionError as error:
        raise _syntax(name, 0, "values are nested too deeply", errors) from error
    return text


def _blanked(match: re.Match[str]) -> str:
    token = match.group()
    return token if token.startswith('"') else re.sub(r"[^\n]", " ", token)


def _syntax(name: str, line: int, reason: str, errors: DocumentErrors) -> PipelineError:
    return PipelineError(errors.syntax, location=Location(name, line), reason=reason)
