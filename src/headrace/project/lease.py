"""One update at a time: a lock on ``lease.json`` that the operating system takes back when its holder dies."""

from __future__ import annotations

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from headrace.errors import PipelineError


@contextmanager
def held(file: Path, now: datetime) -> Iterator[None]:
    """Hold the pipeline's lease while the block runs.

    Raises:
        PipelineError: LEASE.HELD, with who holds it, when another update runs.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise _held_by(file) from error
        holder = {"host": socket.gethostname(), "pid": os.getpid(), "started_at": now.isoformat()}
        stream.seek(0)
        stream.truncate()
        json.dump(holder, stream)
        stream.flush()
        yield


def _held_by(file: Path) -> PipelineError:
    try:
        holder = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, json.JSONDecodeError):
        holder = {}
    return PipelineError(
        "LEASE.HELD",
        host=holder.get("host", "this machine"),
        pid=holder.get("pid", "?"),
        started_at=holder.get("started_at", "?"),
    )
