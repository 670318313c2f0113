"""One decision of a design."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Decision:
    """What was decided and why.

    Attributes:
        id: the same in each design for the same question, such as ``trigger`` or ``state.sessions``, so that designs
            can be compared.
        choice: what was decided.
        reason: why, as sentences without the last period.
        alternatives: what else was possible, each with its consequence.
        page: the page of the knowledge base, as ``category/name``.
        falls_short: whether the requirements are not fully met.
    """

    id: str
    choice: str
    reason: str
    alternatives: tuple[str, ...]
    page: str
    falls_short: bool = False

    def to_json(self) -> dict[str, Any]:
        """The decision as one JSON object."""
        return {
            "id": self.id,
            "choice": self.choice,
            "reason": self.reason,
            "alternatives": list(self.alternatives),
            "page": self.page,
            "falls_short": self.falls_short,
        }
