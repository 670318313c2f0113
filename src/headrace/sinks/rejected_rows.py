"""Rows that a sink rejects one by one, while it accepts the rest of the batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from threading import Lock

from headrace.errors import PipelineError


@dataclass(frozen=True)
class RejectedRow:
    """A row that a sink rejects: as JSON, with the reason, and the code of the problem that it would be."""

    row: str
    reason: str
    code: str


class RejectedRows:
    """The rows of one batch that a sink rejects; thread-safe.

    Args:
        limit: how many rows of a batch may be rejected.
        write: stores them, and may raise; gets the number of rows in the batch, if known.
        on_clear: called when the whole batch becomes dead letters, the rejected rows included.
    """

    def __init__(
        self,
        limit: int,
        write: Callable[[Sequence[RejectedRow], int | None], None],
        on_clear: Callable[[], object] = lambda: None,
    ) -> None:
        self._on_clear = on_clear
        self._limit = limit
        self._write = write
        self._lock = Lock()
        self._rows: list[RejectedRow] = []

    def add(self, rejected: RejectedRow, problem: PipelineError) -> None:
        """Add a row.

        Raises:
            PipelineError: *problem*, if there are too many already.
        """
        with self._lock:
            if len(self._rows) >= self._limit:
                raise problem
            self._rows.append(rejected)

    def texts(self) -> list[str]:
        """The rows added so far, as JSON."""
        with self._lock:
            return [rejected.row for rejected in self._rows]

    def replace_texts(self, new_texts: Mapping[str, str]) -> None:
        """Replace the texts of rows, by the texts that were added."""
        with self._lock:
            self._rows = [replace(rejected, row=new_texts.get(rejected.row, rejected.row)) for rejected in self._rows]

    def clear(self) -> None:
        """Remove all rows: the whole batch becomes dead letters."""
        with self._lock:
            self._rows = []
        self._on_clear()

    def store(self, count: int | None) -> None:
        """Store the rows. They replace those that the sink rejected when the batch came before.

        Call this when all are known, and before the commit if the sink recognizes repeated batches.
        """
        with self._lock:
            self._write(sorted(self._rows, key=lambda rejected: rejected.row), count)
