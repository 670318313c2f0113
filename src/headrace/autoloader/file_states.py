"""What became of the files of a ledger after they were found: committed, cleaned up, forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headrace.autoloader.ledger import Ledger, SeenFile, joined


@dataclass(frozen=True)
class FileState:
    """A file in the ledger, for people; times are milliseconds since 1970, None for what has not happened."""

    path: str
    size: int
    mtime_ms: int
    found_ms: int
    committed_ms: int | None
    cleaned_ms: int | None
    moved_to: str | None


def cleanable(ledger: Ledger, committed_before_ms: int, most: int) -> list[SeenFile]:
    """At most *most* files that were committed before a time and not cleaned up since."""
    row = ledger.connection.execute(
        "select max(number) from commits where committed_ms <= ?", (committed_before_ms,)
    ).fetchone()
    rows = ledger.connection.execute(
        "select number, path, name, size, files.mtime_ns from files join folders on folders.id = folder"
        " where number > ? and number <= ? and number not in (select number from cleaned) order by number limit ?",
        (ledger.first_number, row[0] or 0, most),
    )
    return [SeenFile(number, joined(folder, name), size, mtime_ns) for number, folder, name, size, mtime_ns in rows]


def note_cleaned(ledger: Ledger, numbers: Iterable[tuple[int, str | None]], *, now_ms: int) -> None:
    """Note files, each with where it was moved to, as cleaned up."""
    rows = [(number, now_ms, moved_to) for number, moved_to in numbers]
    ledger.connection.executemany("insert or ignore into cleaned values (?, ?, ?)", rows)


def committed_number(ledger: Ledger) -> int:
    """The number up to which files are known to be in the target, or were left out."""
    row = ledger.connection.execute("select max(number) from commits").fetchone()
    return max(row[0] or 0, ledger.first_number)


def forget(ledger: Ledger, found_before_ms: int, upto: int) -> int:
    """Forget files that were found, and changed, before a time and are read (numbers up to *upto*); how many."""
    return ledger.connection.execute(
        "delete from files where max(found_ms, mtime_ns / 1000000) < ? and number <= ?", (found_before_ms, upto)
    ).rowcount


def file_states(ledger: Ledger) -> Iterator[tuple[int, FileState]]:
    """Every file with its number, in the order in which they are read."""
    rows = ledger.connection.execute(
        "select files.number, folders.path, name, size, files.mtime_ns, found_ms,"
        " (select committed_ms from commits where commits.number >= files.number order by commits.number limit 1),"
        " cleaned_ms, moved_to from files join folders on folders.id = folder"
        " left join cleaned on cleaned.number = files.number order by files.number"
    )
    for number, folder, name, size, mtime_ns, found_ms, committed_ms, cleaned_ms, moved_to in rows:
        path = joined(folder, name)
        yield number, FileState(path, size, mtime_ns // 1_000_000, found_ms, committed_ms, cleaned_ms, moved_to)
