"""Ledgers by the folder of a storage that they are in: SQLite files on a disk, segments in an object store."""

from __future__ import annotations

from headrace.atomic_write import replace_bytes
from headrace.autoloader.ledger.ledger import SUFFIX, Ledger
from headrace.autoloader.ledger.object_ledger import ObjectLedger
from headrace.stores.copies import copy_tree
from headrace.stores.object_path import ObjectPath
from headrace.stores.paths import StoragePath


def create_ledger(root: StoragePath) -> Ledger:
    """Create a ledger with a unique id."""
    return ObjectLedger.create_in(root) if isinstance(root, ObjectPath) else Ledger.create(root)


def open_ledger(root: StoragePath, ledger_id: str, *, read_only: bool = False) -> Ledger:
    """Open the ledger that an offset names.

    Raises:
        PipelineError: as :meth:`Ledger.open` and :meth:`ObjectLedger.open_in`.
    """
    if isinstance(root, ObjectPath):
        return ObjectLedger.open_in(root, ledger_id, read_only=read_only)
    return Ledger.open(root, ledger_id, read_only=read_only)


def has_ledger(root: StoragePath, ledger_id: str) -> bool:
    """Whether a folder has a ledger."""
    stored = root / f"{ledger_id}{SUFFIX}"
    return stored.is_dir() if isinstance(stored, ObjectPath) else stored.is_file()


def copy_ledgers(source: StoragePath, target: StoragePath) -> None:
    """Copy the ledgers of a folder, which nothing writes meanwhile, into another one; those that it has stay.

    Args:
        source: the folder; nothing happens if it does not exist.
        target: the other folder, in the same storage; it is created.

    Raises:
        PipelineError: as :meth:`Ledger.open`.
        OSError: a ledger cannot be copied.
    """
    if isinstance(source, ObjectPath) or isinstance(target, ObjectPath):
        # Segments are never changed, and their numbers say which of them belong together.
        copy_tree(source, target)
        return
    for file in sorted(source.glob(f"*{SUFFIX}")):
        copy = target / file.name
        if copy.exists():
            continue
        ledger = Ledger.open(source, file.name.removesuffix(SUFFIX))
        try:
            # Some of it may be in the write-ahead log alone.
            ledger.flush()
        finally:
            ledger.close()
        target.mkdir(parents=True, exist_ok=True)
        replace_bytes(copy, file.read_bytes())
