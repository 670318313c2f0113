"""Requirements as an assistant passes them: a text or an object, with the answers of the user, as a file for a verb."""

from __future__ import annotations

import os
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


def check_paths(requirements: Requirements) -> None:
    """Refuse requirements that name a file or a table outside of the project of the server.

    Raises:
        PipelineError: MCP.OUTSIDE.
    """
    try:
        value = yaml.safe_load(_text(requirements))
    except yaml.YAMLError:
        # The verb reports it with its line.
        return
    top = value if isinstance(value, dict) else {}
    lateness, sources = top.get("lateness"), top.get("sources")
    named = [lateness.get("measure_from")] if isinstance(lateness, dict) else []
    named += (
        [source.get("sample") for source in sources if isinstance(source, dict)] if isinstance(sources, list) else []
    )
    for path in named:
        if isinstance(path, str):
            check_inside(path)


def check_inside(path: str) -> None:
    """Refuse a path outside of the project of the server.

    Raises:
        PipelineError: MCP.OUTSIDE.
    """
    normal = Path(os.path.normpath(path))
    if normal.is_absolute() or ".." in normal.parts or "://" in path:
        raise PipelineError("MCP.OUTSIDE", path=path)


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
