"""Stops an update early: on signals, or on an event."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from typing import Self

_POLL_INTERVAL_S = 0.2


class StopSignals:
    """Stops an update early while the block runs: on SIGINT, SIGTERM, or the event *stop*.

    The first signal requests an orderly stop, also before or after the flows run. A second one interrupts running
    batches. Without running batches, and from the third on, a signal calls the handler from before the block.
    """

    def __init__(self, stop: threading.Event | None) -> None:
        self._stop = stop
        self._signals = 0
        self._stop_callback: Callable[[], None] = _no_flow
        self._interrupt_callback: Callable[[], None] | None = None
        self._previous: dict[signal.Signals, Any] = {}
        # True for SIGINT, from a person; False for SIGTERM, from a service manager.
        self.interrupted = False

    def __enter__(self) -> Self:
        # Python delivers signals only to its main thread.
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = _without_java(signal.signal(number, self._handle))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    @contextmanager
    def on_stop(
        self, stop_callback: Callable[[], None], interrupt_callback: Callable[[], None] | None = None
    ) -> Iterator[None]:
        """Call *stop_callback* when the update is to stop during the block; at once if that was requested before.

        A second signal calls *interrupt_callback* from another thread.
        """
        done = threading.Event()
        if self._stop is not None:
            arguments = (self._stop, done, stop_callback)
            threading.Thread(target=_watch, args=arguments, name="headrace-stop", daemon=True).start()
        self._stop_callback, self._interrupt_callback = stop_callback, interrupt_callback
        if self._signals:
            stop_callback()
        try:
            yield
        finally:
            self._stop_callback, self._interrupt_callback = _no_flow, None
            done.set()

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1
        self.interrupted = self.interrupted or number == signal.SIGINT
        if self._signals == 1:
            self._stop_callback()
        elif self._signals == 2 and self._interrupt_callback is not None:
            # It takes locks that this thread may hold.
            threading.Thread(target=self._interrupt_callback, name="headrace-break-off", daemon=True).start()
        else:
            self._call_previous_handler(number, frame)

    def _call_previous_handler(self, number: int, frame: FrameType | None) -> None:
        previous = self._previous[signal.Signals(number)]
        if callable(previous):
            previous(number, frame)
        elif previous is not signal.SIG_IGN:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)


def _watch(stop: threading.Event, done: threading.Event, stop_callback: Callable[[], None]) -> None:
    while not done.is_set():
        if stop.wait(_POLL_INTERVAL_S):
            stop_callback()
            return


def _without_java(handler: Any) -> Any:
    """Replace PySpark's handler, which calls Java: this thread may be in the middle of a Java call."""
    return signal.default_int_handler if getattr(handler, "__module__", "").startswith("pyspark") else handler


def _no_flow() -> None:
    """Do nothing: no flow is running."""
