"""The holder of the lease in its file, and the processes that it names."""

from __future__ import annotations

import json
import os
import pwd
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.connectors.java import is_spark, keeper_of, was_started_by
from headrace.model.liveness import Liveness
from headrace.model.outcome import Outcome, UpdateState
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import StoragePath

RENEW_EVERY_S = 5.0
EXPIRES_AFTER_S = 30.0
# Greater than any process id, and any time of a clock.
_LIMIT = 1 << 32


def _psutil() -> Any:
    """Imported when a process is looked at, which `status` need not do after the lease was released."""
    import psutil  # noqa: PLC0415 - see above

    return psutil


@dataclass(frozen=True)
class LeaseTiming:
    """How often a holder renews the lease, and after what time without renewal it expires.

    All updates of a pipeline must use the same timing, or one takes a lease that another still holds.
    """

    renew_every_s: float = RENEW_EVERY_S
    expires_after_s: float = EXPIRES_AFTER_S


DEFAULT_TIMING = LeaseTiming()


@dataclass(frozen=True)
class Process:
    """A process; its start time distinguishes it from a later one with the same id."""

    pid: int
    started_at: float

    @staticmethod
    def of(pid: int) -> Process | None:
        """The process with an id, or None."""
        psutil = _psutil()
        try:
            return Process(pid, psutil.Process(pid).create_time())
        except psutil.Error:
            return None

    @property
    def is_alive(self) -> bool:
        """True while this same process runs; False for a zombie."""
        psutil = _psutil()
        try:
            found = psutil.Process(self.pid)
            same = abs(found.create_time() - self.started_at) < 1.0
            return bool(same and found.status() != psutil.STATUS_ZOMBIE)
        except psutil.Error:
            return False

    def stop_jvm(self, parent: Process, timeout_s: float) -> None:
        """Wait for the JVM of a dead process to exit by itself, then kill it.

        A file may name any process. Only a JVM of this user that was started by *parent* is killed, or one that a
        worker has kept that is dead. In a copy of a storage, the file names an update that runs on the original: its
        process lives, and so must its JVM.
        """
        deadline = time.monotonic() + timeout_s
        while self._is_spark() and time.monotonic() < deadline:
            time.sleep(0.05)
        # After the wait: a process that was killed just now may take a moment to end.
        if self.is_alive and not parent.is_alive:
            psutil = _psutil()
            with suppress(psutil.Error):
                process = psutil.Process(self.pid)
                is_own = process.uids().real == os.getuid()
                words = process.cmdline()
                keeper = keeper_of(words)
                is_orphan = keeper is not None and not Process(*keeper).is_alive
                if is_own and (is_orphan or was_started_by(words, parent.pid, parent.started_at)):
                    process.kill()
                    process.wait(timeout_s)

    def _is_spark(self) -> bool:
        psutil = _psutil()
        with suppress(psutil.Error):
            return self.is_alive and is_spark(psutil.Process(self.pid).cmdline())
        return False


@dataclass(frozen=True)
class Holder:
    """The content of ``lease.json``.

    ``update_id`` is the update that the holder runs; empty for none, and None if an older version wrote the file.
    """

    number: int
    host: str
    python: Process
    jvm: Process | None
    held_since: float
    renewed_at: float
    released: bool = False
    update_id: str | None = None


def read_holder(file: StoragePath) -> Holder | None:
    """The current or last holder of the lease; None if there was none, or the file is invalid.

    Raises:
        OSError: the file exists and cannot be read.
    """
    try:
        return holder_of(file.read_bytes())
    except FileNotFoundError:
        return None


