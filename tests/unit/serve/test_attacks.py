"""Real clients that are slow, many, large or rude: the server answers everybody else meanwhile, and forgets them."""

from __future__ import annotations

import http.client
import json
import logging
import select
import socket
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest
import uvicorn
from tests.unit.project.test_requests import until
from tests.unit.serve.test_server import free_port

from headrace.events.types import UpdateStateChanged
from headrace.model.outcome import UpdateState
from headrace.serve.addresses import addresses
from headrace.serve.app import Server, create_app
from headrace.serve.connections import TimedConnection
from headrace.serve.pipelines import served_pipelines
from headrace.serve.roles import Role
from headrace.serve.server import server_config
from headrace.serve.tokens import TokenFile

pytestmark = pytest.mark.long(
    guard=[
        "tests/unit/serve/test_security.py::test_bodies_that_are_large_or_do_not_arrive_are_given_up",
        "tests/unit/serve/test_live_events.py::test_all_browsers_get_new_events_in_order_from_one_reader",
    ]
)
CLIENTS = 100
P = "/api/v1/pipelines/shop"


class Impatient(TimedConnection):
    """As in service, in less time."""

    head_s = 1.0
    read_s = 1.0


class Running:
    """The server in a thread of this process."""

    def __init__(self, shop, folder):
        self.port = free_port()
        self.tokens = TokenFile(folder / "serve.json")
        self.token = self.tokens.add("ann", Role.OPERATOR, time.time())
        pipelines = served_pipelines([shop.root], None, {"HEADRACE_HOST": "here"}, time.time, time.monotonic)
        reached = addresses(f"127.0.0.1:{self.port}")
        self.server: uvicorn.Server
        application = create_app(
            Server(
                reached,
                pipelines,
                self.tokens.read,
                time.time,
                time.monotonic,
                lambda: self.server.should_exit,
                body_s=1.0,
            )
        )
        self.server = uvicorn.Server(server_config(application, reached, Impatient))
        # Signals belong to the test.
        self.server.capture_signals = ExitStack
        self.thread = threading.Thread(target=self.server.run, daemon=True)

    def __enter__(self):
        self.thread.start()
        until(lambda: self.server.started)
        return self

    def __exit__(self, *_):
        self.server.should_exit = True
        self.thread.join(60)
        assert not self.thread.is_alive()

    def open(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=30)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection

    def head(self, path, method="GET", **headers):
        named = {"host": f"127.0.0.1:{self.port}", "authorization": f"Bearer {self.token}", **headers}
        lines = [f"{name.replace('_', '-')}: {value}" for name, value in named.items()]
        return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode()

    def answers(self):
        """Whether a client that does nothing wrong is answered, and how fast."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", "/api/v1/me", headers={"Authorization": f"Bearer {self.token}"})
        answer = connection.getresponse()
        found = json.loads(answer.read())["name"]
        connection.close()
        return (answer.status, found)

    @property
    def connections(self):
        return len(self.server.server_state.connections)


@contextmanager
def closing(sockets):
    try:
        yield sockets
    finally:
        for one in sockets:
            one.close()


def status_of(connection):
    found = connection.recv(65_536)
    return int(found.split(b" ", 2)[1]) if found else 0


def ended(connection):
    """True once the server has closed a connection, with an answer or without."""
    try:
        while connection.recv(65_536):
            pass
    except ConnectionError:
        pass
    return True


def message_in(file):
    """The message of the next event."""
    line = next(line for line in file if line.startswith(b"data: "))
    return json.loads(line.removeprefix(b"data: "))["message"]


@pytest.fixture
def running(busy_shop, tmp_path):
    with Running(busy_shop, tmp_path) as server:
        yield server


def test_clients_that_do_not_finish_their_request_are_closed(running):
    silent = [running.open() for _ in range(CLIENTS)]
    slow_heads, slow_bodies = [running.open() for _ in range(CLIENTS)], [running.open() for _ in range(CLIENTS)]
    with closing([*silent, *slow_heads, *slow_bodies]):
        for one in slow_heads:
            one.sendall(b"GET /api/v1/me HTTP/1.1\r\nhost: ")
        for one in slow_bodies:
            one.sendall(running.head(f"{P}/updates", "POST", content_type="application/json", content_length=100))
            one.sendall(b'{"refresh": [')
        assert running.answers() == (200, "ann")

        assert {status_of(one) for one in slow_bodies} == {408}
        assert all(ended(one) for one in (*silent, *slow_heads, *slow_bodies))

    until(lambda: running.connections == 0)
    assert running.answers() == (200, "ann")


def test_bodies_without_end_are_cut(running):
    chunked = running.head(f"{P}/updates", "POST", content_type="application/json", transfer_encoding="chunked")
    announced = running.head(f"{P}/updates", "POST", content_type="application/json", content_length=1 << 40)
    with closing([running.open(), running.open()]) as (first, second):
        first.sendall(chunked)
        sent = 0
        try:
            while sent < 64 << 20:
                first.sendall(b"10000\r\n" + b" " * 0x10000 + b"\r\n")
                sent += 0x10000
        except ConnectionError:
            pass
        second.sendall(announced)

        assert status_of(second) == 413
        # It is not read to its end.
        assert sent < 32 << 20
    assert running.answers() == (200, "ann")


def test_a_body_that_goes_on_after_the_answer_does_not_hold_its_connection(running):
    with closing([running.open()]) as (one,):
        one.sendall(running.head("/healthz", "GET", transfer_encoding="chunked"))
        assert status_of(one) == 200

        def is_closed():
            try:
                one.sendall(b"1\r\n \r\n")
            except ConnectionError:
                return True
            return False

        until(is_closed)
    until(lambda: running.connections == 0)


def test_clients_that_do_not_read_are_closed(running):
    with closing([running.open() for _ in range(20)]) as rude:
        for one in rude:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            # More answers than all buffers hold.
            one.sendall(running.head("/api/v1/openapi.json") * 60)
        until(lambda: running.connections == len(rude))
        until(lambda: running.connections == 0)
    assert running.answers() == (200, "ann")


def test_a_hundred_clients_get_the_events_while_others_are_answered(running, busy_shop):
    with closing([running.open() for _ in range(CLIENTS)]) as listening:
        for one in listening:
            one.sendall(running.head(f"{P}/events", accept="text/event-stream"))
        files = [one.makefile("rb") for one in listening]
        for file in files:
            next(line for line in file if line.startswith(b": events"))
        assert running.answers() == (200, "ann")
        # From its first look at the log on, the one reader has something for all of them.
        for number in range(30):
            busy_shop.update(f"c{number}", UpdateStateChanged(UpdateState.COMPLETED))
            if select.select([listening[0]], [], [], 2)[0]:
                break
        with closing(files):
            found = {message_in(file) for file in files}

    assert found == {"update created by USER_ACTION of ann"}
    until(lambda: running.connections == 0)


def test_what_is_no_http_is_refused_and_the_token_is_in_no_log(running, caplog):
    caplog.set_level(logging.DEBUG)
    garbage = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64,
        b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"x: " + b"y" * 70_000 + b"\r\n\r\n",
        running.head(f"/login?token={running.token}%00"),
        running.head(f"{P}/updates", "POST", content_type="application/json", content_length=2) + b"{}",
        b"POST /api/v1/pipelines/shop/updates HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n",
        running.head("/%2e%2e/%2e%2e/etc/passwd"),
        running.head("/api/v1/me", upgrade="websocket", connection="Upgrade"),
    ]
    with closing([running.open() for _ in garbage]) as sockets:
        for one, content in zip(sockets, garbage, strict=True):
            one.sendall(content)
        statuses = [status_of(one) for one in sockets]

    assert all(status == 200 or 300 <= status < 600 for status in statuses), statuses
    assert statuses[:3] == [400, 400, 400]
    assert running.answers() == (200, "ann")
    assert running.token not in caplog.text
