"""The newest updates of a pipeline, from the events about their begin and end alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from headrace.delta_log.tables import sql_literal
from headrace.events.levels import Json
from headrace.events.reader import EventReader
from headrace.events.recorded import Recorded, Stretch, recorded_rows
from headrace.events.types import TERMINAL_UPDATE_STATES, UpdateCreated, UpdateStateChanged
from headrace.model.liveness import Liveness
from headrace.model.outcome import UpdateState


@dataclass(frozen=True)
class PastUpdate:
    """An update: who started it and why, when it began and ended, and how.

    *ended_at* is None while it runs, and if its process was lost; *error* is the JSON of the error that failed it;
    *sequence* is that of the event that created it.
    """

    update_id: str
    started_at: datetime
    created: UpdateCreated
    sequence: int
    state: UpdateState = UpdateState.RUNNING
    ended_at: datetime | None = None
    error: Json | None = None

    @property
    def duration_s(self) -> float | None:
        """How long it took in seconds; None if it has no end."""
        return None if self.ended_at is None else (self.ended_at - self.started_at).total_seconds()

    def to_json(self) -> dict[str, Any]:
        """The update as one JSON object."""
        return {
            "update_id": self.update_id,
            "state": self.state.value,
            "cause": self.created.cause,
            "user": self.created.user,
            "started_at": self.started_at.isoformat(),
            "ended_at": None if self.ended_at is None else self.ended_at.isoformat(),
            "duration_s": self.duration_s,
            "is_whole": self.created.is_whole,
            "version": self.created.version,
            "git_commit": self.created.git_commit,
            "error": self.error,
        }


def past_updates(
    reader: EventReader, newest: int, liveness: Liveness, before: int | None = None
) -> tuple[PastUpdate, ...]:
    """So many updates, the newest first.

    Args:
        reader: of the event log.
        newest: how many, at most.
        liveness: who held the lease when it was checked; an update without an end that nobody runs is LOST.
        before: only updates whose first event comes before this sequence number; None for all.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    created_before = f"event_type = '{UpdateCreated.event_type}' AND {Stretch(before=before).condition}"
    created = recorded_rows(reader, created_before, f"id DESC LIMIT {int(newest)}")
    begun = [(one, one.event) for one in created if isinstance(one.event, UpdateCreated)]
    if not begun:
        return ()
    found = {one.update_id: PastUpdate(one.update_id, one.at, event, one.sequence) for one, event in begun}
    since = f"event_type = '{UpdateStateChanged.event_type}' AND id >= '{begun[-1][0].row_id}'"
    if before is not None:
        # Those of the updates since then are not needed.
        since += f" AND origin['update_id'] IN ({', '.join(map(sql_literal, found))})"
    for changed in recorded_rows(reader, since):
        if changed.update_id in found:
            found[changed.update_id] = _after(found[changed.update_id], changed)
    first_ids = {one.update_id: one.row_id for one, _ in begun}
    newest_id = begun[0][0].update_id if before is None else None
    return tuple(
        replace(update, state=UpdateState.LOST)
        if update.state is UpdateState.RUNNING
        and not _may_run(update.update_id, first_ids[update.update_id], newest_id, liveness)
        else update
        for update in found.values()
    )


def _after(update: PastUpdate, changed: Recorded) -> PastUpdate:
    match changed.event:
        case UpdateStateChanged(state=state, error=error):
            ended_at = changed.at if state in TERMINAL_UPDATE_STATES else None
            return replace(update, state=state, ended_at=ended_at, error=error)
        case _:
            return update


def _may_run(update_id: str, first_id: str, newest_id: str | None, liveness: Liveness) -> bool:
    """Whether an update without an end may still run: only the newest one may, or one that began after the check."""
    if liveness.checked_after is not None and first_id > liveness.checked_after:
        return True
    return liveness.may_run(update_id) and (liveness.update_id is not None or update_id == newest_id)
