"""A lock between processes that is not waited for without limit: its holder may hang."""

from __future__ import annotations

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PATIENCE_S = 5.0
_POLL_S = 0.005


@contextmanager
def locked(file: Path, patience_s: float) -> Iterator[bool]:
    """Whether no other process is inside such a block; False if one still is after *patience_s*.

    Storage whose file system has no locks keeps nobody out.

    Raises:
        OSError: the file cannot be written.
    """
    with file.open("w") as handle:
        yield _is_locked(handle.fileno(), time.monotonic() + patience_s)


def _is_locked(descriptor: int, deadline: float) -> bool:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        except OSError:
            return True
        else:
            return True
