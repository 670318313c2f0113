"""The life cycle of a ledger's files after discovery: committed, cleaned up, pruned."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
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


def lost_after(ledger: Ledger, number: int, exists: Callable[[str], bool]) -> list[SeenFile]:
    """The files after a number that no stream can read again: cleaned up, or deleted by somebody else."""
    rows = ledger.connection.execute(
        "select files.number, path, name, size, files.mtime_ns, cleaned.number is not null from files"
        " join folders on folders.id = folder left join cleaned on cleaned.number = files.number"
        " where files.number > ? order by files.number",
        (number,),
    )
    found = [
        (SeenFile(at, join_path(folder, name), size, mtime_ns), bool(is_cleaned))
        for at, folder, name, size, mtime_ns, is_cleaned in rows
    ]
    return [file for file, is_cleaned in found if is_cleaned or not exists(file.path)]


def forgotten_after(ledger: Ledger, number: int) -> int:
    """How many files after a number the ledger no longer names, because they were older than ``maxFileAge``."""
    (known,) = ledger.connection.execute("select count(*) from files where number > ?", (number,)).fetchone()
    return max(ledger.last_number - max(number, ledger.first_number), 0) - int(known)


def take_back_commits(ledger: Ledger, number: int, lost: Iterable[SeenFile]) -> None:
    """Make a stream read the files after a number again: they no longer count as being in the target.

    Args:
        ledger: the ledger.
        number: of the last file that stays read.
        lost: files that cannot be read; they are forgotten, so that one that comes back counts as new.
    """
    ledger.connection.execute("delete from commits where number > ?", (number,))
    ledger.connection.executemany("delete from files where number = ?", [(file.number,) for file in lost])


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
