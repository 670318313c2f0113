"""Whether somebody is writing a file, as far as the kernel of this machine knows."""

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
# File systems whose server, and not the kernel, grants leases: these may refuse one although nobody writes.
_REMOTE = frozenset({"9p", "afs", "ceph", "cifs", "lustre", "nfs", "nfs4", "smb3", "smbfs"})
_MOUNTS = Path("/proc/self/mountinfo")


def is_being_written(path: str) -> bool | None:
    """Whether a process of this machine has a file open for writing; None where that cannot be told.

    The kernel grants a lease for reading only while nobody does. It is given back at once; a process that opens the
    file in between waits for that, and the signal that the kernel sends us is one that nobody heeds.
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
        # Others mean that the file is somebody else's, or that its file system has no leases.
        return True if error.errno == EAGAIN else None
    finally:
        os.close(descriptor)
    return False


def is_remote_mount(mounts: str, device: int) -> bool:
    """Whether a device is that of a file system of a server, by the text of the kernel's table of mounts."""
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
