"""Files of a batch that is made again: what the ledger says of those that have changed since they were found."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from headrace.autoloader.discovery import SETTLED_S, WAIT_S, Clock
from headrace.autoloader.ledger import Ledger, SeenFile
from headrace.autoloader.reading.stable_files import is_same
from headrace.autoloader.stores.open_writers import is_being_written
from headrace.autoloader.stores.store import FoundFile, Store

# A store of objects is asked about so many at once.
_AT_ONCE = 16
_NS = 1_000_000_000


def renewed(ledger: Ledger, store: Store, files: Sequence[SeenFile], clock: Clock, *, done: bool) -> list[SeenFile]:
    """The files of a batch that is made again as they are now; one that has gone is as it was.

    A file is waited for while it is being written, half a minute at most. The ledger gets to know what they are like
    unless the batch was *done*: what is in the target is then what they were.
    """
    until_ns = clock.now_ns() + int(WAIT_S * _NS)
    changed = _changed(store, files)
    while any(_is_young(file, now, clock) for file, now in changed) and clock.now_ns() < until_ns:
        clock.sleep_s(SETTLED_S)
        changed = _changed(store, files)
    later = {file.number: replace(file, size=now.size, mtime_ns=now.mtime_ns) for file, now in changed}
    if later and not done:
        rows = [(file.size, file.mtime_ns, file.number) for file in later.values()]
        ledger.connection.executemany("update files set size = ?, mtime_ns = ? where number = ?", rows)
    return [later.get(file.number, file) for file in files]


def _changed(store: Store, files: Sequence[SeenFile]) -> list[tuple[SeenFile, FoundFile]]:
    with ThreadPoolExecutor(max_workers=_AT_ONCE) as pool:
        found = list(pool.map(lambda file: store.stat(file.path), files))
    return [
        (file, now)
        for file, now in zip(files, found, strict=True)
        if now is not None and not is_same(file.path, (file.size, file.mtime_ns), (now.size, now.mtime_ns))
    ]


def _is_young(file: SeenFile, now: FoundFile, clock: Clock) -> bool:
    """Whether a file was changed a moment ago, or somebody writes into it."""
    unchanged_ns = clock.now_ns() - now.mtime_ns
    return 0 <= unchanged_ns < SETTLED_S * _NS or bool(file.path.startswith("/") and is_being_written(file.path))
