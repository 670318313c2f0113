"""The result of previewing a dataset."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from headrace.model.outcome import FlowCounts
from headrace.model.rows import Rows


@dataclass(frozen=True)
class Preview:
    """Rows that a dataset's flows would write now.

    ``counts`` cover the rows that were computed: all, unless ``partial``. ``sampled`` are tables that do not exist yet,
    of which some rows were computed for the preview. ``merged`` rows are those of a table after the changes that
    ``counts`` has, as if it were empty before.
    """

    rows: Rows
    counts: FlowCounts
    partial: bool = False
    sampled: tuple[str, ...] = ()
    merged: bool = False

    def to_json(self) -> list[dict[str, Any]]:
        """One object per row."""
        return self.rows.to_json()

    def notices(self) -> Iterator[str]:
        """Notices that qualify the rows, one line each."""
        counts = self.counts
        total = counts.rows_read
        if self.merged:
            which = f"the first {_changes(total)}" if self.partial else _changes(total)
            without_effect = counts.rows_dropped + counts.rows_quarantined
            without = f", {without_effect} of them rejected" if without_effect else ""
            yield f"the table after {which}{without}, as if it were empty before"
        elif self.partial or counts.expectations:
            seen = f"the first {_rows(total)}" if self.partial else _rows(total)
            written = f"{counts.rows_written} would be written"
            rejected = f"{counts.rows_dropped} dropped, {counts.rows_quarantined} quarantined"
            yield f"looked at {seen}: {written}" + (f", {rejected}" if counts.expectations else "")
        for rule in counts.expectations:
            if rule.failed:
                yield f'{_rows(rule.failed)} violated "{rule.name}" ({rule.action.value})'
        for name in self.sampled:
            yield f'table "{name}" does not exist yet: this is computed from the first rows that it would have'


def _changes(number: int) -> str:
    return f"{number} change{'' if number == 1 else 's'}"


def _rows(number: int) -> str:
    return f"{number} row{'' if number == 1 else 's'}"