def holder_of(content: bytes) -> Holder | None:
    """The holder that the content of the file names; None if it is invalid."""
    try:
        return _holder(json.loads(content))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _holder(document: Any) -> Holder:
    """Parse a holder; raises ValueError, KeyError or TypeError if it is invalid."""
    number, host, released = document["number"], document["host"], document.get("released", False)
    if not (_is_whole(number) and isinstance(host, str) and isinstance(released, bool)):
        raise TypeError
    jvm = _process(document["jvm"]) if document["jvm"] is not None else None
    held_since, renewed_at = _moment(document["held_since"]), _moment(document["renewed_at"])
    update_id = document.get("update_id")
    if not isinstance(update_id, str | None):
        raise TypeError
    return Holder(number, host, _process(document["python"]), jvm, held_since, renewed_at, released, update_id)


def _process(document: Any) -> Process:
    if not _is_whole(document["pid"]):
        raise TypeError
    return Process(document["pid"], _moment(document["started_at"]))


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _LIMIT


def _moment(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < _LIMIT:
        raise TypeError
    return float(value)


def host_name(environ: Mapping[str, str]) -> str:
    """This machine's name; ``HEADRACE_HOST`` distinguishes machines with the same name, such as containers."""
    return environ.get("HEADRACE_HOST") or socket.gethostname()


def user_name(environ: Mapping[str, str]) -> str | None:
    """The name of this process's user; None if the system has no name for it, as in some containers."""
    with suppress(KeyError):
        return pwd.getpwuid(os.getuid()).pw_name
    return environ.get("USER") or None


def _is_alive(
    holder: Holder | None, file: StoragePath, host: str, now: Callable[[], float], timing: LeaseTiming
) -> bool:
    if holder is None or holder.released:
        return False
    if holder.host == host:
        return holder.python.is_alive
    if isinstance(file, ObjectPath):
        # By the store's own clock; the holder's may differ.
        age = file.store.age_s(file.key)
        return age is None or age < timing.expires_after_s
    return was_renewed_recently(file, holder, now, timing)


def latest_outcome(
    read: Callable[[], Outcome | None], file: StoragePath, host: str, now: Callable[[], float]
) -> Outcome | None:
    """The outcome of the latest update, with LOST instead of RUNNING if nobody runs it.

    Args:
        read: the outcome by the event log.
        file: of the lease.
        host: this machine's name.
        now: the time of day in seconds.
    """
    outcome = read()
    while outcome is not None and outcome.state is UpdateState.RUNNING:
        if liveness(file, host, now).may_run(outcome.update_id):
            break
        # It may have ended before the lease was checked, and another one may have begun.
        newest = read()
        if newest is None or (newest.update_id, newest.state) == (outcome.update_id, outcome.state):
            return outcome.as_lost()
        outcome = newest
    return outcome


def liveness(
    file: StoragePath,
    host: str,
    now: Callable[[], float],
    *,
    checked_after: str | None = None,
    timing: LeaseTiming = DEFAULT_TIMING,
) -> Liveness:
    """Who holds the lease, for readers of the event log.

    Args:
        file: of the lease.
        host: this machine's name.
        now: the time of day in seconds.
        checked_after: the id of the newest event that was read before this call; see :class:`Liveness`.
        timing: of the pipeline's leases.
    """
    try:
        holder = read_holder(file)
        held = _is_alive(holder, file, host, now, timing)
    except OSError:
        return Liveness(is_held=True, checked_after=checked_after)
    return Liveness(held, holder.update_id if held and holder is not None else None, checked_after)


def was_renewed_recently(file: Path, holder: Holder, now: Callable[[], float], timing: LeaseTiming) -> bool:
    """Whether a holder on another host renewed the lease recently, or renews it now if its clock is ahead of ours."""
    age_s = now() - holder.renewed_at
    if age_s >= -timing.expires_after_s:
        return age_s < timing.expires_after_s
    # The age of the renewal is unknown: wait to see whether the holder renews the file.
    deadline = time.monotonic() + timing.expires_after_s
    while time.monotonic() < deadline:
        if read_holder(file) != holder:
            return True
        time.sleep(min(timing.renew_every_s / 10, 0.5))
    return False
