"""Whether a file is open for writing, as far as this machine's kernel knows."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from errno import EAGAIN
from functools import cache
from pathlib import Path
from signal import SIGURG

# Linux only. F_SETSIG, which Python's fcntl lacks, sets the signal that reports a broken lease.
_LEASE, _SET_SIGNAL = getattr(fcntl, "F_SETLEASE", None), 10
# File systems where the server, not the kernel, grants leases: it may refuse one although nobody writes.
_REMOTE = frozenset({"9p", "afs", "ceph", "cifs", "lustre", "nfs", "nfs4", "smb3", "smbfs"})
_MOUNTS = Path("/proc/self/mountinfo")


def is_being_written(path: str) -> bool | None:
    """Whether a process of this machine has a file open for writing; None if unknown.

    The kernel grants a read lease only while no process has. The lease is released at once: a process that opens the
    file in between waits for that, and the signal that the kernel sends to this process is one that is ignored.
    """
    if _LEASE is None:
        return None
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if _is_remote(os.fstat(descriptor).st_dev):
            return None
        fcntl.fcntl(descriptor, _SET_SIGNAL, SIGURG)
        fcntl.fcntl(descriptor, _LEASE, fcntl.F_RDLCK)
        fcntl.fcntl(descriptor, _LEASE, fcntl.F_UNLCK)
    except OSError as error:
        # Other errors mean that the file belongs to another user, or that its file system has no leases.
        return True if error.errno == EAGAIN else None
    finally:
        os.close(descriptor)
    return False


def is_remote_mount(mounts: str, device: int) -> bool:
    """Whether a device belongs to a network file system, according to the text of the kernel's mount table."""
    number = f"{os.major(device)}:{os.minor(device)}"
    for line in mounts.splitlines():
        fields, _, rest = line.partition(" - ")
        if fields.split()[2:3] == [number]:
            return rest.split(" ", 1)[0] in _REMOTE
    return False


@cache
def _is_remote(device: int) -> bool:
    with suppress(OSError):
        return is_remote_mount(_MOUNTS.read_text(encoding="utf-8", errors="replace"), device)
    return False
