"""Savepoints that updates make by themselves, and the removal of old ones. A failure stops no update."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from headrace.errors import PipelineError, Problems, problems_of
from headrace.events.types import Event, Warned
from headrace.graph.select import Selection
from headrace.model.outcome import Outcome, UpdateState
from headrace.model.savepoint_policy import SavepointPolicy
from headrace.project.outside_events import record_event
from headrace.project.savepoints.create import SavepointRequest
from headrace.project.savepoints.savepoints import PipelineSavepoints, RestoreRequest
from headrace.settings.settings import Settings
from headrace.storage.savepoints.manifest import SavepointKind

# Another update, or maintenance, has begun.
_BUSY = frozenset({"LEASE.HELD", "MAINTENANCE.RUNNING", "SAVEPOINT.NOTHING"})


@dataclass(frozen=True)
class AutomaticSavepoints:
    """Makes savepoints before and after updates, as the settings say.

    Attributes:
        savepoints: the pipeline's.
        policy: the settings.
        now: the time, in seconds since 1970.
        record: writes an event into the event log.
    """

    savepoints: PipelineSavepoints
    policy: SavepointPolicy
    now: Callable[[], float]
    record: Callable[[Event], None]

    @classmethod
    def of(
        cls, settings: Settings, savepoints: PipelineSavepoints, redact: Callable[[str], str]
    ) -> AutomaticSavepoints:
        """Those of a pipeline, with the clock and the event log; *redact* removes secrets from a text."""
        return cls(savepoints, settings.savepoints, time.time, partial(record_event, settings, redact))

    def before(self, selection: Selection) -> None:
        """Make one before an update that clears a table or resets a checkpoint on request."""
        clears = selection.full_refresh or selection.full_refresh_all or selection.reset_checkpoint
        if clears and self.policy.before_clearing:
            self._try(lambda: self._make(SavepointKind.BEFORE_UPDATE))

    def after(self, outcome: Outcome) -> None:
        """Make one after a completed update, if one is due and anything has changed; remove old ones."""
        every_s = self.policy.every_s
        if every_s is None or outcome.state is not UpdateState.COMPLETED:
            return
        self._try(lambda: self._make_if_due(every_s))

    def _make_if_due(self, every_s: float) -> None:
        newest = next(reversed(self.savepoints.all()), None)
        if newest is not None and self.now() - newest.made_at < every_s:
            return
        if newest is None or self.savepoints.plan(RestoreRequest(newest.id)).is_needed:
            self._make(SavepointKind.SCHEDULED)

    def before_plan(self, plan_id: str) -> None:
        """Make one before an approved plan is applied, whose update holds the lease."""
        request = SavepointRequest(kind=SavepointKind.BEFORE_PLAN, plan_id=plan_id)
        self._try(lambda: self.savepoints.create_held(request, _held))

    def _make(self, kind: SavepointKind) -> None:
        self.savepoints.create(SavepointRequest(kind=kind))
        self._remove_old()

    def _try(self, make: Callable[[], object]) -> None:
        try:
            make()
        except OSError as error:
            self._skipped(error.strerror or type(error).__name__)
        except (PipelineError, Problems) as error:
            problems = problems_of(error)
            if not _BUSY.issuperset(problem.code for problem in problems):
                self._skipped("; ".join(problem.message for problem in problems))

    def _skipped(self, reason: str) -> None:
        # What keeps the event from being written, such as a full disk, is reported by what needs the log.
        with suppress(PipelineError, OSError):
            self.record(Warned("SAVEPOINT.SKIPPED", f"no savepoint was made: {reason}"))

    def _remove_old(self) -> None:
        """Remove automatic savepoints that are too old or too many; the newest savepoint stays."""
        known = self.savepoints.all()
        own = [one for one in known if one.kind is not SavepointKind.MANUAL and not one.name]
        too_many = own[: max(len(own) - self.policy.most, 0)]
        for savepoint in own:
            is_old = self.now() - savepoint.made_at > self.policy.keep_s
            if savepoint is not known[-1] and (is_old or savepoint in too_many):
                self.savepoints.drop(savepoint.id)


def _held() -> None:
    """The update checks its lease before it writes anything that counts."""
