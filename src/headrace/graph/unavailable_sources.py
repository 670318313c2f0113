"""Flows that cannot be resolved because a source is unavailable; the other flows run.

Errors in the project's own code stop an update before it starts. An unavailable database or store may be back in a
minute, and does not affect flows that do not read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.errors import ErrorKind, PipelineError, spark_condition
from headrace.graph.graph_flow import GraphFlow
from headrace.model.datasets import Dataset
from headrace.model.names import QualifiedName


def is_source_problem(problem: PipelineError) -> bool:
    """Whether a problem concerns a source and not the project."""
    spark_error = spark_condition(problem.params.get("condition"))
    return ErrorKind.SOURCE in (problem.condition.kind, spark_error.kind)


@dataclass(frozen=True)
class UnavailableFlow(GraphFlow):
    """A flow that cannot run because a source is unavailable.

    Attributes:
        flow: the flow.
        dataset: its target, as declared.
        error: the problem with the unavailable source.
        blocked: why it cannot run, if it does not read the source itself; otherwise None.
        reads: the first dataset without rows that it reads, if it does not read the source itself.
    """

    dataset: Dataset
    error: PipelineError
    blocked: str | None = None
    reads: QualifiedName | None = None

    @property
    def reason(self) -> str:
        """Why it cannot run, in one line."""
        location = f" ({self.error.location})" if self.error.location else ""
        return self.blocked or f"{self.error.message}{location}"


def distinct_errors(flows: Iterable[UnavailableFlow]) -> list[PipelineError]:
    """The distinct errors of flows: one unavailable source may block many flows."""
    found: list[PipelineError] = []
    for flow in flows:
        if all(flow.error.to_json() != known.to_json() for known in found):
            found.append(flow.error)
    return found
