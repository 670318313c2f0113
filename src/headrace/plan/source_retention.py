"""How far back the sources of a flow can be read, and where a flow starts to read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.graph.starts import Start
from headrace.model.names import QualifiedName


@dataclass(frozen=True)
class SourceRetention:
    """One source of a flow whose table would be cleared.

    Attributes:
        flow: the flow.
        source: description of the source.
        oldest: the oldest position that is still available.
        unrecoverable: which rows of the table cannot be read again; empty if all can.
        dataset: set if the source is a table of the pipeline.
        checkpoint_lost: the checkpoint of the flow is missing.
    """

    flow: str
    source: str
    oldest: str = ""
    unrecoverable: str = ""
    dataset: QualifiedName | None = None
    checkpoint_lost: bool = False

    def describe(self) -> str:
        """One line for the reader."""
        reads = f'flow "{self.flow}" reads {self.source} again, from {self.oldest}' if self.oldest else ""
        lacks = (
            f'flow "{self.flow}" cannot read all of {self.source} again: {self.unrecoverable}'
            if self.unrecoverable
            else ""
        )
        return "; ".join(text for text in (lacks, reads) if text) or f'flow "{self.flow}" reads {self.source} again'

    def to_json(self) -> dict[str, Any]:
        """The source for programs."""
        return {
            "flow": self.flow,
            "source": self.source,
            "oldest": self.oldest or None,
            "gone": self.unrecoverable or None,
        }


@dataclass(frozen=True)
class Loss:
    """The rows that a full refresh clears, and the sources that it reads again."""

    dataset: QualifiedName
    rows: int
    quarantined: int
    sources: tuple[SourceRetention, ...] = ()

    @property
    def unrecoverable(self) -> bool:
        """True if cleared rows cannot be read again."""
        return self.rows + self.quarantined > 0 and any(source.unrecoverable for source in self.sources)

    def cleared(self) -> str:
        """The rows in words."""
        quarantined = f" and {_rows(self.quarantined)} in quarantine" if self.quarantined else ""
        return f"{_rows(self.rows)}{quarantined}"

    def describe(self) -> str:
        """The rows, then one line per source."""
        lines = [f"clears     {self.dataset}: {self.cleared()}"]
        return "\n".join([*lines, *(f"             {source.describe()}" for source in self.sources)])

    def to_json(self) -> dict[str, Any]:
        """The loss for programs."""
        return {
            "dataset": str(self.dataset),
            "rows": self.rows,
            "quarantined_rows": self.quarantined,
            "replayable": not self.unrecoverable,
            "sources": [source.to_json() for source in self.sources],
        }


def _rows(number: int) -> str:
    return f"{number} row{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class SourceStart:
    """Where a flow starts to read one source. ``position`` is for the writer of the checkpoint."""

    source: str
    position_text: str
    position: object = None

    def describe(self) -> str:
        """One line for the reader."""
        return f"{self.source}: {self.position_text}"


@dataclass(frozen=True)
class Restart:
    """A flow's checkpoint is reset while its table keeps its rows."""

    start: Start
    sources: tuple[SourceStart, ...]

    def to_json(self) -> dict[str, Any]:
        """The restart for programs."""
        sources = [{"source": source.source, "from": source.position_text} for source in self.sources]
        return {"start": str(self.start), "sources": sources}
