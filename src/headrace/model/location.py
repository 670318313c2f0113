"""Where in the user's files something was written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, order=True)
class Location:
    """A file, relative to the project where possible, and a line that counts from 1 (0: the whole file)."""

    file: str
    line: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file

    def to_json(self) -> dict[str, Any]:
        """The place as ``{"file", "line"}``; the line is null when the whole file is meant."""
        return {"file": self.file, "line": self.line or None}
