"""Whether an update without a recorded end may still run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Liveness:
    """Who held the lease of a pipeline when it was checked.

    Attributes:
        is_held: a process holds the lease, or this is unknown because the lease cannot be read.
        update_id: the update that the holder runs; empty if it runs none, as a repair; None if unknown, because the
            lease cannot be read or an older version of Headrace wrote it.
        checked_after: the id of the newest event before the check. What the check says does not apply to updates that
            were created later.
    """

    is_held: bool
    update_id: str | None = None
    checked_after: str | None = None

    def may_run(self, update_id: str) -> bool:
        """Whether the latest update of the event log may still run; if not, it is LOST unless it recorded its end."""
        return self.is_held and self.update_id in (None, update_id)
