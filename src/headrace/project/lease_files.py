"""Where the lease is kept: a file of a disk, with a lock of the operating system beside it, or an object.

In an object store, each write names the content that it replaces, and the store refuses it if another process was
faster. There is no lock: of the processes of one host, the store decides too.
"""

from __future__ import annotations

import fcntl
import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import IO, Protocol

from headrace.atomic_write import replace_file
from headrace.project.lease_holders import Holder, LeaseTiming, holder_of, read_holder, was_renewed_recently
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import StoragePath


class LeaseTaken(Exception):
    """Another process has written the lease since it was read."""


class LeaseFile(Protocol):
    """The place of a lease. All methods raise OSError if it cannot be read or written."""

    def read(self) -> Holder | None:
        """The current or last holder; None if there was none, or the content is invalid."""

    def write(self, holder: Holder) -> None:
        """Replace the holder.

        Raises:
            LeaseTaken: another process has written it since the last call of this object.
        """

    def lock(self, before: Holder | None, *, needed: bool) -> None:
        """Exclude the other processes of this host.

        Args:
            before: the holder that was read.
            needed: whether that holder, or its host, rules out that another process holds the lock.

        Raises:
            LeaseTaken: one of them holds the lease.
        """

    def was_renewed_recently(self, holder: Holder, now: Callable[[], float], timing: LeaseTiming) -> bool:
        """Whether a holder on another host renewed the lease recently."""

    def close(self) -> None:
        """Release the lock."""


class DiskLeaseFile:
    """A file of a disk; another host may share the disk, but not the lock."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._lock: IO[str] | None = None
        file.parent.mkdir(parents=True, exist_ok=True)

    def read(self) -> Holder | None:
        """See :class:`LeaseFile`."""
        return read_holder(self._file)

    def write(self, holder: Holder) -> None:
        """See :class:`LeaseFile`; the last writer wins, and finds out by reading."""
        replace_file(self._file, json.dumps(asdict(holder), indent=1))

    def lock(self, before: Holder | None, *, needed: bool) -> None:
        """See :class:`LeaseFile`."""
        stream = (self._file.parent / f".{self._file.name}.lock").open("a+", encoding="utf-8")
        try:
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            # An expired holder on another host can be replaced only if no process on this host was faster.
            if needed or self.read() != before:
                stream.close()
                raise LeaseTaken from error
        self._lock = stream

    def was_renewed_recently(self, holder: Holder, now: Callable[[], float], timing: LeaseTiming) -> bool:
        """See :class:`LeaseFile`."""
        return was_renewed_recently(self._file, holder, now, timing)

    def close(self) -> None:
        """See :class:`LeaseFile`."""
        if self._lock is not None:
            self._lock.close()


class ObjectLeaseFile:
    """An object; writes are conditional on the tag of what was read or written last."""

    def __init__(self, file: ObjectPath) -> None:
        self._file = file
        # None: there is no object.
        self._tag: str | None = None
        # What this process wrote last, or tried to.
        self._own: bytes | None = None

    def read(self) -> Holder | None:
        """See :class:`LeaseFile`.

        Law: once this process has written, no read lets it replace what another one wrote, whichever thread reads.
        """
        try:
            content, tag = self._file.store.get(self._file.key)
        except FileNotFoundError:
            return None
        if self._own in (None, content):
            self._tag = tag
        return holder_of(content)

    def write(self, holder: Holder) -> None:
        """See :class:`LeaseFile`."""
        content = self._own = json.dumps(asdict(holder), indent=1).encode()
        if self._tag is None:
            written = self._file.store.put_if_absent(self._file.key, content, replaceable=True)
        else:
            written = self._file.store.put_if_tag(self._file.key, content, self._tag)
        if written is None:
            raise LeaseTaken
        self._tag = written

    def lock(self, before: Holder | None, *, needed: bool) -> None:
        """See :class:`LeaseFile`; a process of this host holds the lease while it lives."""
        if needed and before is not None and not before.released and before.python.is_alive:
            raise LeaseTaken

    def was_renewed_recently(self, holder: Holder, now: Callable[[], float], timing: LeaseTiming) -> bool:
        """See :class:`LeaseFile`; by the store's clock, and if that is unknown, by watching."""
        del now
        age = self._file.store.age_s(self._file.key)
        if age is not None:
            return age < timing.expires_after_s
        deadline = time.monotonic() + timing.expires_after_s
        while time.monotonic() < deadline:
            if self.read() != holder:
                return True
            time.sleep(min(timing.renew_every_s / 10, 0.5))
        return False

    def close(self) -> None:
        """See :class:`LeaseFile`."""


def lease_file(file: StoragePath) -> LeaseFile:
    """The lease at a path."""
    return ObjectLeaseFile(file) if isinstance(file, ObjectPath) else DiskLeaseFile(file)
