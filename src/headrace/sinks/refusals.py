"""Rows that a sink refuses one by one, and does without."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock

from headrace.errors import PipelineError


@dataclass(frozen=True)
class RefusedRow:
    """A row that a sink does not take: as JSON, why, and the code of the problem that it would be."""

    row: str
    reason: str
    code: str


class Refusals:
    """What a sink refuses of one batch; safe to share between threads.

    Args:
        most: how many rows a batch may do without.
        keep: stores them, and may raise; gets how many rows the batch has, where that is known.
        forgotten: is told when they are set aside as a part of their whole batch.
    """

    def __init__(
        self,
        most: int,
        keep: Callable[[Sequence[RefusedRow], int | None], None],
        forgotten: Callable[[], object] = lambda: None,
    ) -> None:
        self._forgotten = forgotten
        self._most = most
        self._keep = keep
        self._lock = Lock()
        self._rows: list[RefusedRow] = []

    def add(self, refused: RefusedRow, problem: PipelineError) -> None:
        """Do without a row.

        Raises:
            PipelineError: *problem*, where there are too many already.
        """
        with self._lock:
            if len(self._rows) >= self._most:
                raise problem
            self._rows.append(refused)

    def bodies(self) -> list[str]:
        """What was added so far."""
        with self._lock:
            return [refused.row for refused in self._rows]

    def told_as(self, wholes: Mapping[str, str]) -> None:
        """Take other texts for rows, by those that were added."""
        with self._lock:
            self._rows = [replace(refused, row=wholes.get(refused.row, refused.row)) for refused in self._rows]

    def forget(self) -> None:
        """Count them no longer: the whole batch is set aside."""
        with self._lock:
            self._rows = []
        self._forgotten()

    def settle(self, count: int | None) -> None:
        """Store them, in the place of those that the sink has refused when the batch came before.

        To be called when all are known, and before the batch is committed where the sink knows batches that it has.
        """
        with self._lock:
            self._keep(sorted(self._rows, key=lambda refused: refused.row), count)
