"""The process that a user starts, when the worker runs its verb: hands over what it has, and ends as the verb does.

Imports little: it is most of the time that a warm verb takes.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.worker.frames import receive, send
from headrace.worker.place import UnsafePlace, WorkerPlace, worker_place
from headrace.worker.traits import ignored_signals, traits

WARM_VERBS = frozenset({"validate", "dry-run", "plan", "run", "sql", "preview", "explain"})
_COLD, _WAIT = "--cold", "--wait"
# For callers that have a worker of their own: how many seconds to wait until it listens, and whether a verb that would
# have to wait for another one runs without it.
START_VARIABLE, BUSY_VARIABLE = "HEADRACE_WORKER_START_S", "HEADRACE_WORKER_BUSY"
RUN_COLD = "cold"
_POLL_S = 0.05
_VERBOSE = frozenset({"-v", "--verbose"})
_SETTINGS = ("pipeline.yml", "pipeline.yaml", "pipeline.json", "spark-pipeline.yml", "spark-pipeline.yaml")
# Set by spark-submit, which has started Java already; and options for it that name files.
_OWN_JAVA = ("PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS")
_FORWARDED = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_LOST, _INTERRUPTED = 1, 130


@dataclass(frozen=True)
class Answer:
    """What became of a verb: it ran and ended, or the worker is busy, or the verb runs without it, for a reason."""

    code: int | None = None
    busy: Mapping[str, Any] | None = None
    lost: bool = False
    reason: str = ""


def run_warm(words: Sequence[str], start: Path, environ: Mapping[str, str]) -> Answer:
    """Let the worker of a project run a verb, if there is a worker that can.

    Args:
        words: the command line.
        start: the folder in which the search for the project starts.
        environ: the environment variables.
    """
    root = _root_of(start)
    if root is None or not hasattr(socket, "SO_PEERCRED") or any(name in environ for name in _OWN_JAVA):
        return Answer()
    try:
        connection = _connected(worker_place(root, environ), environ)
    except UnsafePlace as unsafe:
        return Answer(reason=str(unsafe))
    if connection is None:
        return Answer()
    with connection:
        try:
            answer = _run(connection, words, environ)
        except OSError as error:
            return Answer(reason=f"the worker did not answer: {error}")
    if answer.busy is not None and environ.get(BUSY_VARIABLE) == RUN_COLD:
        return Answer(reason="the worker runs another verb")
    return answer


def _connected(place: WorkerPlace, environ: Mapping[str, str]) -> socket.socket | None:
    """A connection to the worker, which may be starting; None if no worker runs.

    Raises:
        UnsafePlace: the worker may be another user's.
    """
    try:
        patience_s = float(environ.get(START_VARIABLE, 0))
    except ValueError:
        patience_s = 0.0
    deadline = time.monotonic() + patience_s
    while (connection := place.connect()) is None and time.monotonic() < deadline:
        time.sleep(_POLL_S)
    return connection


def is_warm_verb(words: Sequence[str]) -> bool:
    """Whether a worker may run a command line, whose first word is the verb."""
    return bool(words) and words[0] in WARM_VERBS and _COLD not in words


def show_reason(answer: Answer, words: Sequence[str]) -> None:
    """With ``--verbose``, say why a verb runs without the worker."""
    if answer.reason and not _VERBOSE.isdisjoint(words):
        sys.stderr.write(f"runs cold: {answer.reason}\n")


def _run(connection: socket.socket, words: Sequence[str], environ: Mapping[str, str]) -> Answer:
    folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY)
    try:
        files = [0, 1, 2, folder]
        send(connection, _request(words, environ), files)
    finally:
        os.close(folder)
    verb = _Verb()
    with verb.signalled():
        # A message before the verb has started says why it does not.
        message, _files = receive(connection)
        if message is None or "started" not in message:
            return _refused(message or {})
        verb.started(int(message["started"]))
        return _end(connection)


def _request(words: Sequence[str], environ: Mapping[str, str]) -> dict[str, Any]:
    umask = os.umask(0o077)
    os.umask(umask)
    return {
        "ask": "verb",
        "words": list(words),
        "wait": _WAIT in words,
        "traits": traits(environ),
        "environ": dict(environ),
        "module_path": list(sys.path),
        "umask": umask,
        "ignored": ignored_signals(),
        "program": sys.argv[0],
    }


def _refused(message: Mapping[str, Any]) -> Answer:
    if message.get("refused") == "busy":
        return Answer(busy=message)
    return Answer(reason=str(message.get("reason", "the worker has ended")))


class _Verb:
    """The process of the verb, which gets the signals that arrive here; before it has started, they end the caller."""

    def __init__(self) -> None:
        self._process: int | None = None
        self._has_started = False

    @contextmanager
    def signalled(self) -> Iterator[None]:
        """Pass signals on inside the block."""
        handlers = {**dict.fromkeys(_FORWARDED, self._forward), signal.SIGTSTP: self._suspend}
        known = [number for number in handlers if signal.getsignal(number) is not signal.SIG_IGN]
        before = {number: signal.signal(number, handlers[number]) for number in known}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def started(self, pid: int) -> None:
        """The verb runs in this process."""
        # It may have ended.
        with suppress(ProcessLookupError):
            self._process = os.pidfd_open(pid)
        self._has_started = True

    def _forward(self, number: int, _frame: object) -> None:
        if not self._has_started:
            raise SystemExit(_INTERRUPTED)
        self._send(number)

    def _suspend(self, _number: int, _frame: object) -> None:
        self._send(signal.SIGSTOP)
        os.kill(os.getpid(), signal.SIGSTOP)
        # Here it goes on.
        self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._process, number)


def _end(connection: socket.socket) -> Answer:
    """Wait for the end of the verb."""
    try:
        message, _files = receive(connection)
    except OSError:
        message = None
    if message is None:
        return Answer(code=_LOST, lost=True)
    if "signal" in message:
        _die_of(int(message["signal"]))
    return Answer(code=int(message["ended"]))


def _die_of(number: int) -> None:
    """End as the verb has ended."""
    with suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    select.select([], [], [], 1.0)


def _root_of(start: Path) -> Path | None:
    """The folder of the nearest settings file; None if the command line must say what is wrong."""
    try:
        start = start.resolve(strict=True)
    except OSError:
        return None
    return next(
        (folder for folder in (start, *start.parents) if any((folder / name).is_file() for name in _SETTINGS)), None
    )
