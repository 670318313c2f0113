"""Where the worker of a project is: a Unix socket in a folder that only its user can open."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

FOLDER_VARIABLE = "HEADRACE_WORKER_DIR"
# What the kernel tells about the process at the other end: pid, uid, gid.
_CREDENTIALS = struct.Struct("3i")
# The path of a socket may have 107 bytes.
_LONGEST_PATH = 107
_OTHERS = 0o077


class UnsafePlace(Exception):
    """The folder or the socket belongs to another user, or others can open it."""


@dataclass(frozen=True)
class WorkerPlace:
    """The files of the worker of one project."""

    folder: Path
    name: str

    @property
    def socket_file(self) -> Path:
        """The socket that verbs connect to."""
        return self.folder / f"{self.name}.sock"

    @property
    def lock(self) -> Path:
        """The file that a worker has locked as long as it lives."""
        return self.folder / f"{self.name}.lock"

    @property
    def log(self) -> Path:
        """What the worker itself prints."""
        return self.folder / f"{self.name}.log"

    def make(self) -> None:
        """Create the folder, and check it.

        Raises:
            UnsafePlace: it belongs to another user, or others can open it.
            OSError: it cannot be created.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.check_folder()
        if len(os.fsencode(self.socket_file)) > _LONGEST_PATH:
            raise UnsafePlace(f"the path {self.socket_file} is too long for a socket")

    def check_folder(self) -> None:
        """Check that nobody else can put a socket into the folder.

        Raises:
            UnsafePlace: somebody can.
            OSError: it does not exist.
        """
        found = self.folder.lstat()
        if not stat.S_ISDIR(found.st_mode):
            raise UnsafePlace(f"{self.folder} is no folder")
        if found.st_uid != os.getuid():
            raise UnsafePlace(f"{self.folder} belongs to another user")
        if found.st_mode & _OTHERS:
            raise UnsafePlace(f"other users can open {self.folder}")

    def connect(self, timeout_s: float | None = None) -> socket.socket | None:
        """A connection to the worker; None if no worker runs.

        Raises:
            UnsafePlace: the folder, the socket or the process behind it may be another user's.
        """
        try:
            self.check_folder()
            found = self.socket_file.lstat()
        except OSError:
            return None
        if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & _OTHERS:
            raise UnsafePlace(f"{self.socket_file} is not a socket that only you can open")
        connection = socket.socket(socket.AF_UNIX)
        connection.settimeout(timeout_s)
        try:
            connection.connect(str(self.socket_file))
            check_peer(connection)
        except UnsafePlace:
            connection.close()
            raise
        except OSError:
            # Left by a worker that was killed.
            connection.close()
            return None
        return connection


def worker_place(root: Path, environ: Mapping[str, str]) -> WorkerPlace:
    """The place of the worker of the project in a folder.

    It does not depend on the environment, which differs between the shells of a user, unless a variable names it.
    """
    identity = hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:20]
    return WorkerPlace(_folder(environ), identity)


def check_peer(connection: socket.socket) -> int:
    """The process id at the other end of a connection, if it is a process of this user.

    Raises:
        UnsafePlace: it is another user's.
    """
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, _gid = _CREDENTIALS.unpack(raw)
    if uid != os.getuid():
        raise UnsafePlace(f"process {pid} belongs to another user")
    return int(pid)


def _folder(environ: Mapping[str, str]) -> Path:
    if named := environ.get(FOLDER_VARIABLE):
        return Path(named)
    of_user = Path("/run/user", str(os.getuid()))
    return of_user / "headrace" if of_user.is_dir() else Path("/tmp", f"headrace-{os.getuid()}")  # noqa: S108 - checked
