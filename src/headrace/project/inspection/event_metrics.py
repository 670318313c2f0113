"""Folds the event log into metrics, from the snapshot of the last time."""

from __future__ import annotations

from pathlib import Path

from headrace.delta_log.tables import table_version_or_none
from headrace.events.expiry import Horizon
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


def folded_events(settings: Settings) -> EventFold:
    """The metrics of all events of a pipeline; reads only those after the last snapshot.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    reader, file = EventReader(settings.layout.events), Path(settings.layout.monitoring(MonitoringFile.METRICS))
    log = table_version_or_none(settings.layout.events)
    if log is None or not reader.exists:
        return EventFold()
    return fold_log(reader, file, log.table_id)


def fold_log(reader: EventReader, file: Path, table_id: str) -> EventFold:
    """The metrics of an event log.

    Args:
        reader: of the log.
        file: the snapshot of the last call; it is replaced.
        table_id: Delta's id of the log.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    trimming = newest_trimming(reader)
    for _ in range(_FOLD_ATTEMPTS):
        snapshot = read_snapshot(file, __version__)
        if snapshot is not None and not _is_current(snapshot, table_id, horizon_of(trimming), reader):
            snapshot = None
        row_id, fold = _fold_since(snapshot, trimming, reader)
        read_with, trimming = trimming, newest_trimming(reader)
        if trimming == read_with:
            # A snapshot without events that were removed meanwhile would make the counters low for good.
            if row_id is not None and (snapshot is None or row_id != snapshot.row_id):
                write_snapshot(file, __version__, Snapshot(table_id, row_id, fold))
            break
    return fold


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


def _is_current(snapshot: Snapshot, table_id: str, removed: Horizon, reader: EventReader) -> bool:
    """Whether a snapshot is of this log, and has all events that were removed from it."""
    if snapshot.table_id != table_id or snapshot.row_id < removed.metrics_before:
        return False
    return continues(reader, snapshot.row_id)
