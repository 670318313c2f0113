"""One update at a time: the lease on a pipeline's storage (D11).

On one host the lease is a lock of the operating system, which falls back when its holder dies; what may still live of a
dead holder, its JVM, is waited for and then ended. Between hosts that share the storage it is a file that its holder
renews; a holder that was not seen for a while has lost it. In both cases the number in the file only grows: whoever
holds a lower one has been taken over, and must not commit any more.
"""

from __future__ import annotations

import fcntl
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING

from headrace.errors import PipelineError
from headrace.project.lease_holders import Holder, LeaseTerms, Process, is_seen, read_holder, write_holder
from headrace.settings.storage import NO_ROOM

if TYPE_CHECKING:
    from typing import Self

# How long the JVM of a holder that died may take to notice; about 2 s were seen.
ORPHAN_PATIENCE_S = 5.0


class Lease:
    """The lease of one update. Enter it to take it; leave it to give it back.

    Args:
        file: ``lease.json``; a lock file lies beside it.
        host: this machine's name.
        now: the time of day in seconds.
        orphan_patience_s: how long the JVM of a holder that died may take to notice.
        terms: how often to renew, and when a holder on another host has lost it.
    """

    def __init__(
        self,
        file: Path,
        host: str,
        now: Callable[[], float],
        *,
        orphan_patience_s: float = ORPHAN_PATIENCE_S,
        terms: LeaseTerms | None = None,
    ) -> None:
        self._file = file
        self._host = host
        self._now = now
        self._terms = terms or LeaseTerms()
        self._orphan_patience_s = orphan_patience_s
        self._on_lost: Callable[[], None] | None = None
        self._lock: IO[str] | None = None
        self._mine: Holder | None = None
        self._writing = threading.Lock()
        self._ended = threading.Event()
        self._lost = threading.Event()
        self._renewer = threading.Thread(target=self._renew_often, name="headrace-lease", daemon=True)

    def __enter__(self) -> Self:
        """Take the lease.

        Raises:
            PipelineError: LEASE.HELD, which names the holder; LEASE.UNUSABLE when the file cannot be read or replaced.
        """
        self._file.parent.mkdir(parents=True, exist_ok=True)
        try:
            return self._taken()
        except BaseException as error:
            if self._lock is not None:
                self._lock.close()
            if isinstance(error, OSError) and error.errno not in NO_ROOM:
                raise self._unusable(error) from error
            raise

    def _taken(self) -> Self:
        before = self._expired()
        elsewhere = before is not None and before.host != self._host and not before.released
        self._lock = self._locked(before, needed=not elsewhere)
        # Whoever had the lock may have given the lease back since.
        before = self._expired()
        python = Process.of(os.getpid())
        assert python is not None  # noqa: S101 - this very process
        if before is not None and before.host == self._host and before.jvm is not None and before.python != python:
            before.jvm.end_spark(before.python, self._orphan_patience_s)
        number = before.number + 1 if before else 1
        moment = self._now()
        self._mine = Holder(number, self._host, python, None, moment, moment)
        write_holder(self._file, self._mine)
        # Another host may have written at the same moment; the last one holds the lease.
        if not self._holds():
            raise held_by(read_holder(self._file))
        self._renewer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Give the lease back, unless it was taken over."""
        self._ended.set()
        self._renewer.join()
        with self._writing:
            # Where it cannot be given back, as on a full disk, the next one sees that its process has ended.
            with suppress(OSError):
                if self._mine is not None and self._holds():
                    write_holder(self._file, replace(self._mine, released=True, jvm=None))
            # Nobody who is late may go on as if it were held.
            self._lost.set()
        if self._lock is not None:
            self._lock.close()

    @property
    def number(self) -> int:
        """How many holders there were, this one included; 0 before the lease is taken."""
        return self._mine.number if self._mine else 0

    def when_lost(self, stop: Callable[[], None]) -> None:
        """Call *stop* once, from another thread, when the lease is taken over or cannot be renewed."""
        self._on_lost = stop

    def names_jvm(self, pid: int) -> None:
        """Record the JVM that works for this update, for whoever has to clean up after a crash.

        Raises:
            PipelineError: LEASE.UNUSABLE.
        """
        try:
            with self._writing:
                if self._mine is not None and self._holds():
                    self._mine = replace(self._mine, jvm=Process.of(pid))
                    write_holder(self._file, self._mine)
        except OSError as error:
            if error.errno in NO_ROOM:
                raise
            raise self._unusable(error) from error

    def check(self) -> None:
        """Return when the lease is still held; called before every commit that is made in Python.

        Raises:
            PipelineError: LEASE.LOST, LEASE.UNUSABLE.
        """
        try:
            held = not self._lost.is_set() and self._holds()
        except OSError as error:
            raise self._unusable(error) from error
        if not held:
            self._lose()
            raise PipelineError("LEASE.LOST", host=self._host, file=self._file)

    def _unusable(self, error: OSError) -> PipelineError:
        return PipelineError("LEASE.UNUSABLE", file=self._file, reason=error.strerror or type(error).__name__)

    def _expired(self) -> Holder | None:
        """Who held the lease before; raises LEASE.HELD while another host's process does."""
        before = read_holder(self._file)
        elsewhere = before is not None and before.host != self._host and not before.released
        if before is not None and elsewhere and is_seen(self._file, before, self._now, self._terms):
            raise held_by(before)
        return before

    def _holds(self) -> bool:
        holder = read_holder(self._file)
        if self._mine is None or holder is None:
            return False
        mine = self._mine
        return (holder.number, holder.host, holder.python) == (mine.number, mine.host, mine.python)

    def _locked(self, before: Holder | None, *, needed: bool) -> IO[str]:
        """The lock of this host; a holder of another host that expired has no say in it."""
        stream = (self._file.parent / f".{self._file.name}.lock").open("a+", encoding="utf-8")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # The holder of another host is gone for good only if nobody on this one was faster to take over.
            newest = read_holder(self._file)
            if needed or newest != before:
                stream.close()
                raise held_by(newest or before) from error
        return stream

    def _renew_often(self) -> None:
        last = time.monotonic()
        while not self._ended.wait(self._terms.renew_every_s):
            try:
                with self._writing:
                    if self._mine is None or not self._holds():
                        break
                    self._mine = replace(self._mine, renewed_at=self._now())
                    write_holder(self._file, self._mine)
                last = time.monotonic()
            except Exception:  # noqa: BLE001 - whatever keeps it from renewing, the update must hear of it
                if time.monotonic() - last > self._terms.expires_after_s:
                    break
        else:
            return
        self._lose()

    def _lose(self) -> None:
        if not self._lost.is_set():
            self._lost.set()
            if self._on_lost is not None:
                self._on_lost()


def held_by(holder: Holder | None) -> PipelineError:
    """The refusal that names the holder."""
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(holder.held_since)) if holder else "?"
    return PipelineError(
        "LEASE.HELD",
        host=holder.host if holder else "this machine",
        pid=holder.python.pid if holder else "?",
        started_at=since,
    )
