"""What systemd hears from the server: ready, alive while its event loop runs, and stopping."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
import time
from contextlib import contextmanager

import pytest
import uvicorn
from tests.unit.serve.test_server import free_port, get, running

from headrace.serve.server import ServeOptions, serve
from headrace.serve.service_manager import ServiceManager, WatchedServer, without_service_manager

US = 1_000_000


@contextmanager
def listening(address):
    """A socket as systemd has it; an address that begins with a zero byte is in the abstract namespace."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as found:
        found.bind(address)
        found.settimeout(30)
        yield found


def received(found):
    """What has been sent so far."""
    messages = []
    found.settimeout(0)
    while True:
        try:
            messages.append(found.recv(4096).decode())
        except BlockingIOError:
            return messages


@pytest.mark.parametrize("is_abstract", [False, True])
def test_states_are_sent_to_a_path_or_to_the_abstract_namespace(tmp_path, is_abstract):
    name = f"headrace-test-{os.getpid()}" if is_abstract else str(tmp_path / "notify")
    with listening(f"\0{name}" if is_abstract else name) as found:
        manager = ServiceManager({"NOTIFY_SOCKET": f"@{name}" if is_abstract else name}, 1)

        manager.ready("serving shop")
        manager.alive()
        manager.stopping("stopping")

        # Without WATCHDOG_USEC, nobody waits for signs of life.
        assert received(found) == ["READY=1\nSTATUS=serving shop", "STOPPING=1\nSTATUS=stopping"]


def test_signs_of_life_come_twice_in_the_time_of_the_watchdog(tmp_path):
    seconds = [100.0]
    with listening(str(tmp_path / "notify")) as found:
        environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": str(30 * US), "WATCHDOG_PID": "7"}
        manager = ServiceManager(environ, 7, lambda: seconds[0])
        for at in (100.0, 100.1, 114.9, 115.0, 129.0, 130.0):
            seconds[0] = at
            manager.alive()

        assert received(found) == ["WATCHDOG=1"] * 3


@pytest.mark.parametrize(
    "watchdog", [{}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "x"}, {"WATCHDOG_USEC": "9", "WATCHDOG_PID": "8"}]
)
def test_a_watchdog_of_nobody_or_of_another_process_hears_nothing(tmp_path, watchdog):
    with listening(str(tmp_path / "notify")) as found:
        ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify"), **watchdog}, 7).alive()

        assert received(found) == []


@pytest.mark.parametrize(
    "address", [None, "", "/no/such/socket", "@no-such-socket-of-headrace", "vsock:2:1", "x" * 500]
)
def test_a_service_manager_that_cannot_be_reached_is_no_failure(address):
    environ = {} if address is None else {"NOTIFY_SOCKET": address, "WATCHDOG_USEC": str(US)}
    manager = ServiceManager(environ, 1)

    manager.ready("serving shop")
    manager.alive()
    manager.stopping("stopping")
    manager.close()


def test_a_full_queue_stops_nobody(tmp_path):
    with listening(str(tmp_path / "notify")):
        manager = ServiceManager({"NOTIFY_SOCKET": str(tmp_path / "notify")}, 1)
        started = time.monotonic()

        for _ in range(3000):
            manager.ready("serving shop")

        assert time.monotonic() - started < 20


def test_other_processes_do_not_report_for_the_server():
    environ = {"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "1", "WATCHDOG_PID": "2", "PATH": "/bin"}

    assert without_service_manager(environ) == {"PATH": "/bin"}


class _OpenedError(Exception):
    """Ends a server whose port is open."""


def test_the_server_starts_its_processes_without_the_service_manager(busy_shop, tmp_path):
    environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "9", "XDG_CONFIG_HOME": str(tmp_path)}
    opened = []

    def beside(serving):
        opened.append(serving.pipelines["shop"].environ)
        raise _OpenedError

    with pytest.raises(_OpenedError):
        serve(ServeOptions([busy_shop.root], f"127.0.0.1:{free_port()}", beside=beside), environ, print)

    assert opened == [{"XDG_CONFIG_HOME": str(tmp_path)}]


async def _hangs_once(scope, _receive, send):
    if scope["path"] == "/hang":
        # What no event loop should have to bear.
        time.sleep(1.0)  # noqa: ASYNC251
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def test_a_hung_event_loop_misses_the_watchdog(tmp_path):
    port = free_port()
    with listening(str(tmp_path / "notify")) as found:
        environ = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": str(US // 5)}
        manager = ServiceManager(environ, os.getpid())
        config = uvicorn.Config(_hangs_once, port=port, lifespan="off", log_config=None)
        server = WatchedServer(config, manager, "serving shop")
        thread = threading.Thread(target=lambda: asyncio.run(server.serve()))
        thread.start()
        assert found.recv(4096) == b"READY=1\nSTATUS=serving shop"
        found.recv(4096)

        get(port, "/hang")
        while_hung = len(received(found))
        time.sleep(1.0)
        while_well = len(received(found))
        server.should_exit = True
        thread.join(30)
        manager.close()

    assert (while_hung <= 3, while_well >= 5) == (True, True)


def test_the_server_reports_ready_alive_and_stopping_in_this_order(busy_shop, tmp_path, monkeypatch):
    port = free_port()
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "notify"))
    monkeypatch.setenv("WATCHDOG_USEC", str(US // 5))
    with listening(str(tmp_path / "notify")) as found, running(busy_shop, port) as server:
        ready = found.recv(4096)
        # The port is open.
        health, _ = get(port, "/healthz", Host="10.244.1.7:8741")
        first, second = found.recv(4096), found.recv(4096)
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
        rest = received(found)

    assert (ready, health.status) == (b"READY=1\nSTATUS=serving shop", 200)
    assert (first, second, server.returncode) == (b"WATCHDOG=1", b"WATCHDOG=1", 0)
    stopping = [number for number, message in enumerate(rest) if message.startswith("STOPPING=1\nSTATUS=")]
    assert len(stopping) == 1
    # The stop takes longer than the watchdog allows.
    assert set(rest[stopping[0] + 1 :]) == {"WATCHDOG=1"}
