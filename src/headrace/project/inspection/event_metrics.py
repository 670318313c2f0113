"""Folds the event log into metrics, from the snapshot of the last time."""

from __future__ import annotations

from contextlib import suppress
from copy import copy
from pathlib import Path

from headrace.errors import PipelineError
from headrace.events.reader import EventReader
from headrace.events.recorded import continues, newest_trimming, recorded_events
from headrace.events.upkeep import LogTrimmed
from headrace.metrics.fold import EventFold
from headrace.metrics.snapshot import Snapshot, read_snapshot, write_snapshot
from headrace.metrics.trimmed import horizon_of, trimmed_fold
from headrace.model.version import __version__
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile

# Events are removed once a day, so the second attempt nearly always succeeds.
_FOLD_ATTEMPTS = 3


class FoldedEvents:
    """The metrics of all events of a pipeline: each is read once, by the first call or since the call before.

    For one thread.
    """

    def __init__(self, settings: Settings, reader: EventReader | None = None) -> None:
        self._reader = reader or EventReader(settings.layout.events)
        self._file = Path(settings.layout.monitoring(MonitoringFile.METRICS))
        # Delta's id of the log and its version, the last row, and the metrics up to it.
        self._folded: tuple[tuple[str, int], str | None, EventFold] | None = None

    def newest(self) -> EventFold:
        """The metrics now, to whose values the caller may add. None of a log that cannot be opened.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        position = None
        with suppress(PipelineError):
            position = self._reader.position
        if position is None:
            return EventFold()
        folded = self._folded
        if folded is None or folded[0] != position:
            known = None if folded is None or folded[1] is None else Snapshot(folded[0][0], folded[1], folded[2])
            # What fails in the middle has changed the metrics.
            self._folded = None
            folded = self._folded = (position, *fold_log(self._reader, self._file, position[0], known))
        found = copy(folded[2])
        found.samples = found.samples.copy()
        return found


def fold_log(
    reader: EventReader, file: Path, table_id: str, known: Snapshot | None = None
) -> tuple[str | None, EventFold]:
    """The id of the last row of an event log, and the metrics of all up to it.

    Args:
        reader: of the log.
        file: the snapshot of the last call; it is replaced.
        table_id: Delta's id of the log.
        known: a snapshot that need not be read; it is changed.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    for _ in range(_FOLD_ATTEMPTS):
        snapshot, known = known or read_snapshot(file, __version__), None
        if snapshot is not None and not (snapshot.table_id == table_id and continues(reader, snapshot.row_id)):
            snapshot = None
        # A removal covers only events that are older than its record.
        after = None if snapshot is None else snapshot.row_id
        trimming = newest_trimming(reader, after)
        if snapshot is not None and snapshot.row_id < horizon_of(trimming).metrics_before:
            # Events that it does not have were removed.
            snapshot = None
        row_id, fold = _fold_since(snapshot, trimming, reader)
        if newest_trimming(reader, after) == trimming:
            # A snapshot without events that were removed meanwhile would make the counters low for good.
            if row_id is not None and (snapshot is None or row_id != snapshot.row_id):
                write_snapshot(file, __version__, Snapshot(table_id, row_id, fold))
            return row_id, fold
    # The next call folds again.
    return None, fold


def _fold_since(
    snapshot: Snapshot | None, trimming: LogTrimmed | None, reader: EventReader
) -> tuple[str | None, EventFold]:
    """The id of the last row, and the metrics of all up to it."""
    removed = horizon_of(trimming)
    row_id, fold = (None, trimmed_fold(trimming)) if snapshot is None else (snapshot.row_id, snapshot.fold)
    for recorded in recorded_events(reader, row_id):
        # Of what has expired, some is left in the log.
        if snapshot is not None or not removed.covers(recorded.row_id, recorded.event):
            fold.apply(recorded.event, recorded.at, recorded.update_id)
        row_id = recorded.row_id
    return row_id, fold
