"""Messages between verbs and the worker: JSON objects with their length in front, and open files beside them."""

from __future__ import annotations

import json
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any

_LENGTH = struct.Struct("!I")
# The environment and the words of a command line have at most 2 MiB on Linux.
_LARGEST = 16 * 1024 * 1024
_MOST_FILES = 16


class BadFrame(OSError):
    """The other end sent something else than a message."""


def send(connection: socket.socket, message: Mapping[str, Any], files: Sequence[int] = ()) -> None:
    """Send a message, and open files with it.

    Raises:
        OSError: the other end is gone.
    """
    body = json.dumps(message).encode("ascii")
    head = _LENGTH.pack(len(body))
    if files:
        socket.send_fds(connection, [head], list(files))
    else:
        connection.sendall(head)
    connection.sendall(body)


def receive(connection: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """The next message, and the files that came with it; None after the last one.

    Raises:
        OSError: the connection broke, or what came is no message.
    """
    files: list[int] = []
    try:
        head = _received(connection, _LENGTH.size, files)
        if head is None:
            return None, files
        (length,) = _LENGTH.unpack(head)
        if length > _LARGEST:
            raise BadFrame("too long")
        body = _received(connection, length, files)
        message = None if body is None else json.loads(body)
    except ValueError:
        close_all(files)
        raise BadFrame("not JSON") from None
    except OSError:
        close_all(files)
        raise
    if not isinstance(message, dict | None):
        close_all(files)
        raise BadFrame("not an object")
    return message, files


def close_all(files: Sequence[int]) -> None:
    """Close open files."""
    for file in files:
        os.close(file)


def _received(connection: socket.socket, size: int, files: list[int]) -> bytes | None:
    """Exactly *size* bytes, None at the end of the connection; files that come with them are added."""
    data = bytearray()
    while len(data) < size:
        piece, came, _flags, _address = socket.recv_fds(connection, size - len(data), _MOST_FILES)
        for file in came:
            os.set_inheritable(file, False)  # noqa: FBT003 - Python's
        files.extend(came)
        if not piece:
            return None
        data += piece
    return bytes(data)
