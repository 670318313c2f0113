"""Errors for requirements that cannot be built, with their locations."""

from __future__ import annotations

from headrace.assistant.design.requirements import Output, Requirements, Source
from headrace.errors import PipelineError
from headrace.model.location import Location


def wrong(
    requirements: Requirements, item: Source | Output, key: str, label: str, reason: str, fix: str
) -> PipelineError:
    """A value of a source or an output is wrong."""
    return PipelineError(
        "REQUIREMENTS.WRONG_VALUE",
        location=location(requirements, item, key),
        key=f"{label}.{key}",
        reason=reason,
        instead=fix,
    )


def refused(requirements: Requirements, output: Output, reason: str, instead: str) -> PipelineError:
    """An output cannot be built."""
    place = location(requirements, output, "kind")
    return PipelineError("DESIGN.REFUSED", location=place, output=output.name, reason=reason, instead=instead)


def location(requirements: Requirements, item: Source | Output, key: str) -> Location:
    """Where a key of a source or an output is."""
    line = item.lines.get(key, item.lines.get(key.partition(".")[0], item.lines.get("", 0)))
    return Location(requirements.file, line)
