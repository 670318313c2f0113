"""Detect files that changed after they were read. They are not read again; the update warns about them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from headrace.autoloader.discovery import is_due
from headrace.autoloader.ledger.ledger import MOVED_UPTO, Ledger, join_path
from headrace.autoloader.stores.store import FoundFile, Store
from headrace.errors import PipelineError

# Files that were found this recently are compared in each poll, up to a maximum; all others once a day.
_RECENT_MS = 3_600_000
_MAX_RECENT_FILES = 5000
# Note: when all files were last compared.
_LAST_FULL_COMPARISON = "compared_s"
_Change = tuple[int, str, FoundFile]


def record_changes(ledger: Ledger, store: Store, upto: int, *, now_ns: int, full_interval_s: float) -> int:
    """Record files that changed after they were read, and return how many new changes there are.

    Args:
        ledger: the ledger of the files.
        store: the store of the files.
        upto: the number up to which files were read.
        now_ns: the current time.
        full_interval_s: how often to compare all files, instead of only recent ones.
    """
    everything, now_ms = is_due(ledger, now_ns, full_interval_s, _LAST_FULL_COMPARISON), now_ns // 1_000_000
    rows = [
        (number, now.size, now.mtime_ns, now_ms)
        for number, _, now in find_changes(ledger, store, upto, now_ms=now_ms, everything=everything)
    ]
    if rows:
        ledger.connection.executemany("insert or replace into changed values (?, ?, ?, ?)", rows)
    if everything:
        ledger.set_note(_LAST_FULL_COMPARISON, str(now_ns / 1_000_000_000))
    return len(rows)


def find_changes(
    ledger: Ledger, store: Store, upto: int, *, now_ms: int, everything: bool = False
) -> Iterator[_Change]:
    """Yield local files that changed after they were read, in their current state, unless the change is recorded."""
    # A copied project may have other modification times; sizes are the same.
    moved_upto = int(ledger.get_note(MOVED_UPTO) or 0)
    rows = ledger.connection.execute(
        "select files.number, path, name, coalesce(changed.size, files.size), coalesce(changed.mtime_ns,"
        " files.mtime_ns) from files join folders on folders.id = folder left join changed using (number)"
        " where files.number > ? and files.number <= ? and found_ms >= ?"
        " and files.number not in (select number from cleaned) order by files.number desc limit ?",
        (
            ledger.first_number,
            upto,
            0 if everything else now_ms - _RECENT_MS,
            -1 if everything else _MAX_RECENT_FILES,
        ),
    )
    for number, folder, name, size, mtime_ns in rows:
        path, now = join_path(folder, name), None
        with suppress(PipelineError):
            # The listing reports a folder that cannot be read.
            now = store.stat(path) if path.startswith("/") else None
        if now is not None and (now.size != size or (now.mtime_ns != mtime_ns and number > moved_upto)):
            yield number, path, now


def recorded_changes(ledger: Ledger, since_ms: int) -> list[str]:
    """Paths of the files whose change was recorded since a time."""
    rows = ledger.connection.execute(
        "select path, name from changed join files using (number) join folders on folders.id = folder"
        " where noticed_ms >= ? order by number",
        (since_ms,),
    )
    return [join_path(folder, name) for folder, name in rows]
