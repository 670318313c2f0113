"""One update at a time: the lease on a pipeline's storage (D11).

On one host, the lease is a lock of the operating system, which is released when its holder dies; the next holder waits
for the JVM of a dead holder and then kills it. Between hosts that share the storage, it is a file that the holder
renews; a holder that stops renewing loses the lease. In both cases the number in the file is a fencing token that only
grows: a holder with a lower one has been replaced, and must not commit any more.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING

from headrace.errors import PipelineError
from headrace.project.lease_files import LeaseTaken, lease_file
from headrace.project.lease_holders import Holder, LeaseTiming, Process
from headrace.settings.storage import DISK_FULL
from headrace.stores.paths import StoragePath

if TYPE_CHECKING:
    from typing import Self

# How long the JVM of a dead holder may take to exit; about 2 s were observed.
ORPHAN_TIMEOUT_S = 5.0


class Lease:
    """The lease of one update, as a context manager: acquires it on entry, releases it on exit.

    Args:
        file: ``lease.json``; on a disk, a lock file is next to it.
        host: this machine's name.
        now: the time of day in seconds.
        orphan_patience_s: how long the JVM of a dead holder may take to exit.
        timing: how often to renew, and when a holder on another host has lost it.
        update_id: the update that runs under the lease, so that readers do not take its lease for that of an update
            whose process died; empty for none.
    """

    def __init__(
        self,
        file: StoragePath,
        host: str,
        now: Callable[[], float],
        *,
        orphan_patience_s: float = ORPHAN_TIMEOUT_S,
        timing: LeaseTiming | None = None,
        update_id: str = "",
    ) -> None:
        self._file = file
        self._host = host
        self._now = now
        self._timing = timing or LeaseTiming()
        self._update_id = update_id
        self._orphan_timeout_s = orphan_patience_s
        self._on_lost: Callable[[], None] | None = None
        self._lease = lease_file(file)
        self._holder: Holder | None = None
        self._writing = threading.Lock()
        self._ended = threading.Event()
        self._lost = threading.Event()
        self._renewer = threading.Thread(target=self._renew_often, name="headrace-lease", daemon=True)

    def __enter__(self) -> Self:
        """Acquire the lease.

        Raises:
            PipelineError: LEASE.HELD, which names the holder; LEASE.UNUSABLE if the file cannot be read or replaced.
        """
        try:
            try:
                return self._acquire()
            except LeaseTaken:
                raise held_by(self._lease.read()) from None
        except BaseException as error:
            self._lease.close()
            if isinstance(error, OSError) and error.errno not in DISK_FULL:
                raise self._unusable(error) from error
            raise

    def _acquire(self) -> Self:
        before = self._previous_holder()
        on_other_host = before is not None and before.host != self._host and not before.released
        self._lease.lock(before, needed=not on_other_host)
        # The previous holder may have released the lease meanwhile.
        before = self._previous_holder()
        python = Process.of(os.getpid())
        assert python is not None  # noqa: S101 - this very process
        if before is not None and before.host == self._host and before.jvm is not None and before.python != python:
            before.jvm.stop_jvm(before.python, self._orphan_timeout_s)
        number = before.number + 1 if before else 1
        moment = self._now()
        self._holder = Holder(number, self._host, python, None, moment, moment, update_id=self._update_id)
        self._lease.write(self._holder)
        # Another host may have written concurrently; on a disk, the last writer holds the lease.
        if not self._holds():
            raise LeaseTaken
        self._renewer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Release the lease, unless another update took it over."""
        self._ended.set()
        self._renewer.join()
        with self._writing:
            # If it cannot be released, as on a full disk, the next holder sees that this process has ended.
            with suppress(OSError, LeaseTaken):
                if self._holder is not None and self._holds():
                    self._lease.write(replace(self._holder, released=True, jvm=None))
            # Late threads must not continue as if it were held.
            self._lost.set()
        self._lease.close()

    @property
    def number(self) -> int:
        """The fencing token: the number of holders so far, including this one; 0 before the lease is acquired."""
        return self._holder.number if self._holder else 0

    def when_lost(self, stop: Callable[[], None]) -> None:
        """Call *stop* once, from another thread, if the lease is taken over or cannot be renewed."""
        self._on_lost = stop

    def record_jvm(self, pid: int) -> None:
        """Record the JVM of this update, so that the next holder can clean up after a crash.

        Raises:
            PipelineError: LEASE.UNUSABLE.
        """
        try:
            with self._writing:
                if self._holder is not None and self._holds():
                    self._holder = replace(self._holder, jvm=Process.of(pid))
                    self._lease.write(self._holder)
        except LeaseTaken:
            # The next check finds it.
            return
        except OSError as error:
            if error.errno in DISK_FULL:
                raise
            raise self._unusable(error) from error

    def check(self) -> None:
        """Check that the lease is still held; called before every commit from Python.

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

    def _previous_holder(self) -> Holder | None:
        """The previous holder; raises LEASE.HELD if a process on another host still holds the lease."""
        before = self._lease.read()
        on_other_host = before is not None and before.host != self._host and not before.released
        if before is not None and on_other_host and self._lease.was_renewed_recently(before, self._now, self._timing):
            raise held_by(before)
        return before

    def _holds(self) -> bool:
        holder = self._lease.read()
        if self._holder is None or holder is None:
            return False
        holder_now = self._holder
        return (holder.number, holder.host, holder.python) == (holder_now.number, holder_now.host, holder_now.python)

    def _renew_often(self) -> None:
        last = time.monotonic()
        while not self._ended.wait(self._timing.renew_every_s):
            try:
                with self._writing:
                    if self._holder is None or not self._holds():
                        break
                    self._holder = replace(self._holder, renewed_at=self._now())
                    self._lease.write(self._holder)
                last = time.monotonic()
            except Exception:  # noqa: BLE001 - whatever prevents the renewal, the update must learn of it
                if time.monotonic() - last > self._timing.expires_after_s:
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
    """The error that names the holder."""
    since = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(holder.held_since)) if holder else "?"
    return PipelineError(
        "LEASE.HELD",
        host=holder.host if holder else "this machine",
        pid=holder.python.pid if holder else "?",
        started_at=since,
    )
