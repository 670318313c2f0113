"""Runs a verb for somebody who waits for its answer: a child process with a time limit, whose output is read here."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any

from headrace.worker.owned_workers import OwnedWorkers

# What a verb prints beside its answer.
_MOST_NOTICES = 64 * 1024
_POLL_S = 0.02
# How long a verb may take to end when it is asked to.
_STOP_S = 5.0


@dataclass(frozen=True)
class VerbAnswer:
    """How a verb ended.

    Attributes:
        code: the exit code; negative for a signal.
        document: what it printed as JSON; None for nothing.
        notices: the lines that it printed beside it.
        is_late: it was stopped because of the time limit.
        is_canceled: it was stopped because nobody waits any more.
        is_too_long: it was stopped because its answer is too long.
        duration_s: how long it ran.
    """

    code: int
    document: Any = None
    notices: tuple[str, ...] = ()
    is_late: bool = False
    is_canceled: bool = False
    is_too_long: bool = False
    duration_s: float = 0.0

    @property
    def problems(self) -> list[Mapping[str, Any]]:
        """The errors that it printed, as JSON."""
        document = self.document if isinstance(self.document, Mapping) else {}
        found = document.get("problems")
        return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


@dataclass(frozen=True)
class VerbCall:
    """Runs verbs of one project.

    Attributes:
        folder: of the project.
        profile: of the settings; None for the default.
        environ: the environment variables.
        workers: in which verbs run that a warm worker can run; None for a JVM of their own.
        command: the beginning of the command line.
        most_bytes: the longest answer.
    """

    folder: Path
    profile: str | None
    environ: Mapping[str, str]
    workers: OwnedWorkers | None = None
    command: tuple[str, ...] = (sys.executable, "-m", "headrace")
    most_bytes: int = 64 * 1024 * 1024

    def run(
        self,
        words: Sequence[str],
        *,
        text: str = "",
        timeout_s: float | None = None,
        is_canceled: Callable[[], bool] = bool,
    ) -> VerbAnswer:
        """Run a verb, and wait for its end.

        Args:
            words: the verb, its options and its arguments.
            text: what it reads from its standard input.
            timeout_s: it is stopped after so long; None for no limit.
            is_canceled: whether nobody waits for it any more.

        Raises:
            OSError: it was not started.
        """
        started = time.monotonic()
        child = self._start(words)
        out, errors = _Reader(child.stdout, self.most_bytes), _Reader(child.stderr, _MOST_NOTICES)
        # A verb that does not read its input must not keep this thread waiting.
        threading.Thread(target=_write, args=(child.stdin, text), daemon=True).start()
        end = VerbAnswer(0)
        while child.poll() is None:
            if timeout_s is not None and time.monotonic() - started > timeout_s:
                end = replace(end, is_late=True)
            elif is_canceled():
                end = replace(end, is_canceled=True)
            elif out.is_full:
                end = replace(end, is_too_long=True)
            else:
                time.sleep(_POLL_S)
                continue
            _stop(child)
        # A verb in a worker may hold its output for a moment longer than its caller lives.
        found, notices = out.read(_STOP_S), errors.read(_STOP_S)
        lines = tuple(line for line in notices.decode(errors="replace").split("\n") if line.strip())
        duration_s = time.monotonic() - started
        is_whole = not (end.is_late or end.is_canceled or end.is_too_long)
        document = _document(found) if is_whole else None
        return replace(end, code=child.returncode, document=document, notices=lines, duration_s=duration_s)

    def _start(self, words: Sequence[str]) -> subprocess.Popen[bytes]:
        environ: Mapping[str, str] = self.environ
        if self.workers is not None:
            words, environ = self.workers.prepared(self.folder, words)
        options = ["--project", str(self.folder), "--output", "json"]
        options += [] if self.profile is None else ["--profile", self.profile]
        return subprocess.Popen(
            [*self.command, *options, *words],
            cwd=self.folder,
            env=dict(environ),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            # Ctrl-C on a terminal reaches only this process.
            start_new_session=True,
        )


class _Reader:
    """Reads a pipe in a thread, so that the child never waits for it; up to a number of bytes."""

    def __init__(self, pipe: IO[bytes] | None, most_bytes: int) -> None:
        assert pipe is not None  # noqa: S101 - all three are pipes
        self._pipe = pipe
        self._most = most_bytes
        self._found = bytearray()
        self.is_full = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def read(self, timeout_s: float) -> bytes:
        """What came until the end of the pipe, or until the time is over."""
        self._thread.join(timeout_s)
        return bytes(self._found)

    def _run(self) -> None:
        with self._pipe:
            while piece := os.read(self._pipe.fileno(), 1 << 16):
                if len(self._found) + len(piece) > self._most:
                    self.is_full = True
                    continue
                self._found += piece


def _write(pipe: IO[bytes] | None, text: str) -> None:
    assert pipe is not None  # noqa: S101 - all three are pipes
    with suppress(OSError), pipe:
        pipe.write(text.encode())


def _stop(child: subprocess.Popen[bytes]) -> None:
    """Let it clean up, and wait for its end."""
    child.send_signal(signal.SIGTERM)
    try:
        child.wait(_STOP_S)
    except subprocess.TimeoutExpired:
        # A worker kills the verb whose caller is gone.
        child.kill()
        child.wait()


def _document(content: bytes) -> Any:
    with suppress(ValueError, RecursionError):
        return json.loads(content)
    return None
