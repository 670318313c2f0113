"""The start position of a file stream that skips existing files: a ledger in which they are already seen."""

from __future__ import annotations

from headrace.autoloader.discovery import STABLE_AFTER_S
from headrace.autoloader.ledger.ledger import FIRST_NUMBER
from headrace.autoloader.ledger.positions import Offset
from headrace.autoloader.ledger.seen_files import SeenFiles
from headrace.autoloader.ledger.stored_ledgers import create_ledger
from headrace.autoloader.source import Source
from headrace.autoloader.stores.store import FoundFile
from headrace.stores.paths import storage_path

Files = tuple[tuple[str, FoundFile], ...]
_NS = 1_000_000_000


def existing_files(source: Source, before_ns: int | None, now_ns: int) -> Files:
    """The files of a source that were modified before a time (None: all), each with its folder.

    Files that may still be written (empty, or modified in the last second) are not included: their contents do not
    exist yet, so the stream reads them.
    """
    selection = source.tree.selection
    return tuple(
        (folder, file)
        for folder, file in source.tree.files()
        if (before_ns is None or file.mtime_ns < before_ns)
        and abs(now_ns - file.mtime_ns) >= STABLE_AFTER_S * _NS
        and (file.size or selection.empty_files)
        and selection.admits_time(file.mtime_ns, now_ns)
    )


def start_after(source: Source, files: Files, *, now_ms: int) -> Offset:
    """Create a ledger in which *files* are seen, and return the offset after them."""
    ledger = create_ledger(storage_path(source.ledgers))
    try:
        allow_overwrites = source.options.allow_overwrites
        SeenFiles(ledger).record(files, {}, now_ms=now_ms, allow_overwrites=allow_overwrites)
        ledger.set_note(FIRST_NUMBER, str(ledger.last_number))
        ledger.flush()
        return Offset(ledger.id, ledger.last_number)
    finally:
        ledger.close()
