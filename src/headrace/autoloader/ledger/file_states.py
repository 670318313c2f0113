"""The life cycle of a ledger's files after discovery: committed, cleaned up, pruned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from headrace.autoloader.ledger.ledger import Ledger, SeenFile, join_path


@dataclass(frozen=True)
class FileState:
    """A file in the ledger, for display. Times are milliseconds since 1970, None if it has not happened."""

    path: str
    size: int
    mtime_ms: int
    found_ms: int
    committed_ms: int | None
    cleaned_ms: int | None
    moved_to: str | None


def files_to_clean(ledger: Ledger, committed_before_ms: int, limit: int) -> list[SeenFile]:
    """At most *limit* files that were committed before a time and are not cleaned up."""
    row = ledger.connection.execute(
        "select max(number) from commits where committed_ms <= ?", (committed_before_ms,)
    ).fetchone()
    rows = ledger.connection.execute(
        "select number, path, name, size, files.mtime_ns from files join folders on folders.id = folder"
        " where number > ? and number <= ? and number not in (select number from cleaned) order by number limit ?",
        (ledger.first_number, row[0] or 0, limit),
    )
    return [SeenFile(number, join_path(folder, name), size, mtime_ns) for number, folder, name, size, mtime_ns in rows]


def record_cleaned(ledger: Ledger, numbers: Iterable[tuple[int, str | None]], *, now_ms: int) -> None:
    """Record files as cleaned up, each with the path it was moved to (None if deleted)."""
    rows = [(number, now_ms, moved_to) for number, moved_to in numbers]
    ledger.connection.executemany("insert or ignore into cleaned values (?, ?, ?)", rows)


def committed_number(ledger: Ledger) -> int:
    """The number up to which files are in the target, or were excluded at the start."""
    row = ledger.connection.execute("select max(number) from commits").fetchone()
    return max(row[0] or 0, ledger.first_number)


def lost_after(ledger: Ledger, number: int) -> list[str]:
    """The paths of files after a number that were cleaned up, so that no stream can read them again.

    Files that were forgotten have no path any more; they count as ``(a forgotten file)``.
    """
    rows = ledger.connection.execute(
        "select path, name from files join folders on folders.id = folder join cleaned on cleaned.number = files.number"
        " where files.number > ? order by files.number",
        (number,),
    )
    found = [join_path(folder, name) for folder, name in rows]
    (known,) = ledger.connection.execute("select count(*) from files where number > ?", (number,)).fetchone()
    forgotten = max(ledger.last_number - max(number, ledger.first_number), 0) - int(known)
    return found + ["(a forgotten file)"] * forgotten


def take_back_commits(ledger: Ledger, number: int) -> None:
    """Make a stream read the files after a number again: they no longer count as being in the target."""
    ledger.connection.execute("delete from commits where number > ?", (number,))


def prune_files(ledger: Ledger, found_before_ms: int, upto: int) -> int:
    """Delete read files (numbers up to *upto*) that were found and changed before a time; return how many."""
    return ledger.connection.execute(
        "delete from files where max(found_ms, mtime_ns / 1000000) < ? and number <= ?", (found_before_ms, upto)
    ).rowcount


def size_of_files(ledger: Ledger, after: int, upto: int) -> int:
    """The bytes of the files with numbers above *after* and at most *upto*."""
    query = "select coalesce(sum(size), 0) from files where number > ? and number <= ?"
    return int(ledger.connection.execute(query, (after, upto)).fetchone()[0])


def file_states(ledger: Ledger) -> Iterator[tuple[int, FileState]]:
    """Yield every file with its number, in reading order."""
    rows = ledger.connection.execute(
        "select files.number, folders.path, name, size, files.mtime_ns, found_ms,"
        " (select committed_ms from commits where commits.number >= files.number order by commits.number limit 1),"
        " cleaned_ms, moved_to from files join folders on folders.id = folder"
        " left join cleaned on cleaned.number = files.number order by files.number"
    )
    for number, folder, name, size, mtime_ns, found_ms, committed_ms, cleaned_ms, moved_to in rows:
        path = join_path(folder, name)
        yield number, FileState(path, size, mtime_ns // 1_000_000, found_ms, committed_ms, cleaned_ms, moved_to)
