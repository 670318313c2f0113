"""Files that are written atomically: a reader, or a restart after a crash, sees all of a file or none of it."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import StoragePath


def replace_file(file: StoragePath, text: str) -> None:
    """Write a file, in place of the one that is there; its folder must exist.

    Law: a reader sees the old text or the new one, and after a crash of the machine too.

    Raises:
        OSError: the file cannot be written; the old one stays.
    """
    replace_bytes(file, text.encode())


def replace_bytes(file: StoragePath, content: bytes) -> None:
    """As :func:`replace_file`, for any content."""
    if isinstance(file, ObjectPath):
        file.write_bytes(content)
        return
    with _draft(file, content) as draft:
        draft.replace(file)


def replace_private_file(file: Path, content: bytes) -> None:
    """As :func:`replace_bytes`, for a file of a disk that only its owner may read."""
    with _draft(file, content, mode=0o600) as draft:
        draft.replace(file)


def replace_content(file: Path, content: bytes) -> None:
    """Replace the content of a file that is there; its permissions stay. A link stays, and its target is replaced.

    Law: as of :func:`replace_file`.

    Raises:
        OSError: the file cannot be written; the old one stays.
    """
    target = file.resolve(strict=True)
    with _draft(target, content) as draft:
        draft.chmod(target.stat().st_mode)
        draft.replace(target)


def create_file(file: StoragePath, text: str) -> bool:
    """Write a file unless it exists, and return whether it was written; its folder must exist.

    Law: of all writers of one file, exactly one gets True, and readers see its text.

    Raises:
        OSError: the file cannot be written.
    """
    if isinstance(file, ObjectPath):
        return file.store.put_if_absent(file.key, text.encode()) is not None
    with _draft(file, text.encode()) as draft:
        try:
            # Unlike a rename, a link fails if the name exists.
            os.link(draft, file)
        except FileExistsError:
            return False
        return True


def create_private_file(file: StoragePath, content: bytes) -> None:
    """Write a file unless it exists; its folder must exist. On a disk, only its owner may read it.

    Raises:
        OSError: the file cannot be written.
    """
    if isinstance(file, ObjectPath):
        file.store.put_if_absent(file.key, content)
        return
    with _draft(file, content, mode=0o600) as draft, suppress(FileExistsError):
        os.link(draft, file)


@contextmanager
def _draft(file: Path, content: bytes, mode: int = 0o666) -> Iterator[Path]:
    # Processes of several hosts may have the same id.
    draft = file.with_name(f".{file.name}.{uuid.uuid4().hex}")
    try:
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        yield draft
    finally:
        draft.unlink(missing_ok=True)
