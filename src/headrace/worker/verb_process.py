"""A verb in a process that the worker forks: it takes over what the verb's caller has, and then is like any other."""

from __future__ import annotations

import atexit
import io
import os
import random
import shutil
import signal
import socket
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TextIO

from headrace.worker.frames import close_all, send
from headrace.worker.lending import Lender, lend_to_this_process

_STREAMS = ("stdin", "stdout", "stderr")
# The signals that a caller passes on before anything else.
FOR_VERBS = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP})
# Standard input, output and error, and the working directory.
FILES = len(_STREAMS) + 1


@dataclass(frozen=True)
class VerbRequest:
    """A verb that a caller wants to be run, with the caller's open files."""

    words: tuple[str, ...]
    environ: Mapping[str, str] = field(repr=False)
    module_path: tuple[str, ...]
    umask: int
    ignored: tuple[int, ...]
    program: str
    files: tuple[int, ...]

    @staticmethod
    def of(message: Mapping[str, Any], files: list[int]) -> VerbRequest:
        """The request of a message.

        Raises:
            KeyError, TypeError, ValueError: it is no request.
        """
        if len(files) != FILES:
            raise ValueError("files")
        environ = {str(name): str(value) for name, value in dict(message["environ"]).items()}
        ignored = tuple(int(number) for number in message["ignored"])
        words, path = tuple(map(str, message["words"])), tuple(map(str, message["module_path"]))
        return VerbRequest(words, environ, path, int(message["umask"]), ignored, str(message["program"]), tuple(files))


@dataclass(frozen=True)
class VerbProcess:
    """What a process has right after it was forked for a verb."""

    request: VerbRequest
    lender: Lender
    # To the caller of the verb; None if nobody waits for it.
    connection: socket.socket | None

    def enter(self) -> None:
        """Take over what the caller has."""
        os.setsid()
        request = self.request
        os.fchdir(request.files[-1])
        for number, file in enumerate(request.files[:-1]):
            os.dup2(file, number)
        close_all(request.files)
        _reopen_streams()
        os.umask(request.umask)
        os.environ.clear()
        os.environ.update(request.environ)
        time.tzset()
        sys.argv[:] = [request.program, *request.words]
        sys.path[:] = request.module_path
        _seed()
        # The folders of the worker outlive the verb.
        atexit.unregister(shutil.rmtree)
        lend_to_this_process(self.lender)
        _receive_signals(request.ignored)

    def report(self, code: int) -> None:
        """Send the exit code to the caller, who may not have a worker any more that does."""
        self.lender.ending()
        if self.connection is not None:
            with suppress(OSError):
                send(self.connection, {"ended": code})


def _receive_signals(ignored: Sequence[int]) -> None:
    """Let signals arrive, which were held back since the fork; the command line installs its own handlers first."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    for interrupting in (signal.SIGINT, signal.SIGTERM):
        signal.signal(interrupting, signal.default_int_handler)
    for number in ignored:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FOR_VERBS)


def _reopen_streams() -> None:
    """Make new streams over the files 0 to 2: whether they are terminals decides how they write."""
    for number, name in enumerate(_STREAMS):
        before: TextIO = getattr(sys, f"__{name}__")
        raw = os.fdopen(number, "rb" if name == "stdin" else "wb", closefd=False)
        stream = io.TextIOWrapper(
            raw,
            encoding=before.encoding,
            errors=before.errors,
            line_buffering=name == "stderr" or raw.isatty(),
            write_through="PYTHONUNBUFFERED" in os.environ,
        )
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def _seed() -> None:
    """Random numbers differ from one process to the next."""
    random.seed()
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed()
