"""One maintenance of a storage at a time, so that none does the work of another, and their log has one writer."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headrace.errors import PipelineError


@contextmanager
def maintenance_lock(file: Path) -> Iterator[None]:
    """Hold the lock of the maintenance of a storage; the system releases it when the process ends.

    Raises:
        PipelineError: MAINTENANCE.RUNNING.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a", encoding="utf-8") as stream:
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise PipelineError("MAINTENANCE.RUNNING", file=file) from error
        yield
