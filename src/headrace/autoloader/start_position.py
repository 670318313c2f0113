"""Where a stream of files begins that leaves out what is there: a ledger in which those files are seen."""

from __future__ import annotations

from pathlib import Path

from headrace.autoloader.discovery import SETTLED_S
from headrace.autoloader.ledger import FIRST_NUMBER, Ledger
from headrace.autoloader.positions import Offset
from headrace.autoloader.seen_files import SeenFiles
from headrace.autoloader.source import Source
from headrace.autoloader.stores.store import FoundFile

Files = tuple[tuple[str, FoundFile], ...]
_NS = 1_000_000_000


def files_before(source: Source, before_ns: int | None, now_ns: int) -> Files:
    """The files of a source that were changed before a time, or all for None, each with its folder.

    One that may still be written (it is empty, or was changed in the last second) is none of them: what comes into it
    is not there yet, and is for the stream to read.
    """
    selection = source.tree.selection
    return tuple(
        (folder, file)
        for folder, file in source.tree.files()
        if (before_ns is None or file.mtime_ns < before_ns)
        and abs(now_ns - file.mtime_ns) >= SETTLED_S * _NS
        and (file.size or selection.empty_files)
        and selection.admits_time(file.mtime_ns, now_ns)
    )


def begin_behind(source: Source, files: Files, *, now_ms: int) -> Offset:
    """The offset of a new ledger in which *files* are seen and nothing is read."""
    ledger = Ledger.create(Path(source.ledgers))
    try:
        overwrites = source.options.overwrites
        SeenFiles(ledger).record(files, {}, now_ms=now_ms, overwrites=overwrites)
        ledger.note(FIRST_NUMBER, str(ledger.last_number))
        ledger.flush()
        return Offset(ledger.id, ledger.last_number)
    finally:
        ledger.close()
