"""Who may end an update early, and how it is told."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

_LOOK_FOR_STOP_EVERY_S = 0.2


class Ending:
    """Who may end an update early while the block runs: SIGINT, SIGTERM, and whoever holds the event *stop*.

    The first signal asks for an orderly end, also when it comes before or after the flows run. A second one breaks off
    what runs; where nothing does, and from the third on, a signal does what it did before the block.
    """

    def __init__(self, stop: threading.Event | None) -> None:
        self._stop = stop
        self._signals = 0
        self._ask: Callable[[], None] = _nobody
        self._break_off: Callable[[], None] | None = None
        self._before: dict[signal.Signals, Any] = {}
        # A person stopped it in the middle, as against a service manager at its end.
        self.interrupted = False

    def __enter__(self) -> Self:
        # Python gives signals to its main thread alone.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = _without_java(signal.signal(number, self._handle))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    @contextmanager
    def asked_with(self, ask: Callable[[], None], break_off: Callable[[], None] | None = None) -> Iterator[None]:
        """Call *ask* when the update is to end while the block runs, at once when it was to end before that.

        *break_off* is called, from another thread, when a second signal comes.
        """
        over = threading.Event()
        if self._stop is not None:
            watched = (self._stop, over, ask)
            threading.Thread(target=_watch, args=watched, name="headrace-stop", daemon=True).start()
        self._ask, self._break_off = ask, break_off
        if self._signals:
            ask()
        try:
            yield
        finally:
            self._ask, self._break_off = _nobody, None
            over.set()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1
        self.interrupted = self.interrupted or number == signal.SIGINT
        if self._signals == 1:
            self._ask()
        elif self._signals == 2 and self._break_off is not None:
            # What it does takes locks that this thread may hold.
            threading.Thread(target=self._break_off, name="headrace-break-off", daemon=True).start()
        else:
            self._as_before(number, frame)

    def _as_before(self, number: int, frame: FrameType | None) -> None:
        before = self._before[signal.Signals(number)]
        if callable(before):
            before(number, frame)
        elif before is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)


def _watch(stop: threading.Event, over: threading.Event, ask: Callable[[], None]) -> None:
    while not over.is_set():
        if stop.wait(_LOOK_FOR_STOP_EVERY_S):
            ask()
            return


def _without_java(handler: Any) -> Any:
    """A handler that does not ask Java, as PySpark's does: this thread may be in the middle of a call to it."""
    return signal.default_int_handler if getattr(handler, "__module__", "").startswith("pyspark") else handler


def _nobody() -> None:
    """No flow runs that could be asked."""
