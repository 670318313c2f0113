"""The code of flows as it is deployed against the code of now, as text. Pure: it reads and writes nothing."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import PurePosixPath
from typing import Any

from headrace.errors import PipelineError
from headrace.model.location import Location
from headrace.notebooks import read_notebook
from headrace.sql.statements import Statement, read_statements

NOT_KNOWN = "the deployed code is not known"
_SAME = "its definition is the same; other files changed: "
# What follows the name of what a SQL statement creates.
_AFTER_NAME = ("AS", "CLUSTER", "COMMENT", "PARTITIONED", "SCHEDULE", "TBLPROPERTIES", "TRIGGER", "USING")
_NOTHING = "the files of the project are the same; settings, packages or input columns changed"


@dataclass(frozen=True)
class FlowDiff:
    """What changed in the code of one flow.

    Attributes:
        flow: its name.
        dataset: its target.
        text: a unified diff of its definition; empty if that is unknown or the same.
        reason: what to know if there is no diff of its definition.
    """

    flow: str
    dataset: str
    text: str = ""
    reason: str = ""

    def to_json(self) -> dict[str, Any]:
        """The diff for programs."""
        return {"flow": self.flow, "dataset": self.dataset, "diff": self.text or None, "reason": self.reason or None}


@dataclass(frozen=True)
class CodeDiff:
    """What changed in the code of a project: flow by flow, and the files that no definition shows."""

    flows: tuple[FlowDiff, ...]
    # Unified diffs by path, of files that changed outside of the definitions of flows.
    files: Mapping[str, str]

    def describe(self) -> str:
        """All diffs as text."""
        if not self.flows:
            return "no code of a deployed flow changed"
        parts = []
        for flow in self.flows:
            name = flow.flow if flow.flow == flow.dataset else f"{flow.flow} of {flow.dataset}"
            parts.append(f"flow {name}: {flow.reason}" if not flow.text else f"flow {name}:\n{flow.text}")
        return "\n\n".join([*parts, *self.files.values()])

    def to_json(self) -> dict[str, Any]:
        """The diffs for programs."""
        return {"flows": [flow.to_json() for flow in self.flows], "files": dict(self.files)}


@dataclass(frozen=True)
class ChangedFlow:
    """A flow whose code changed.

    Attributes:
        flow: its name.
        dataset: its target.
        location: its definition of now.
        deployed: the files that it last ran with, as text by path; None if unknown.
    """

    flow: str
    dataset: str
    location: Location
    deployed: Mapping[str, str] | None


def code_diff(changed: tuple[ChangedFlow, ...], now: Mapping[str, str]) -> CodeDiff:
    """The diffs of changed flows.

    Args:
        changed: the flows.
        now: the files of the project, as text by path.
    """
    flows: list[FlowDiff] = []
    files: dict[str, str] = {}
    for flow in changed:
        before = flow.deployed
        if before is None:
            flows.append(FlowDiff(flow.flow, flow.dataset, reason=NOT_KNOWN))
            continue
        text = _definition_diff(flow, before, now)
        if text:
            flows.append(FlowDiff(flow.flow, flow.dataset, text))
            continue
        found = dict(_file_diffs(before, now))
        files |= found
        flows.append(FlowDiff(flow.flow, flow.dataset, reason=f"{_SAME}{', '.join(found)}" if found else _NOTHING))
    return CodeDiff(tuple(flows), files)


def definition_at(path: str, text: str, line: int) -> str:
    """The text of the function or statement of a file that a line is in; empty if there is none.

    Args:
        path: of the file, whose ending says what it is.
        text: of the file.
        line: from 1.
    """
    return next((one.text for one in _definitions(path, text) if one.first <= line <= one.last), "")


def _definition_diff(flow: ChangedFlow, before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """The diff of a definition that is found in both; otherwise, or if it is the same, empty."""
    path, line = flow.location.file, flow.location.line
    if path not in now:
        return ""
    found = next((one for one in _definitions(path, now[path]) if one.first <= line <= one.last), None)
    if found is None or not found.name:
        return ""
    # A definition may have moved to another file.
    for other in dict.fromkeys([path, *before]):
        for old in _definitions(other, before.get(other, "")):
            if old.name == found.name:
                return _diff(f"deployed/{other}", f"now/{path}", old.text, found.text)
    return ""


@dataclass(frozen=True)
class _Definition:
    """A statement of a file: its name, its first and last line, and its text."""

    name: str
    first: int
    last: int
    text: str


def _definitions(path: str, text: str) -> Iterator[_Definition]:
    match PurePosixPath(path).suffix:
        case ".py":
            yield from _of_python(text)
        case ".sql":
            statements, _ = read_statements(text, path)
            yield from map(_of_statement, statements)
        case _:
            return


def _of_python(text: str) -> Iterator[_Definition]:
    try:
        module = ast.parse(text)
    except (SyntaxError, ValueError):
        return
    lines = text.splitlines()
    for node in module.body:
        decorators = [one.lineno for one in getattr(node, "decorator_list", ())]
        first, last = min([node.lineno, *decorators]), node.end_lineno or node.lineno
        yield _Definition(getattr(node, "name", ""), first, last, "\n".join(lines[first - 1 : last]))


def _of_statement(statement: Statement) -> _Definition:
    # CREATE ... NAME: all words before the query, or before the columns.
    words = []
    for token in statement.tokens:
        if token.is_symbol("(") or token.is_word(*_AFTER_NAME):
            break
        words.append(token.text.upper())
    last = statement.line + statement.text.count("\n")
    return _Definition(" ".join(words), statement.line, last, statement.text)


def _file_diffs(before: Mapping[str, str], now: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for path in sorted(before.keys() | now.keys()):
        old, new = _as_text(path, before.get(path, "")), _as_text(path, now.get(path, ""))
        if old != new:
            yield path, _diff(f"deployed/{path}", f"now/{path}", old, new)


def _as_text(path: str, text: str) -> str:
    """The text of a file; of a notebook in JSON, the code of its cells."""
    suffix = PurePosixPath(path).suffix
    if suffix == ".ipynb" and text:
        with suppress(PipelineError):
            return "\n\n".join(cell.text for cell in read_notebook(text, suffix, path) or ())
    return text


def _diff(old_name: str, new_name: str, old: str, new: str) -> str:
    return "\n".join(unified_diff(old.splitlines(), new.splitlines(), old_name, new_name, lineterm=""))
