"""Verbs of the command line as the server calls them: the port, what a verb printed, and its errors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from headrace.errors import PipelineError, Problems, problems_of

# A verb that reads files, logs and the event log.
QUICK_S = 60.0
# A verb that starts a JVM and calls the queries of the project.
SESSION_S = 300.0
_ERROR_KEYS = {"error", "problems"}
_SHOWN_STDERR = 500

Problem = Mapping[str, Any]


@dataclass(frozen=True)
class VerbOutput:
    """How a verb ended, and what it printed."""

    exit_code: int
    stdout: str
    stderr: str = ""


class RunVerb(Protocol):
    """Runs one verb on the server's project: in a process of its own, or in a worker that is warm."""

    async def __call__(self, words: Sequence[str], *, timeout_s: float = QUICK_S, as_json: bool = True) -> VerbOutput:
        """The output of ``headrace WORDS``, as JSON unless *as_json* is false.

        Raises:
            VerbFailedError: the verb took too long, or printed too much.
        """


class VerbFailedError(Exception):
    """A verb did not do what it was called for; has its problems as JSON objects, the first one first."""

    def __init__(self, problems: Sequence[Problem], exit_code: int | None = None) -> None:
        super().__init__(str(problems[0].get("message")))
        self.problems = tuple(problems)
        self.exit_code = exit_code

    @classmethod
    def of(cls, error: PipelineError | Problems) -> VerbFailedError:
        """The failure for an error that was raised in the server."""
        return cls([problem.to_json() for problem in problems_of(error)])

    def to_json(self) -> dict[str, Any]:
        """Code, message, hint and exit code of the first problem, and all problems."""
        first = self.problems[0]
        named = {name: first.get(name) for name in ("code", "message", "detail", "hint", "location")}
        return {"error": {**named, "exit_code": self.exit_code}, "problems": list(self.problems)}


def document_of(words: Sequence[str], output: VerbOutput) -> Any:
    """The JSON document that a verb printed, also if the verb exits with an error because of what it found.

    Raises:
        VerbFailedError: the document is an error, or is missing.
    """
    found, value = _last_document(output.stdout)
    if not found:
        lines = [line for line in output.stderr.splitlines() if line.strip()]
        reason = "\n".join(lines)[-_SHOWN_STDERR:] or "it printed nothing"
        error = PipelineError("MCP.NO_RESULT", verb=words[0], exit_code=output.exit_code, reason=reason)
        raise VerbFailedError([error.to_json()], output.exit_code)
    if isinstance(value, Mapping) and set(value) == _ERROR_KEYS:
        raise VerbFailedError(value["problems"] or [value["error"]], output.exit_code)
    return value


def _last_document(text: str) -> tuple[bool, Any]:
    """Whether the text ends with a JSON document, and its value.

    Code of the project may print lines before it.
    """
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        if number and not line.startswith(("{", "[", "null")):
            continue
        try:
            return True, json.loads("".join(lines[number:]))
        except json.JSONDecodeError:
            continue
    return False, None
