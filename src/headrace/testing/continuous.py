"""A continuous update in the background of a test."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING

from headrace.events.types import Event, FlowMoved
from headrace.model.outcome import FlowState, Outcome
from headrace.project.open import Project
from headrace.testing.result import Result

if TYPE_CHECKING:
    from typing import Self

_LOOK_EVERY_S = 0.1


class Continuing:
    """Runs while its ``with`` block does; :attr:`result` is there afterwards.

    Args:
        project: what to run.
        result: makes a result of an outcome.
        patience_s: how long :meth:`wait_until` waits before it gives up.
    """

    def __init__(self, project: Project, result: Callable[[Outcome], Result], patience_s: float) -> None:
        self._project = project
        self._result = result
        self._patience_s = patience_s
        self._stop = threading.Event()
        self._news = threading.Condition()
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
        """End the update as SIGTERM does, and return what came of it.

        Raises whatever the update raised.
        """
        self._stop.set()
        self._thread.join()
        return self.result

    @property
    def result(self) -> Result:
        """What came of the update, once it has ended.

        Raises whatever the update raised; AssertionError while it runs.
        """
        if self._error is not None:
            raise self._error
        assert self._outcome is not None, "the update has not ended"  # noqa: S101 - for tests
        return self._result(self._outcome)

    @property
    def ended(self) -> bool:
        """True once no flow can go on, or the update was stopped."""
        return not self._thread.is_alive()

    @property
    def states(self) -> Mapping[str, FlowState]:
        """Where each flow stands now."""
        return dict(self._states)

    def wait_until(self, holds: Callable[[], bool]) -> None:
        """Return once the condition holds; it is asked after each event, and now and then in between.

        Raises:
            AssertionError: it does not within the patience, or the update ended before.
        """
        deadline = time.monotonic() + self._patience_s
        with self._news:
            while not holds():
                ended = self.ended
                if ended and self._error is not None:
                    raise self._error
                if ended and holds():
                    return
                if ended or time.monotonic() > deadline:
                    why = "the update has ended" if ended else f"{self._patience_s:g} s are over"
                    raise AssertionError(f"the condition does not hold, and {why}; the flows are {self.states}")
                self._news.wait(_LOOK_EVERY_S)

    def _run(self) -> None:
        try:
            self._outcome = self._project.run(continuous=True, stop=self._stop, on_event=self._take)
        except BaseException as error:  # noqa: BLE001 - raised again in the test's own thread
            self._error = error
        with self._news:
            self._news.notify_all()

    def _take(self, event: Event) -> None:
        with self._news:
            if isinstance(event, FlowMoved):
                self._states[event.flow] = event.state
            self._news.notify_all()
