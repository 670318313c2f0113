"""Messages and open files between two processes; whatever else arrives is an error."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator

import pytest

from headrace.worker.frames import BadFrame, receive, send


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    one, other = socket.socketpair()
    with one, other:
        other.settimeout(2.0)
        yield one, other


def test_a_message_and_its_files_arrive(ends) -> None:
    reading, writing = os.pipe()

    send(ends[0], {"words": ["läuft", "\udcff"], "none": None}, [writing])
    message, files = receive(ends[1])

    assert message == {"words": ["läuft", "\udcff"], "none": None}
    os.close(writing)
    os.write(files[0], b"through")
    assert os.read(reading, 100) == b"through"
    assert not os.get_inheritable(files[0])
    os.close(files[0])
    os.close(reading)


def test_the_end_of_a_connection_is_no_message(ends) -> None:
    ends[0].close()

    assert receive(ends[1]) == (None, [])


def test_a_torn_message_is_no_message(ends) -> None:
    ends[0].sendall(b"\0\0\0\x10{")
    ends[0].close()

    assert receive(ends[1])[0] is None


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", b"\0\0\0\x02[]", b"\0\0\0\x02{{"])
def test_anything_else_is_refused(ends, sent: bytes) -> None:
    ends[0].sendall(sent)

    with pytest.raises(BadFrame):
        receive(ends[1])
