"""Who holds the lease, as its file says it, and the processes that it names."""

from __future__ import annotations

import json
import os
import socket
import time
import uuid
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from headrace.connectors.java import is_spark, was_started_by
from headrace.model.outcome import Outcome, UpdateState

RENEW_EVERY_S = 5.0
EXPIRES_AFTER_S = 30.0
# No process has such an id, and no clock such a time.
_TOO_MUCH = 1 << 32


@dataclass(frozen=True)
class LeaseTerms:
    """How often a holder says that it lives, and how long it is believed to without saying so.

    All updates of a pipeline have the same terms, or one takes from the other what it still holds.
    """

    renew_every_s: float = RENEW_EVERY_S
    expires_after_s: float = EXPIRES_AFTER_S


USUAL_TERMS = LeaseTerms()


@dataclass(frozen=True)
class Process:
    """A process, told apart from a later one with the same id by when it started."""

    pid: int
    started_at: float

    @staticmethod
    def of(pid: int) -> Process | None:
        """The process with an id, or None when there is none."""
        try:
            return Process(pid, psutil.Process(pid).create_time())
        except psutil.Error:
            return None

    @property
    def lives(self) -> bool:
        """True while the very same process runs (a zombie does not)."""
        try:
            found = psutil.Process(self.pid)
            same = abs(found.create_time() - self.started_at) < 1.0
            return same and found.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def end_spark(self, starter: Process, patience_s: float) -> None:
        """Wait for the JVM of a process that died to end by itself, then end it.

        A file may name any process. One that is no JVM is left alone, and one is ended only if it is this user's and
        says that *starter* has started it.
        """
        deadline = time.monotonic() + patience_s
        while self._is_spark() and time.monotonic() < deadline:
            time.sleep(0.05)
        if self.lives:
            with suppress(psutil.Error):
                process = psutil.Process(self.pid)
                mine = process.uids().real == os.getuid()
                if mine and was_started_by(process.cmdline(), starter.pid, starter.started_at):
                    process.kill()
                    process.wait(patience_s)

    def _is_spark(self) -> bool:
        with suppress(psutil.Error):
            return self.lives and is_spark(psutil.Process(self.pid).cmdline())
        return False


@dataclass(frozen=True)
class Holder:
    """What ``lease.json`` says."""

    number: int
    host: str
    python: Process
    jvm: Process | None
    held_since: float
    renewed_at: float
    released: bool = False


def read_holder(file: Path) -> Holder | None:
    """Who holds or held the lease, or None when nobody ever did, or when the file says nothing that makes sense.

    Raises:
        OSError: the file is there and cannot be read.
    """
    try:
        return _holder(json.loads(file.read_bytes()))
    except (FileNotFoundError, ValueError, KeyError, TypeError, RecursionError):
        return None


def _holder(said: Any) -> Holder:
    """Raises ValueError, KeyError or TypeError when it is none."""
    number, host, released = said["number"], said["host"], said.get("released", False)
    if not (_whole(number) and isinstance(host, str) and isinstance(released, bool)):
        raise TypeError
    jvm = _process(said["jvm"]) if said["jvm"] is not None else None
    held_since, renewed_at = _moment(said["held_since"]), _moment(said["renewed_at"])
    return Holder(number, host, _process(said["python"]), jvm, held_since, renewed_at, released)


def _process(said: Any) -> Process:
    if not _whole(said["pid"]):
        raise TypeError
    return Process(said["pid"], _moment(said["started_at"]))


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _TOO_MUCH


def _moment(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _TOO_MUCH:
        raise TypeError
    return float(value)


def host_name(environ: Mapping[str, str]) -> str:
    """This machine's name; ``HEADRACE_HOST`` tells machines apart that have the same one, such as containers."""
    return environ.get("HEADRACE_HOST") or socket.gethostname()


def is_held(file: Path, host: str, now: Callable[[], float], terms: LeaseTerms | None = None) -> bool:
    """Whether the holder of a lease lives: by its process on this host, by when it was seen last on another one.

    Raises:
        OSError: the file cannot be read.
    """
    holder = read_holder(file)
    if holder is None or holder.released:
        return False
    return holder.python.lives if holder.host == host else is_seen(file, holder, now, terms or USUAL_TERMS)


def as_it_stands(outcome: Outcome | None, file: Path, host: str, now: Callable[[], float]) -> Outcome | None:
    """What the event log says of the latest update, and LOST instead of RUNNING when nobody holds its lease."""
    if outcome is None or outcome.state is not UpdateState.RUNNING:
        return outcome
    try:
        return outcome if is_held(file, host, now) else outcome.lost()
    except OSError:
        # Who holds it cannot be told.
        return outcome


def is_seen(file: Path, holder: Holder, now: Callable[[], float], terms: LeaseTerms) -> bool:
    """Whether a holder on another host has been seen lately, or is seen now if its clock is ahead of ours."""
    age_s = now() - holder.renewed_at
    if age_s >= -terms.expires_after_s:
        return age_s < terms.expires_after_s
    # How long ago that was cannot be told: a holder that lives renews the file while we look.
    deadline = time.monotonic() + terms.expires_after_s
    while time.monotonic() < deadline:
        if read_holder(file) != holder:
            return True
        time.sleep(min(terms.renew_every_s / 10, 0.5))
    return False


def write_holder(file: Path, holder: Holder) -> None:
    """Replace the file in one step.

    Raises:
        OSError: it cannot be replaced.
    """
    # Processes of several hosts may have the same id.
    draft = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
    try:
        with draft.open("w", encoding="utf-8") as stream:
            json.dump(asdict(holder), stream, indent=1)
            stream.flush()
            os.fsync(stream.fileno())
        draft.replace(file)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
