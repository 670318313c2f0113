"""A finding: what is wrong, how that was seen, and what ends it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from headrace.assistant.doctor.checks import Check, Severity, checks

# Commands that can lose rows, progress or state.
_LOSES = re.compile(r"--(full-refresh|reset-checkpoint|accept-data-loss)|headrace erase|checkpoints clean .*--inactive")


_LINE_END = re.compile(r"\r\n|\r|\n")


def lines_of(text: str) -> list[str]:
    """The lines of a text, as Python and YAML count them; no line for an empty text."""
    lines = _LINE_END.split(text)
    return lines[:-1] if not lines[-1] else lines


@dataclass(frozen=True)
class Edit:
    """An exact change of a file of the project.

    Attributes:
        file: its path, relative to the project.
        line: the line that is replaced, counted from 1; the line after the last one is appended.
        text: one or several lines that replace it; empty to remove the line.
    """

    file: str
    line: int
    text: str

    def applied_to(self, content: str) -> str:
        """The content of the file after the edit."""
        lines = lines_of(content)
        lines[self.line - 1 : self.line] = lines_of(self.text)
        return "\n".join(lines) + "\n"

    def to_json(self) -> dict[str, Any]:
        """The edit as one JSON object."""
        return {"file": self.file, "line": self.line, "text": self.text}


@dataclass(frozen=True)
class Finding:
    """Something that is wrong.

    Attributes:
        check: what was checked.
        severity: how bad it is.
        evidence: what was seen, with names and numbers.
        remedy: what to do, in words.
        flow: the flow that it is about; None if it concerns the pipeline.
        dataset: the dataset that it is about.
        command: the exact command that ends it, or, with an edit, the one to run after the edit.
        edit: the exact change of a file that ends it.
    """

    check: Check
    severity: Severity
    evidence: str
    remedy: str
    flow: str | None = None
    dataset: str | None = None
    command: str | None = None
    edit: Edit | None = None

    @property
    def safe(self) -> bool:
        """True if the command loses no row, no progress and no state."""
        return self.command is not None and not _LOSES.search(self.command)

    @property
    def next_step(self) -> str:
        """What to do first, in one line."""
        if self.edit is not None:
            then = f", then {self.command}" if self.command else ""
            return f"change {self.edit.file}:{self.edit.line}{then}"
        return self.command or " ".join(self.remedy.split())

    def to_json(self) -> dict[str, Any]:
        """The finding as one JSON object."""
        return {
            "check": self.check.check_id,
            "severity": self.severity.value,
            "flow": self.flow,
            "dataset": self.dataset,
            "evidence": self.evidence,
            "remedy": self.remedy,
            "command": self.command,
            "edit": None if self.edit is None else self.edit.to_json(),
            "safe": self.safe,
            "document": self.check.document,
        }


def found(check_id: str, evidence: str, *, severity: Severity | None = None, remedy: str = "", **more: Any) -> Finding:
    """A finding with the severity and the remedy of its check, unless others are given.

    Args:
        check_id: the check.
        evidence: what was seen.
        severity: instead of the check's.
        remedy: instead of the check's.
        more: other attributes of the finding.
    """
    check = checks()[check_id]
    return Finding(check, severity or check.severity, evidence, remedy or check.remedy, **more)
