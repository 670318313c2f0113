"""How many quarantined rows a replay would write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headrace.model.outcome import FlowCounts


@dataclass(frozen=True)
class ReplayPreview:
    """What a replay would do with the quarantined rows that it selects.

    Attributes:
        dataset: of the rows.
        counts: of them, by expectation.
    """

    dataset: str
    counts: FlowCounts

    @property
    def rows(self) -> int:
        """How many rows the replay selects."""
        return self.counts.rows_read

    @property
    def passing(self) -> int:
        """How many of them it would write."""
        return self.counts.rows_written

    def to_json(self) -> dict[str, Any]:
        """The preview as JSON."""
        rules = [{"name": one.name, "passed": one.passed, "failed": one.failed} for one in self.counts.expectations]
        counted = {"rows": self.rows, "passing": self.passing, "failing": self.rows - self.passing}
        return {"dataset": self.dataset, **counted, "expectations": rules}
