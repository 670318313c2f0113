"""Requirements as an assistant passes them: a text or an object, with the answers of the user, as a file for a verb."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from headrace.assistant.design.answers import with_answer
from headrace.assistant.design.questions import Question
from headrace.errors import PipelineError

Requirements = str | dict[str, Any]


@contextmanager
def requirements_file(requirements: Requirements) -> Iterator[Path]:
    """A YAML file with the requirements, which is removed at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="headrace-requirements-") as folder:
        file = Path(folder) / "requirements.yml"
        file.write_text(_text(requirements), encoding="utf-8")
        yield file


def with_answers(requirements: Requirements, answers: Mapping[str, str]) -> Requirements:
    """The requirements with an answer at the path of each question, such as ``latency`` or ``sources.events.keys``.

    Raises:
        PipelineError, Problems: the text is no YAML object, or has nothing at the path (MCP.REQUIREMENTS).
    """
    if not answers:
        return requirements
    text = _text(requirements)
    for path, answer in answers.items():
        question = Question(path, text="", why="", default=None, consequence="", page="")
        try:
            text = with_answer(text, question, answer)
        except (ValueError, StopIteration) as error:
            raise PipelineError("MCP.REQUIREMENTS", reason=f'there is nothing at "{path}"') from error
    return text


def _text(requirements: Requirements) -> str:
    return requirements if isinstance(requirements, str) else yaml.safe_dump(requirements, sort_keys=False)
