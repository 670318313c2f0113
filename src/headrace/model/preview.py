"""What a preview of a dataset has found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headrace.model.outcome import FlowCounts
from headrace.model.rows import Rows


@dataclass(frozen=True)
class Preview:
    """Rows that a dataset's flows would write now.

    ``counts`` are over the rows that were looked at, which are all there are unless ``partial``. ``sampled`` are
    tables that were never made, and of which some rows were computed for this.
    """

    rows: Rows
    counts: FlowCounts
    partial: bool = False
    sampled: tuple[str, ...] = ()

    def to_json(self) -> list[dict[str, Any]]:
        """One object a row."""
        return self.rows.to_json()

    def remarks(self) -> Iterator[str]:
        """What a reader of the rows has to know, a line each."""
        counts = self.counts
        total = counts.rows_read
        if self.partial or counts.expectations:
            seen = f"the first {_rows(total)}" if self.partial else _rows(total)
            kept_rows = f"{counts.rows_written} would be written"
            fates = f"{counts.rows_dropped} dropped, {counts.rows_quarantined} quarantined"
            yield f"looked at {seen}: {kept_rows}" + (f", {fates}" if counts.expectations else "")
        for rule in counts.expectations:
            if rule.failed:
                yield f'{_rows(rule.failed)} violated "{rule.name}" ({rule.action.value})'
        for name in self.sampled:
            yield f'table "{name}" does not exist yet: this is computed from the first rows that it would have'


def _rows(number: int) -> str:
    return f"{number} row{'' if number == 1 else 's'}"
