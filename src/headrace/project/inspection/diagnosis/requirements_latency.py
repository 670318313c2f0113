"""How far datasets may be behind, by the requirements that a pipeline was designed from."""

from __future__ import annotations

from pathlib import Path

import yaml

from headrace.model.triggers import parse_interval_s

REQUIREMENTS = "requirements.yml"


def latencies_s(folder: Path) -> dict[str, float]:
    """The latency by the names of outputs, and "" for all others; empty without the file.

    Args:
        folder: of the project.

    Raises:
        OSError, ValueError: the file cannot be read, or has a latency that is no duration.
    """
    try:
        text = (folder / REQUIREMENTS).read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    try:
        document = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error).splitlines()[0]) from error
    if not isinstance(document, dict):
        return {}
    outputs = [one for one in document.get("outputs") or () if isinstance(one, dict) and one.get("name")]
    named = {str(one["name"]): one["latency"] for one in outputs if one.get("latency")}
    general = {"": document["latency"]} if document.get("latency") else {}
    return {name: parse_interval_s(str(latency)) for name, latency in {**general, **named}.items()}
