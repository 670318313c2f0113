"""Pages whose commands a test runs: the commands, what they print, and a shell that runs them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.command_line import PROGRAM, Done, in_process

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


@dataclass(frozen=True)
class Command:
    """A command in an indented block of a page, and the lines of its output that the page shows."""

    text: str
    lines: tuple[str, ...]

    def missing(self, output: str) -> list[str]:
        """The shown lines that an output does not have in this order; ``...`` stands for any text."""
        left = iter(" ".join(line.split()) for line in output.splitlines())
        return [line for line in self.lines if not any(re.match(_pattern(line), one) for one in left)]


def commands(page: Path) -> list[Command]:
    """The commands of a page in their order: indented lines after a dollar sign, each with the output that follows.

    Raises:
        ValueError: an indented block has no command, so that nothing would run it.
    """
    blocks: list[list[str]] = [[]]
    for line in page.read_text(encoding="utf-8").splitlines():
        if line.startswith("    "):
            blocks[-1].append(line.strip())
        elif blocks[-1]:
            blocks.append([])
    found = []
    for block in filter(None, blocks):
        if not block[0].startswith("$ "):
            raise ValueError(f"{page.name} shows output without a command: {block[0]}")
        for text in re.split(r"^\$ ", "\n".join(block), flags=re.MULTILINE)[1:]:
            command, *output = text.splitlines()
            found.append(Command(command, tuple(line for line in output if line not in ("", CUT))))
    return found


class Shell:
    """Runs commands as a shell does that stays in its folder; those on a project in this process and its session."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(self, text: str) -> tuple[int, str]:
        """The end of a command, or of several with ``&&``, and what they printed."""
        printed, code = "", 0
        for part in text.split(" && "):
            done = self._one(part)
            printed += done.stdout + done.stderr
            code = done.returncode
            if code:
                break
        return code, printed

    def _one(self, command: str) -> Done:
        words = shlex.split(command)
        if words[0] == "cd":
            self.folder /= words[1]
            return Done(0, "", "")
        if words[0] != "headrace" or not (self.folder / "pipeline.yml").exists():
            environ = {**os.environ, "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"}
            done = subprocess.run(
                words, cwd=self.folder, env=environ, capture_output=True, encoding="utf-8", check=False
            )
            return Done(done.returncode, done.stdout, done.stderr)
        return in_process(self.folder, *words[1:])


def _pattern(line: str) -> str:
    return ".*".join(map(re.escape, " ".join(line.split()).split(CUT)))
