"""The page that leads from requirements to a repaired pipeline: its requirements, its commands and what they print."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "how-to" / "from-requirements-to-repair.md"
_REQUIREMENTS = re.compile(r'^```yaml title="requirements.yml"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
_STEP = re.compile(r"^(\d+)\\\. .*?^    (\S.*?)\n(?:\n```console\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
CUT = "..."


@dataclass(frozen=True)
class Step:
    """A numbered step: its command, and the lines of its output that the page shows."""

    number: int
    command: str
    lines: tuple[str, ...]


def requirements() -> str:
    """The text of the requirements on the page."""
    (text,) = _REQUIREMENTS.findall(PAGE.read_text(encoding="utf-8"))
    return str(text)


def steps() -> list[Step]:
    """The steps of the page in their order."""
    found = _STEP.findall(PAGE.read_text(encoding="utf-8"))
    return [
        Step(int(number), command, tuple(line.strip() for line in output.splitlines() if line.strip() not in ("", CUT)))
        for number, command, output in found
    ]
