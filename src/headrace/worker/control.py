"""Starts, stops and asks about the worker of a project."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.errors import PipelineError
from headrace.worker.frames import receive, send
from headrace.worker.place import UnsafePlace, WorkerPlace, worker_place

DEFAULT_IDLE_MINUTES = 15.0
_ANSWER_TIMEOUT_S = 10.0
_POLL_S = 0.02


@dataclass(frozen=True)
class WorkerStatus:
    """What a worker that runs says about itself."""

    pid: int
    state: str
    verb_pid: int | None
    started_at: float | None
    waiting: int
    verbs: int
    jvm_pid: int | None
    ends_after_idle_s: float

    @property
    def is_ready(self) -> bool:
        """Whether it takes verbs, and has nothing to prepare first."""
        return self.state not in ("warming up", "stopping")


class WorkerControl:
    """The worker of the project in a folder."""

    def __init__(self, root: Path, environ: Mapping[str, str]) -> None:
        self._root = root
        self._environ = environ

    def status(self) -> WorkerStatus | None:
        """What the worker says about itself; None if no worker runs.

        Raises:
            PipelineError: WORKER.UNSAFE if other users could pretend to be the worker.
        """
        answer = self._ask({"ask": "status"})
        return WorkerStatus(**answer) if answer else None

    def command(self, idle_s: float, owner: int | None = None) -> list[str]:
        """The command of the worker's process; with an *owner*, its parent, it ends with that process.

        Raises:
            PipelineError: WORKER.UNSAFE if other users could pretend to be the worker.
        """
        self._place()
        return [
            *(sys.executable, "-m", "headrace.worker", str(self._root), str(idle_s)),
            *([] if owner is None else [str(owner)]),
        ]

    def spawn(self, idle_s: float, owner: int) -> subprocess.Popen[bytes]:
        """Start the worker in the background, and do not wait for it; it ends with *owner*, its parent.

        Raises:
            PipelineError: WORKER.UNSAFE.
            OSError: it cannot be started.
        """
        return self._popen(self.command(idle_s, owner), self._place().log)

    def last_words(self) -> str:
        """The last line that the worker has printed; empty without one."""
        return _last_line(worker_place(self._root, self._environ).log)

    def start(self, idle_s: float, timeout_s: float) -> WorkerStatus:
        """Start the worker in the background, and wait until it is warm; does nothing if it runs.

        Raises:
            PipelineError: WORKER.UNSAFE; WORKER.NOT_STARTED if it ended or took too long.
        """
        command, place = self.command(idle_s), self._place()
        deadline = time.monotonic() + timeout_s
        process: subprocess.Popen[bytes] | None = None
        while True:
            found = self.status()
            if found is not None and found.is_ready:
                return found
            if found is None and process is None:
                process = self._popen(command, place.log)
            # Another one may have been started at the same time, and be the one.
            is_dead = found is None and process is not None and process.poll() is not None
            if is_dead or time.monotonic() > deadline:
                raise PipelineError("WORKER.NOT_STARTED", reason=_last_line(place.log), log=place.log)
            time.sleep(_POLL_S)

    def stop(self, *, now: bool = False) -> bool:
        """Stop the worker, and wait for its end; with *now* the running verb is stopped, too. False if none runs.

        Raises:
            PipelineError: WORKER.UNSAFE.
        """
        return self._ask({"ask": "stop", "now": now}, waits=True) is not None

    def ask_to_stop(self) -> None:
        """Let the worker stop after the verbs that it has; does not wait for that.

        Raises:
            PipelineError: WORKER.UNSAFE.
        """
        connection = self._connected(_ANSWER_TIMEOUT_S)
        if connection is not None:
            with connection, suppress(OSError):
                send(connection, {"ask": "stop", "now": False})

    def _popen(self, command: list[str], log: Path) -> subprocess.Popen[bytes]:
        with log.open("wb") as output:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env=dict(self._environ),
                cwd=self._root,
            )

    def _ask(self, message: Mapping[str, Any], *, waits: bool = False) -> dict[str, Any] | None:
        """What the worker answers, or, if the answer is the end of the connection, an empty message."""
        connection = self._connected(None if waits else _ANSWER_TIMEOUT_S)
        if connection is None:
            return None
        with connection:
            try:
                send(connection, message)
                return receive(connection)[0] or {}
            except OSError:
                return {} if waits else None

    def _connected(self, timeout_s: float | None) -> socket.socket | None:
        try:
            return worker_place(self._root, self._environ).connect(timeout_s)
        except UnsafePlace as unsafe:
            raise PipelineError("WORKER.UNSAFE", reason=str(unsafe)) from None

    def _place(self) -> WorkerPlace:
        place = worker_place(self._root, self._environ)
        try:
            place.make()
        except UnsafePlace as unsafe:
            raise PipelineError("WORKER.UNSAFE", reason=str(unsafe)) from None
        except OSError as error:
            raise PipelineError("WORKER.UNSAFE", reason=f"{place.folder}: {error.strerror}") from None
        return place


def worker_control(root: Path) -> WorkerControl:
    """The worker of the project in a folder, for the environment of this process."""
    return WorkerControl(root, os.environ)


def _last_line(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
