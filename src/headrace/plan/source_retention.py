"""How far back the sources of a flow can be read, and where its reading starts, as the planner sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.graph.starts import Start
from headrace.model.names import QualifiedName


@dataclass(frozen=True)
class SourceReach:
    """One source of a flow whose table would be cleared.

    ``oldest`` is the oldest position that is still there, ``gone`` says what of the rows in the table cannot be read
    again, and is empty when everything can. ``dataset`` is set for a table of the pipeline. ``checkpoint_lost`` is true
    when the checkpoint is missing from which the flow would go on.
    """

    flow: str
    source: str
    oldest: str = ""
    gone: str = ""
    dataset: QualifiedName | None = None
    checkpoint_lost: bool = False

    def describe(self) -> str:
        """One line for the reader."""
        reads = f'flow "{self.flow}" reads {self.source} again, from {self.oldest}' if self.oldest else ""
        lacks = f'flow "{self.flow}" cannot read all of {self.source} again: {self.gone}' if self.gone else ""
        return "; ".join(text for text in (lacks, reads) if text) or f'flow "{self.flow}" reads {self.source} again'

    def to_json(self) -> dict[str, Any]:
        """The source for programs."""
        return {"flow": self.flow, "source": self.source, "oldest": self.oldest or None, "gone": self.gone or None}


@dataclass(frozen=True)
class Loss:
    """What a full refresh clears, and the sources that it reads again."""

    dataset: QualifiedName
    rows: int
    aside: int
    sources: tuple[SourceReach, ...] = ()

    @property
    def gone(self) -> bool:
        """True when rows that are cleared cannot be read again."""
        return self.rows + self.aside > 0 and any(source.gone for source in self.sources)

    def cleared(self) -> str:
        """The rows in words."""
        aside = f" and {_rows(self.aside)} in quarantine" if self.aside else ""
        return f"{_rows(self.rows)}{aside}"

    def describe(self) -> str:
        """The rows, then a line a source."""
        lines = [f"clears     {self.dataset}: {self.cleared()}"]
        return "\n".join([*lines, *(f"             {source.describe()}" for source in self.sources)])

    def to_json(self) -> dict[str, Any]:
        """The loss for programs."""
        return {
            "dataset": str(self.dataset),
            "rows": self.rows,
            "quarantined_rows": self.aside,
            "replayable": not self.gone,
            "sources": [source.to_json() for source in self.sources],
        }


def _rows(number: int) -> str:
    return f"{number} row{'' if number == 1 else 's'}"


@dataclass(frozen=True)
class SourceStart:
    """Where the reading of one source starts; ``position`` is for the one who writes the checkpoint."""

    source: str
    said: str
    position: object = None

    def describe(self) -> str:
        """One line for the reader."""
        return f"{self.source}: {self.said}"


@dataclass(frozen=True)
class Restart:
    """A flow's progress is dropped and its table kept."""

    start: Start
    sources: tuple[SourceStart, ...]

    def to_json(self) -> dict[str, Any]:
        """The restart for programs."""
        sources = [{"source": source.source, "from": source.said} for source in self.sources]
        return {"start": str(self.start), "sources": sources}
