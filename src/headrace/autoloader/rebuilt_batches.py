"""Files of a repeated batch: update the ledger for those that changed after they were found."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from headrace.autoloader.discovery import MAX_WAIT_S, STABLE_AFTER_S, Clock
from headrace.autoloader.ledger.ledger import Ledger, SeenFile
from headrace.autoloader.reading.stable_files import is_unchanged
from headrace.autoloader.stores.open_writers import is_being_written
from headrace.autoloader.stores.store import FoundFile, Store

# Number of concurrent stat requests to an object store.
_PARALLELISM = 16
_NS = 1_000_000_000


def refresh_files(
    ledger: Ledger, store: Store, files: Sequence[SeenFile], clock: Clock, *, is_committed: bool
) -> list[SeenFile]:
    """Return the files of a repeated batch in their current state; a missing file keeps its old state.

    This waits for files that are being written, half a minute at most. The new states are stored in the ledger, unless
    the batch *is_committed*: then the target has the old contents.
    """
    until_ns = clock.now_ns() + int(MAX_WAIT_S * _NS)
    changed = _changed(store, files)
    while any(_is_unstable(file, now, clock) for file, now in changed) and clock.now_ns() < until_ns:
        clock.sleep_s(STABLE_AFTER_S)
        changed = _changed(store, files)
    refreshed = {file.number: replace(file, size=now.size, mtime_ns=now.mtime_ns) for file, now in changed}
    if refreshed and not is_committed:
        rows = [(file.size, file.mtime_ns, file.number) for file in refreshed.values()]
        ledger.connection.executemany("update files set size = ?, mtime_ns = ? where number = ?", rows)
    return [refreshed.get(file.number, file) for file in files]


def _changed(store: Store, files: Sequence[SeenFile]) -> list[tuple[SeenFile, FoundFile]]:
    with ThreadPoolExecutor(max_workers=_PARALLELISM) as pool:
        found = list(pool.map(lambda file: store.stat(file.path), files))
    return [
        (file, now)
        for file, now in zip(files, found, strict=True)
        if now is not None and not is_unchanged(file.path, (file.size, file.mtime_ns), (now.size, now.mtime_ns))
    ]


def _is_unstable(file: SeenFile, now: FoundFile, clock: Clock) -> bool:
    """Whether a file changed just now, or is open for writing."""
    unchanged_ns = clock.now_ns() - now.mtime_ns
    return 0 <= unchanged_ns < STABLE_AFTER_S * _NS or bool(file.path.startswith("/") and is_being_written(file.path))
