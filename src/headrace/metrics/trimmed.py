"""The metrics of events that were removed from the event log."""

from __future__ import annotations

from headrace.events.expiry import Horizon
from headrace.events.upkeep import LogTrimmed
from headrace.metrics.fold import EventFold


def trimmed_fold(trimming: LogTrimmed | None) -> EventFold:
    """The fold of the removed events; empty if none were removed, or if another version wrote it otherwise."""
    try:
        return fold_to_continue(trimming)
    except ValueError:
        return EventFold()


def fold_to_continue(trimming: LogTrimmed | None) -> EventFold:
    """The fold of the removed events; empty if none were removed.

    Raises:
        ValueError: another version wrote it otherwise.
    """
    try:
        return EventFold() if trimming is None else EventFold.from_json(trimming.metrics)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"the sums of removed events cannot be read: {error!r}") from error


def horizon_of(trimming: LogTrimmed | None) -> Horizon:
    """What the fold covers."""
    return Horizon() if trimming is None else Horizon(trimming.before, trimming.metrics_before)
