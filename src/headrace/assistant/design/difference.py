"""What a design would change in a project: decisions and files, with edits told from changed rules."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from enum import Enum
from typing import Any

from headrace.assistant.design.design import Design
from headrace.assistant.design.record import DesignRecord, digest, requirements_digest

DESIGN_PAGE = "design.md"
_DECISION = re.compile(r"^### (\S+)\n\n\*\*(.*)\*\*\n\n- Why: (.*)\.$", re.MULTILINE)
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_NO_LINE_END = "\n\\ No newline at end of file\n"


class FileState(str, Enum):
    """How a file of a project differs from the design, and why."""

    CHANGED = "changed"
    NEW = "new"
    BOTH = "changed and edited"
    DIFFERS = "differs"
    DELETED = "deleted"
    OBSOLETE = "obsolete"
    EDITED = "edited"

    @property
    def meaning(self) -> str:
        """The state in words."""
        return _MEANINGS[self]

    @property
    def would_change(self) -> bool:
        """Whether the design would change the file; an edit alone stays."""
        return self is not FileState.EDITED


_MEANINGS = {
    FileState.CHANGED: "the design is another one now, and nobody has edited the file",
    FileState.NEW: "the design has this file now",
    FileState.BOTH: "the design is another one now, and somebody has edited the file",
    FileState.DIFFERS: "not known whether somebody has edited it, or the design is another one",
    FileState.DELETED: "somebody has deleted the file, and the design still has it",
    FileState.OBSOLETE: "the design no longer has this file",
    FileState.EDITED: "somebody has edited the file, and the design is as it was",
}


@dataclass(frozen=True)
class FileDifference:
    """A file that differs; *diff* leads from the file to the design, and is empty for an edit alone."""

    path: str
    state: FileState
    diff: str = ""

    def to_json(self) -> dict[str, Any]:
        """The difference as one JSON object."""
        return {"path": self.path, "state": self.state.value, "meaning": self.state.meaning, "diff": self.diff}


@dataclass(frozen=True)
class DecisionDifference:
    """A decision that is new, gone or another one: choice and reason before and now."""

    id: str
    before: tuple[str, str] | None
    now: tuple[str, str] | None
    page: str | None

    def to_json(self) -> dict[str, Any]:
        """The difference as one JSON object."""
        before, now = self.before or (None, None), self.now or (None, None)
        return {
            "id": self.id,
            "before": before[0],
            "reason_before": before[1],
            "now": now[0],
            "reason": now[1],
            "page": self.page,
        }


@dataclass(frozen=True)
class Difference:
    """What a design would change in a project.

    Attributes:
        made_with: the version of Headrace that made the last design; None if there is no record of it.
        requirements_changed: whether answers have changed since; None if it is not known.
        decisions: those that differ.
        files: those that differ.
    """

    made_with: str | None
    requirements_changed: bool | None
    decisions: tuple[DecisionDifference, ...]
    files: tuple[FileDifference, ...]

    @property
    def changes(self) -> int:
        """The number of files that the design would change."""
        return sum(one.state.would_change for one in self.files)

    def to_json(self) -> dict[str, Any]:
        """The difference as one JSON object."""
        return {
            "made_with": self.made_with,
            "requirements_changed": self.requirements_changed,
            "decisions": [one.to_json() for one in self.decisions],
            "files": [one.to_json() for one in self.files],
            "changes": self.changes,
        }


def difference(design: Design, record: DesignRecord | None, found: Mapping[str, bytes | None]) -> Difference:
    """What a design would change in a project.

    Args:
        design: as today's rules make it.
        record: of the last design; None if the project has none.
        found: the content of each file of the design and of the record that is to be compared; None if it is missing.
    """
    page = found.get(DESIGN_PAGE)
    before = record.decisions if record is not None else decisions_of_page((page or b"").decode("utf-8", "replace"))
    changed = None
    if record is not None:
        changed = record.requirements != requirements_digest(design)
    return Difference(
        record.version if record is not None else None,
        changed,
        tuple(_decisions(design, before)) if before else (),
        tuple(_files(design, record, found)),
    )


def decisions_of_page(text: str) -> dict[str, tuple[str, str]]:
    """The decisions on the page of a design, for projects without a record."""
    return {name: (choice, reason) for name, choice, reason in _DECISION.findall(text)}


def _decisions(design: Design, before: Mapping[str, tuple[str, str]]) -> Iterator[DecisionDifference]:
    now = {decision.id: decision for decision in design.decisions}
    for decision in design.decisions:
        texts = (decision.choice, decision.reason)
        if before.get(decision.id) != texts:
            yield DecisionDifference(decision.id, before.get(decision.id), texts, decision.page)
    yield from (DecisionDifference(name, texts, None, None) for name, texts in before.items() if name not in now)


def _files(design: Design, record: DesignRecord | None, found: Mapping[str, bytes | None]) -> Iterator[FileDifference]:
    for path, content in found.items():
        wanted = design.files.get(path)
        state = _state(content, None if wanted is None else wanted.encode(), path, record)
        if state is not None:
            diff = _diff(path, content, wanted) if state.would_change else ""
            yield FileDifference(path, state, diff)


def _state(content: bytes | None, wanted: bytes | None, path: str, record: DesignRecord | None) -> FileState | None:
    """The state of a file; None if it is as the design has it."""
    then = record.files.get(path) if record is not None else None
    if content == wanted:
        return None
    if wanted is None:
        return FileState.OBSOLETE
    if content is None:
        return FileState.NEW if then is None else FileState.DELETED
    if then is None:
        return FileState.DIFFERS
    if record is not None and record.is_rendered(path, content):
        return FileState.CHANGED
    return FileState.EDITED if digest(wanted) == then else FileState.BOTH


def _diff(path: str, content: bytes | None, wanted: str | None) -> str:
    """A unified diff from a file to the design; a file that is not there is /dev/null."""
    old = _LINE.findall((content or b"").decode("utf-8", "replace"))
    new = _LINE.findall(wanted or "")
    names = ("/dev/null" if content is None else f"a/{path}", "/dev/null" if wanted is None else f"b/{path}")
    lines = unified_diff(old, new, *names)
    return "".join(line if line.endswith("\n") else line + _NO_LINE_END for line in lines)
