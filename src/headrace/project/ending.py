"""Who may end an update early, and how it is told."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing_extensions import Self

_LOOK_FOR_STOP_EVERY_S = 0.2


class Ending:
    """Who may end an update early while the block runs: SIGINT, SIGTERM, and whoever holds the event *stop*.

    The first signal asks for an orderly end, also when it comes before or after the flows run; a second one does what
    it did before the block.
    """

    def __init__(self, stop: threading.Event | None) -> None:
        self._stop = stop
        self._signaled = False
        self._ask: Callable[[], None] = _nobody
        self._before: dict[signal.Signals, Any] = {}
        # A person stopped it in the middle, as against a service manager at its end.
        self.interrupted = False

    def __enter__(self) -> Self:
        # Python gives signals to its main thread alone.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def asked_with(self, ask: Callable[[], None]) -> Iterator[None]:
        """Call *ask* when the update is to end while the block runs, at once when it was to end before that."""
        over = threading.Event()
        if self._stop is not None:
            watched = (self._stop, over, ask)
            threading.Thread(target=_watch, args=watched, name="headrace-stop", daemon=True).start()
        self._ask = ask
        if self._signaled:
            ask()
        try:
            yield
        finally:
            self._ask = _nobody
            over.set()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        self._signaled = True
        self.interrupted = self.interrupted or number == signal.SIGINT
        signal.signal(number, self._before[signal.Signals(number)])
        self._ask()


def _watch(stop: threading.Event, over: threading.Event, ask: Callable[[], None]) -> None:
    while not over.is_set():
        if stop.wait(_LOOK_FOR_STOP_EVERY_S):
            ask()
            return


def _nobody() -> None:
    """No flow runs that could be asked."""
