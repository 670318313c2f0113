"""Flows that cannot be resolved now because something outside of the project is away: the others run without them.

What the project's own text has wrong stops an update before it begins. What a database or a store says, or does not
say, is another thing: it may be back in a minute, and has nothing to do with flows that do not read it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from headrace.errors import PipelineError
from headrace.graph.flows import GraphFlow
from headrace.model.datasets import Dataset

# What is found out by asking the source itself.
_CODES = frozenset(
    {
        "AUTO_LOADER.NOTHING_TO_INFER",
        "AUTO_LOADER.PATH_MISSING",
        "AUTO_LOADER.SAMPLE",
        "AUTO_LOADER.SAMPLE_BROKEN_OFF",
        "AUTO_LOADER.SAMPLE_CORRUPT",
        "AUTO_LOADER.STORE_FAILS",
        "AUTO_LOADER.UNREADABLE",
        "CONFLUENT.UNREACHABLE",
        # Columns come from the source, too.
        "DATASET.COLUMN_NAME",
        "DATASET.TOO_DEEP",
        "DATASET.UNMAPPED_NAME",
        "JDBC.BROKEN_OFF",
        "JDBC.READ",
        "JDBC.TABLE_MISSING",
        "JDBC.UNREACHABLE",
        "KAFKA.UNREACHABLE",
    }
)
# The same as Spark and Delta say it of paths.
_CONDITIONS = frozenset(
    {"DELTA_PATH_DOES_NOT_EXIST", "DELTA_SCHEMA_NOT_SET", "DELTA_TABLE_NOT_FOUND", "PATH_NOT_FOUND"}
)


def is_away(problem: PipelineError) -> bool:
    """Whether a problem is one of a source, and not of the project."""
    return problem.code in _CODES or problem.params.get("condition") in _CONDITIONS


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
