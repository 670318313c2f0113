"""Files that have changed after they were read: they are not read again, and it is not passed over in silence."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

from headrace.autoloader.discovery import is_due
from headrace.autoloader.ledger import MOVED_UPTO, Ledger, joined
from headrace.autoloader.stores.store import FoundFile, Store
from headrace.errors import PipelineError

# How long after it was found a file is looked at in each look, and how many of these; the others, once a day.
_YOUNG_MS = 3_600_000
_AT_MOST = 5000
# A note: when all of them were looked at.
_COMPARED = "compared_s"
_Change = tuple[int, str, FoundFile]


def note_changes(ledger: Ledger, store: Store, upto: int, *, now_ns: int, all_every_s: float) -> int:
    """Note files that are not what they were when they were read; how many are new among them.

    Args:
        ledger: which has them.
        store: where they lie.
        upto: the number up to which they were read.
        now_ns: the time.
        all_every_s: how often all of them are looked at, and not those alone that were found of late.
    """
    everything, now_ms = is_due(ledger, now_ns, all_every_s, _COMPARED), now_ns // 1_000_000
    rows = [
        (number, now.size, now.mtime_ns, now_ms)
        for number, _, now in changes(ledger, store, upto, now_ms=now_ms, everything=everything)
    ]
    if rows:
        ledger.connection.executemany("insert or replace into changed values (?, ?, ?, ?)", rows)
    if everything:
        ledger.note(_COMPARED, str(now_ns / 1_000_000_000))
    return len(rows)


def changes(ledger: Ledger, store: Store, upto: int, *, now_ms: int, everything: bool = False) -> Iterator[_Change]:
    """Files of this machine that were read and have changed since, as they are now, and it was not noted yet."""
    # Copies of a project may have other times; sizes are the same.
    moved_upto = int(ledger.about(MOVED_UPTO) or 0)
    rows = ledger.connection.execute(
        "select files.number, path, name, coalesce(changed.size, files.size), coalesce(changed.mtime_ns,"
        " files.mtime_ns) from files join folders on folders.id = folder left join changed using (number)"
        " where files.number > ? and files.number <= ? and found_ms >= ?"
        " and files.number not in (select number from cleaned) order by files.number desc limit ?",
        (
            ledger.first_number,
            upto,
            0 if everything else now_ms - _YOUNG_MS,
            -1 if everything else _AT_MOST,
        ),
    )
    for number, folder, name, size, mtime_ns in rows:
        path, now = joined(folder, name), None
        with suppress(PipelineError):
            # Of a folder that cannot be read, whoever lists it says so.
            now = store.stat(path) if path.startswith("/") else None
        if now is not None and (now.size != size or (now.mtime_ns != mtime_ns and number > moved_upto)):
            yield number, path, now


def changes_noted(ledger: Ledger, since_ms: int) -> list[str]:
    """Paths of the files that were noted since a time."""
    rows = ledger.connection.execute(
        "select path, name from changed join files using (number) join folders on folders.id = folder"
        " where noticed_ms >= ? order by number",
        (since_ms,),
    )
    return [joined(folder, name) for folder, name in rows]
