"""A continuous update in the background of a test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from headrace.events.types import Event, FlowStateChanged
from headrace.model.outcome import FlowState, Outcome
from headrace.project.open import Project
from headrace.testing.result import Result

if TYPE_CHECKING:
    from typing import Self

_POLL_INTERVAL_S = 0.1


class ContinuousUpdate:
    """A continuous update that runs during its ``with`` block; :attr:`result` is available afterwards.

    Args:
        project: the project to run.
        result: makes a result from an outcome.
        timeout_s: how long :meth:`wait_until` waits before it gives up.
    """

    def __init__(self, project: Project, result: Callable[[Outcome], Result], timeout_s: float) -> None:
        self._project = project
        self._result = result
        self._timeout_s = timeout_s
        self._stop = threading.Event()
        self._changed = threading.Condition()
        self._states: dict[str, FlowState] = {}
        self._outcome: Outcome | None = None
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="headrace-continuing", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> Result:
        """Stop the update as SIGTERM does, and return its result.

        Raises whatever the update raised.
        """
        self._stop.set()
        self._thread.join()
        return self.result

    @property
    def result(self) -> Result:
        """The result of the update, once it has ended.

        Raises whatever the update raised; AssertionError while it runs.
        """
        if self._error is not None:
            raise self._error
        assert self._outcome is not None, "the update has not ended"  # noqa: S101 - for tests
        return self._result(self._outcome)

    @property
    def ended(self) -> bool:
        """True once the update has ended: it was stopped, or no flow can continue."""
        return not self._thread.is_alive()

    @property
    def states(self) -> Mapping[str, FlowState]:
        """The current state of each flow."""
        return dict(self._states)

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait until the condition is true; it is checked after each event, and from time to time.

        Raises:
            AssertionError: it is still false after the timeout, or when the update ends.
        """
        deadline = time.monotonic() + self._timeout_s
        with self._changed:
            while not condition():
                ended = self.ended
                if ended and self._error is not None:
                    raise self._error
                if ended and condition():
                    return
                if ended or time.monotonic() > deadline:
                    why = "the update has ended" if ended else f"{self._timeout_s:g} s are over"
                    raise AssertionError(f"the condition does not hold, and {why}; the flows are {self.states}")
                self._changed.wait(_POLL_INTERVAL_S)

    def _run(self) -> None:
        try:
            self._outcome = self._project.run(continuous=True, stop=self._stop, on_event=self._on_event)
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            self._error = error
        with self._changed:
            self._changed.notify_all()

    def _on_event(self, event: Event) -> None:
        with self._changed:
            if isinstance(event, FlowStateChanged):
                self._states[event.flow] = event.state
            self._changed.notify_all()
