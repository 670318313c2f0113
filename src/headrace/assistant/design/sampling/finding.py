"""What samples say about requirements: answers that they propose, and statements that they contradict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Proposal:
    """An answer that the requirements do not have, from a sample.

    Attributes:
        path: of the answer, such as ``sources.events.keys``.
        answer: as typed on a terminal: names separated by commas, columns as DDL.
        figure: what was measured.
        page: the page of the knowledge base.
    """

    path: str
    answer: str
    figure: str
    page: str

    def to_json(self) -> dict[str, Any]:
        """The proposal as one JSON object."""
        return {"path": self.path, "answer": self.answer, "measured": self.figure, "page": self.page}


@dataclass(frozen=True)
class Contradiction:
    """A statement of the requirements that a sample contradicts.

    Attributes:
        path: of the statement, such as ``sources.events.keys``.
        stated: what the requirements say.
        figure: what was measured.
        remedy: what to change, in the requirements or in the source.
        page: the page of the knowledge base.
        blocks: whether no design is possible with the columns of the sample.
    """

    path: str
    stated: str
    figure: str
    remedy: str
    page: str
    blocks: bool = False

    def to_json(self) -> dict[str, Any]:
        """The contradiction as one JSON object."""
        return {
            "path": self.path,
            "stated": self.stated,
            "measured": self.figure,
            "remedy": self.remedy,
            "page": self.page,
        }


@dataclass(frozen=True)
class Findings:
    """All that samples say about requirements."""

    proposals: tuple[Proposal, ...] = ()
    contradictions: tuple[Contradiction, ...] = ()

    @property
    def by_path(self) -> Mapping[str, Proposal]:
        """The proposals by path."""
        return {proposal.path: proposal for proposal in self.proposals}


NO_FINDINGS = Findings()
