"""Compares samples with requirements: proposals, contradictions, and the requirements with the proposed answers."""

from __future__ import annotations

from collections.abc import Sequence

from headrace.assistant.design.requirements import Requirements
from headrace.assistant.design.sampling.contradictions import contradictions
from headrace.assistant.design.sampling.finding import Findings
from headrace.assistant.design.sampling.proposals import propose
from headrace.assistant.design.sampling.sample import SampleMeasures
from headrace.errors import PipelineError, Problems
from headrace.model.location import Location


def compare(requirements: Requirements, samples: Sequence[SampleMeasures]) -> tuple[Requirements, Findings]:
    """The requirements with proposed answers, and what the samples say.

    Raises:
        Problems: DESIGN.SAMPLE_DIFFERS: the columns come from a sample, and a stated event time or key is not in it.
    """
    differs = contradictions(requirements, samples)
    blocking = [
        PipelineError(
            "DESIGN.SAMPLE_DIFFERS",
            location=Location(requirements.file, _line(requirements, one.path)),
            key=one.path,
            stated=one.stated,
            reason=one.figure,
        )
        for one in differs
        if one.blocks
    ]
    if blocking:
        raise Problems(blocking)
    filled, proposals = propose(requirements, samples)
    return filled, Findings(proposals, differs)


def _line(requirements: Requirements, path: str) -> int:
    _, name, key = path.split(".")
    source = requirements.source(name)
    lines = source.lines if source is not None else {}
    return lines.get(key, lines.get("", 1))
