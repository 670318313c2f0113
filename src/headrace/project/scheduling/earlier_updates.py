"""Updates that an earlier scheduler has started: their processes live on, or the event log says how they ended."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from headrace.events.reader import EventReader
from headrace.events.recorded import find_request
from headrace.model.liveness import Liveness
from headrace.model.outcome import Outcome, UpdateState
from headrace.project.lease_holders import Process
from headrace.schedules.queue import Ending, Result
from headrace.schedules.state import Run

_ENDINGS = {
    UpdateState.COMPLETED: Ending.DONE,
    UpdateState.FAILED: Ending.FAILED,
    UpdateState.LOST: Ending.FAILED,
    # The scheduler before was stopped, and could not note it any more.
    UpdateState.CANCELED: Ending.STOPPED,
}


@dataclass
class EarlierUpdate:
    """An update that this process has not started.

    Attributes:
        run: as it was stored.
        host: this machine.
        reader: of the event log.
        liveness: who holds the lease of the pipeline.
    """

    run: Run
    host: str
    reader: EventReader
    liveness: Callable[[], Liveness]
    _result: Result | None = field(default=None, init=False)

    @property
    def process(self) -> tuple[int, float] | None:
        """See :class:`headrace.project.scheduling.runner.RunningUpdate`."""
        run = self.run
        if run.host != self.host or run.pid is None or run.process_started_at is None:
            return None
        return run.pid, run.process_started_at

    def poll(self) -> Result | None:
        """See :class:`headrace.project.scheduling.runner.RunningUpdate`.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        if self._result is None and not self._is_alive:
            self._result = self._from_log()
        return self._result

    def stop(self) -> None:
        """See :class:`headrace.project.scheduling.runner.RunningUpdate`."""
        if self.process is not None and self._is_alive:
            with suppress(ProcessLookupError, PermissionError):
                os.kill(self.process[0], signal.SIGTERM)

    @property
    def _is_alive(self) -> bool:
        return self.process is not None and Process(*self.process).is_alive

    def _from_log(self) -> Result | None:
        # Who holds the lease comes first: after that, an update may have begun, but none that was held ended unseen.
        held = self.liveness()
        update_id = find_request(self.reader, self.run.request_id)
        if update_id is None:
            return None if held.is_held else Result(Ending.NOT_STARTED, "NOT_STARTED")
        outcome = self.reader.outcome(update_id)
        if outcome is not None and outcome.state is UpdateState.RUNNING:
            if self.liveness().may_run(update_id):
                return None
            # It may have ended before the lease was looked at.
            outcome = self.reader.outcome(update_id)
        return None if outcome is None else _result(outcome, update_id)


def _result(outcome: Outcome, update_id: str) -> Result:
    state = UpdateState.LOST if outcome.state is UpdateState.RUNNING else outcome.state
    error = outcome.error
    message = "" if error is None else f"{error.get('code')}: {error.get('message')}"
    if state is UpdateState.LOST:
        message = "its process died"
    return Result(_ENDINGS[state], state.value, update_id, message)
