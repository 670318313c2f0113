"""Requirements as an assistant passes them: a text or an object, with the answers of the user, as a file for a verb."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from headrace.errors import PipelineError

Requirements = str | dict[str, Any]


@contextmanager
def requirements_file(requirements: Requirements) -> Iterator[Path]:
    """A YAML file with the requirements, which is removed at the end of the block."""
    text = requirements if isinstance(requirements, str) else yaml.safe_dump(requirements, sort_keys=False)
    with tempfile.TemporaryDirectory(prefix="headrace-requirements-") as folder:
        file = Path(folder) / "requirements.yml"
        file.write_text(text, encoding="utf-8")
        yield file


def with_answers(requirements: Requirements, answers: Mapping[str, str]) -> Requirements:
    """The requirements with an answer at the path of each question, such as ``latency`` or ``sources.events.keys``.

    Raises:
        PipelineError: MCP.REQUIREMENTS if the text is no YAML object, or has nothing at the path.
    """
    if not answers:
        return requirements
    found = _parsed(requirements)
    for path, answer in answers.items():
        *parents, name = path.split(".")
        target: Any = found
        for parent in parents:
            target = _member(target, parent)
        if not isinstance(target, dict):
            raise PipelineError("MCP.REQUIREMENTS", reason=f'there is nothing at "{path}"')
        target[name] = _parsed_answer(answer)
    return found


def _parsed(requirements: Requirements) -> dict[str, Any]:
    if not isinstance(requirements, str):
        return dict(requirements)
    try:
        found = yaml.safe_load(requirements)
    except yaml.YAMLError as error:
        raise PipelineError("MCP.REQUIREMENTS", reason=" ".join(str(error).split())) from error
    if not isinstance(found, dict):
        raise PipelineError("MCP.REQUIREMENTS", reason="they are not a YAML object")
    return found


def _member(target: Any, name: str) -> Any:
    """The value of a key, or the item of a list that has the name."""
    if isinstance(target, list):
        return next((item for item in target if isinstance(item, dict) and item.get("name") == name), None)
    return target.setdefault(name, {}) if isinstance(target, dict) else None


def _parsed_answer(text: str) -> Any:
    """An answer as YAML, such as a list or a number, or as it was written."""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return text if found is None else found
