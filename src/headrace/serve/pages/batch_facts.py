"""The batches of a flow: when each ran, where its time went, and what it wrote. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from headrace.events.recorded import Recorded
from headrace.events.types import BatchDone, StreamProgress
from headrace.model.stream_progress import BatchTiming
from headrace.serve.formats import iso

# The time of a batch that Spark does not count to any phase, and of batches that are no stream's.
REST = "rest"
_OF_BATCH = (
    *("started_at", "recorded_at", "duration_ms", "rows_read", "rows_written", "rows_dropped", "rows_quarantined"),
    *("version", "update_id"),
)


def batch_facts(reports: Iterable[Recorded]) -> list[dict[str, Any]]:
    """The batches that were recorded or reported, the newest first; each once, with what is known of it."""
    found: dict[tuple[int, int], dict[str, Any]] = {}
    for one in reports:
        match one.event:
            case BatchDone(epoch=epoch, batch_id=batch_id):
                entry = found.setdefault((epoch, batch_id), _entry(epoch, batch_id))
                if entry["recorded_at"] is None:
                    entry |= _recorded(one, one.event)
            case StreamProgress(epoch=epoch, progress=progress):
                for timing in progress.each:
                    entry = found.setdefault((epoch, timing.batch_id), _entry(epoch, timing.batch_id))
                    entry |= {**_timed(timing), "update_id": entry["update_id"] or one.update_id}
            case _:
                pass
    # What was recorded and reported at once begins with what was recorded.
    newest = sorted(found.values(), key=lambda one: (one["started_at"] or one["recorded_at"], one["batch_id"]))
    return newest[::-1]


def _entry(epoch: int, batch_id: int) -> dict[str, Any]:
    return {"epoch": epoch, "batch_id": batch_id, **dict.fromkeys(_OF_BATCH), "phases_ms": {}}


def _recorded(one: Recorded, done: BatchDone) -> dict[str, Any]:
    counts = done.counts
    known = {
        "recorded_at": iso(one.at),
        "update_id": one.update_id,
        "rows_written": counts.rows_written,
        "rows_dropped": counts.rows_dropped,
        "rows_quarantined": counts.rows_quarantined,
        "version": None if done.commit is None else done.commit.version,
    }
    if done.duration_ms is None:
        return known
    return {**known, "duration_ms": done.duration_ms, "phases_ms": {REST: done.duration_ms}}


def _timed(timing: BatchTiming) -> dict[str, Any]:
    rest_ms = timing.duration_ms - sum(timing.phases_ms.values())
    return {
        "started_at": iso(timing.started_at),
        "duration_ms": timing.duration_ms,
        "phases_ms": {**timing.phases_ms, **({REST: rest_ms} if rest_ms > 0 else {})},
        "rows_read": timing.input_rows,
    }
