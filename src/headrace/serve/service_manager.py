"""Reports to the service manager that started the process, as systemd's ``sd_notify`` does.

A datagram to the socket that ``NOTIFY_SOCKET`` names has one ``NAME=value`` a line: ``READY=1`` when requests are
answered, ``WATCHDOG=1`` again and again, ``STOPPING=1``. Without the variable, nothing is sent.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

import uvicorn

_SOCKET, _WATCHDOG_US, _WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"
_US_PER_S = 1_000_000


def without_service_manager(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for other processes: they are not what the service manager watches."""
    return {name: value for name, value in environ.items() if name not in (_SOCKET, _WATCHDOG_US, _WATCHDOG_PID)}


class ServiceManager:
    """The service manager of a process. A report that does not reach it is no failure.

    Args:
        environ: the environment variables.
        pid: of this process.
        clock: seconds that never go back.
    """

    def __init__(self, environ: Mapping[str, str], pid: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._address = _address(environ.get(_SOCKET, ""))
        self._interval_s = _interval_s(environ, pid) if self._address else None
        self._clock = clock
        self._alive_at: float | None = None
        self._ended = threading.Event()

    def ready(self, status: str) -> None:
        """Requests are answered from now on."""
        self._send("READY=1", f"STATUS={status}")

    def alive(self) -> None:
        """This thread has not stopped; reported twice in the time after which the watchdog acts. Cheap to call."""
        if self._interval_s is None:
            return
        now = self._clock()
        if self._alive_at is None or now - self._alive_at >= self._interval_s:
            self._alive_at = now
            self._send("WATCHDOG=1")

    def stopping(self, status: str) -> None:
        """The stop begins. How long it takes has a limit of its own, so a thread reports to the watchdog meanwhile."""
        self._send("STOPPING=1", f"STATUS={status}")
        if self._interval_s is not None:
            threading.Thread(target=self._stay_alive, args=(self._interval_s,), daemon=True).start()

    def close(self) -> None:
        """Report nothing more."""
        self._ended.set()

    def _stay_alive(self, interval_s: float) -> None:
        while not self._ended.is_set():
            self._send("WATCHDOG=1")
            self._ended.wait(interval_s)

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            # A full queue must not stop the event loop.
            sender.settimeout(0)
            sender.sendto("\n".join(lines).encode(), self._address)


class WatchedServer(uvicorn.Server):
    """A server that reports from its event loop: if the loop hangs, the watchdog does not hear of it.

    Args:
        config: how the application is served.
        manager: gets the reports.
        status: what is served, in a few words.
    """

    def __init__(self, config: uvicorn.Config, manager: ServiceManager, status: str) -> None:
        super().__init__(config)
        self._manager = manager
        self._status = status

    async def startup(self, *args: Any, **named: Any) -> None:
        """Open the port."""
        await super().startup(*args, **named)
        if self.started:
            self._manager.ready(self._status)

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second; whether the server ends."""
        self._manager.alive()
        return await super().on_tick(counter)

    async def shutdown(self, *args: Any, **named: Any) -> None:
        """Close the port, and finish the answers that are under way."""
        self._manager.stopping("stopping: updates that were started here end first")
        await super().shutdown(*args, **named)


def _address(text: str) -> str:
    """Where to send; empty for nowhere. A name that begins with @ is in the abstract namespace."""
    if text.startswith("@"):
        return f"\0{text[1:]}"
    return text if text.startswith("/") else ""


def _interval_s(environ: Mapping[str, str], pid: int) -> float | None:
    """Half of the time after which the watchdog acts; None without a watchdog of this process."""
    text = environ.get(_WATCHDOG_US, "")
    if not text.isascii() or not text.isdigit() or int(text) == 0 or environ.get(_WATCHDOG_PID, str(pid)) != str(pid):
        return None
    return int(text) / _US_PER_S / 2
