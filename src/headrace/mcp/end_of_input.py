"""Ends the server when its process gets SIGTERM, as the end of its input does: calls are cancelled, verbs stopped.

The package mcp reads stdin in a thread, and waits for it at the end. Without this, the process would stay until its
client closes stdin.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_CHUNK_BYTES = 65_536
_STDIN = 0


@contextmanager
def ends_with_sigterm() -> Iterator[threading.Event]:
    """Put a socket in the place of stdin, which ends with stdin or with SIGTERM; the event is set by the signal."""
    got_signal = threading.Event()
    original = os.dup(_STDIN)
    feed, read = socket.socketpair()
    os.dup2(read.fileno(), _STDIN)
    read.close()

    def relay() -> None:
        with suppress(OSError):
            while chunk := os.read(original, _CHUNK_BYTES):
                feed.sendall(chunk)
        _end(feed)

    def on_signal(_number: int, _frame: FrameType | None) -> None:
        got_signal.set()
        _end(feed)

    threading.Thread(target=relay, daemon=True).start()
    before = signal.signal(signal.SIGTERM, on_signal)
    try:
        yield got_signal
    finally:
        signal.signal(signal.SIGTERM, before)
        os.dup2(original, _STDIN)


def _end(feed: socket.socket) -> None:
    with suppress(OSError):
        feed.shutdown(socket.SHUT_WR)
