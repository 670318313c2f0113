"""Flows that cannot be resolved now because something outside of the project is away: the others run without them.

What the project's own text has wrong stops an update before it begins. What a database or a store says, or does not
say, is another thing: it may be back in a minute, and has nothing to do with flows that do not read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.errors import ErrorKind, PipelineError, spark_condition
from headrace.graph.flows import GraphFlow
from headrace.model.datasets import Dataset


def is_away(problem: PipelineError) -> bool:
    """Whether a problem is one of a source, and not of the project."""
    behind = spark_condition(problem.params.get("condition"))
    return ErrorKind.SOURCE in (problem.condition.kind, behind.kind)


@dataclass(frozen=True)
class AwayFlow(GraphFlow):
    """A flow that an update leaves out.

    Attributes:
        flow: which.
        dataset: what it feeds, as declared.
        error: what is the matter with the source that is away.
        blocked: for a flow that does not read the source itself, why it cannot run; None for one that does.
    """

    dataset: Dataset
    error: PipelineError
    blocked: str | None = None

    @property
    def reason(self) -> str:
        """Why it is left out, in a line."""
        place = f" ({self.error.location})" if self.error.location else ""
        return self.blocked or f"{self.error.message}{place}"


def errors_of(flows: Iterable[AwayFlow]) -> list[PipelineError]:
    """What is the matter with the sources of flows, each of it once: one source may keep many flows from running."""
    found: list[PipelineError] = []
    for flow in flows:
        if all(flow.error.to_json() != known.to_json() for known in found):
            found.append(flow.error)
    return found
