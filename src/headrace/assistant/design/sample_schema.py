"""The columns of a source from a sample of its records: JSON lines, inferred as Auto Loader infers them."""

from __future__ import annotations

import json

from headrace.assistant.design.requirements import Column
from headrace.autoloader.schemas.inference import JsonTypeInference, finalize_struct, json_struct
from headrace.errors import PipelineError

_OPTIONS = {"inferTimestamp": "true"}


def columns_of_sample(text: str, path: str) -> tuple[Column, ...]:
    """The columns of the JSON lines in a text, in alphabetical order; texts that look like times are timestamps.

    Raises:
        PipelineError: REQUIREMENTS.SAMPLE: a line is no JSON object, or the file is empty.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        if not isinstance(_parsed(line), dict):
            raise PipelineError("REQUIREMENTS.SAMPLE", path=path, reason=f"line {number} is no JSON object")
    found = json_struct(["\n".join(lines).encode()], _OPTIONS, JsonTypeInference.of(_OPTIONS, "UTC"))
    columns = finalize_struct(found, typed=True)["fields"]
    if not columns:
        raise PipelineError("REQUIREMENTS.SAMPLE", path=path, reason="it has no columns")
    return tuple(Column(column["name"], column["type"]) for column in columns)


def _parsed(line: str) -> object:
    try:
        return json.loads(line)
    except ValueError:
        return None
