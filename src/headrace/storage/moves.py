"""Moves of folders and files in a storage: one rename on a disk, copies with a commit point in an object store.

There, a record says which folder is being copied, and replacing it is the commit point: the old folder counts before,
the new one after. What a crash leaves of the folder that does not count is deleted by :meth:`Moves.finish`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

from headrace.atomic_write import replace_file
from headrace.stores.object_path import ObjectPath
from headrace.stores.parallel import in_parallel
from headrace.stores.paths import StoragePath, on_disk, remove_tree, storage_path

_MOVING = "moving a folder between storages"


@dataclass(frozen=True)
class _Move:
    """A move that has begun: from where, to where, and whether all is copied."""

    old: str
    new: str
    is_copied: bool = False


class Moves:
    """The moves of one storage; only the holder of the lease may change anything.

    Args:
        root: the storage.
    """

    def __init__(self, root: StoragePath) -> None:
        self._records = root / "system" / "moves"

    def current(self, old: StoragePath, new: StoragePath) -> StoragePath:
        """The path that counts of a folder that moves, or has moved; the new path if neither exists."""
        move = self._begun(new)
        if move is not None:
            return new if move.is_copied else storage_path(move.old)
        return new if has_content(new) or not has_content(old) else old

    def is_blocked(self, old: StoragePath, new: StoragePath) -> bool:
        """Whether something else is at the new path."""
        return self._begun(new) is None and has_content(old) and has_content(new)

    def move(self, old: StoragePath, new: StoragePath) -> bool:
        """Move what is at the old path; False if nothing is. Safe to repeat after a crash."""
        self.finish(new)
        if not has_content(old):
            return False
        if not (isinstance(old, ObjectPath) and isinstance(new, ObjectPath)):
            new.parent.mkdir(parents=True, exist_ok=True)
            on_disk(old, _MOVING).rename(on_disk(new, _MOVING))
            return True
        move = _Move(str(old), str(new))
        self._write(move)
        _copy(old, new)
        self._write(_Move(move.old, move.new, is_copied=True))
        self.finish(new)
        return True

    def finish(self, only: StoragePath | None = None) -> None:
        """Delete what moves left that a crash has interrupted: half copies, and folders that were copied."""
        for move in [self._begun(only)] if only is not None else self._all():
            if move is not None:
                doomed = storage_path(move.old if move.is_copied else move.new)
                remove_tree(doomed)
                doomed.unlink(missing_ok=True)
                self._record(move.new).unlink(missing_ok=True)

    def _all(self) -> Iterator[_Move | None]:
        if isinstance(self._records, ObjectPath) and self._records.exists():
            yield from [_read(record) for record in self._records.iterdir()]

    def _begun(self, new: StoragePath) -> _Move | None:
        return _read(self._record(str(new))) if isinstance(new, ObjectPath) else None

    def _write(self, move: _Move) -> None:
        replace_file(self._record(move.new), json.dumps(asdict(move)))

    def _record(self, new: str) -> StoragePath:
        return self._records / f"{hashlib.sha256(new.encode()).hexdigest()[:32]}.json"


def _copy(old: ObjectPath, new: ObjectPath) -> None:
    # Hadoop's empty markers of folders cannot be copied by the names under which they are listed.
    listed = [meta for page in old.store.list_pages(old.key) for meta in page]
    keys = [meta.key for meta in listed if meta.size_bytes or _is_object(old, meta.key)]
    in_parallel(lambda key: old.store.copy(key, new.key + key.removeprefix(old.key)), keys or [old.key])


def _is_object(folder: ObjectPath, key: str) -> bool:
    return ObjectPath(folder.root, key, folder.store).is_file()


def has_content(path: StoragePath) -> bool:
    """Whether something is at a path; in an object store, more than Hadoop's empty markers of folders."""
    if not isinstance(path, ObjectPath):
        return path.exists()
    return path.is_file() or any(meta.size_bytes for page in path.store.list_pages(path.key) for meta in page)


def _read(record: StoragePath) -> _Move | None:
    try:
        return _Move(**json.loads(record.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
