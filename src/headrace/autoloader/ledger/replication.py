"""Changes of a ledger's database as segments, and segments as changes of a database.

Triggers note the key of each row that changes. A segment has these rows as they are when it is made.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from uuid import uuid4

from headrace.autoloader.ledger.segments import Segment

# The columns of each table; the first one is the key.
TABLES = {
    "about": ("key", "value"),
    "folders": ("id", "path", "mtime_ns"),
    "files": ("number", "folder", "name", "size", "mtime_ns", "found_ms"),
    "commits": ("number", "committed_ms"),
    "cleaned": ("number", "cleaned_ms", "moved_to"),
    "changed": ("number", "size", "mtime_ns", "noticed_ms"),
}
UNPUBLISHED = """
create table if not exists unpublished (
  table_name text not null, key not null, primary key (table_name, key)) without rowid
"""


def note_changes(connection: sqlite3.Connection) -> None:
    """From now on, note which rows this connection changes."""
    for table, (key, *_) in TABLES.items():
        for event, row in (("insert", "new"), ("update", "new"), ("delete", "old")):
            connection.execute(
                f"create temp trigger {table}_{event} after {event} on {table} begin"  # noqa: S608 - constants
                f" insert or ignore into unpublished values ('{table}', {row}.{key}); end"
            )


def has_changes(connection: sqlite3.Connection) -> bool:
    """Whether rows have changed that no segment has."""
    return connection.execute("select 1 from unpublished limit 1").fetchone() is not None


def changes(connection: sqlite3.Connection, ledger_id: str, after: tuple[int, str]) -> Segment:
    """The next segment, with all rows that have changed.

    Args:
        connection: of the database.
        ledger_id: the id of the ledger.
        after: number and id of the segment before.
    """
    rows, removed = {}, {}
    for table, columns in TABLES.items():
        key = columns[0]
        noted = f"(select key from unpublished where table_name = '{table}')"  # noqa: S608 - constants
        rows[table] = list(
            connection.execute(f"select {', '.join(columns)} from {table} where {key} in {noted} order by {key}")  # noqa: S608 - constants
        )
        removed[table] = [
            one
            for (one,) in connection.execute(f"select key from {noted} where key not in (select {key} from {table})")  # noqa: S608 - constants
        ]
    return Segment(ledger_id, after[0] + 1, uuid4().hex, after[1], last_number(connection), rows, removed)


def all_rows(connection: sqlite3.Connection, ledger_id: str, last: tuple[int, str]) -> Segment:
    """A snapshot; *last* is the number and id of the newest segment, and no row has changed since."""
    rows = {
        table: list(connection.execute(f"select {', '.join(columns)} from {table} order by {columns[0]}"))  # noqa: S608 - constants
        for table, columns in TABLES.items()
    }
    return Segment(ledger_id, last[0], last[1], "", last_number(connection), rows, {})


def apply(connection: sqlite3.Connection, segments: Iterable[Segment]) -> None:
    """Change a database as segments say, one after the other.

    Raises:
        KeyError: a segment has a table that this version does not know.
    """
    for segment in segments:
        for table, keys in segment.removed.items():
            key = TABLES[table][0]
            connection.executemany(f"delete from {table} where {key} = ?", [(one,) for one in keys])  # noqa: S608 - constants
        for table, rows in segment.rows.items():
            columns = TABLES[table]
            values = ", ".join("?" * len(columns))
            connection.executemany(f"insert or replace into {table} ({', '.join(columns)}) values ({values})", rows)  # noqa: S608 - constants
        if last_number(connection) < segment.last_number:
            # Files with these numbers were pruned.
            connection.execute("delete from sqlite_sequence where name = 'files'")
            connection.execute("insert into sqlite_sequence values ('files', ?)", (segment.last_number,))


def clear(connection: sqlite3.Connection) -> None:
    """Delete all rows."""
    for table in (*TABLES, "unpublished"):
        connection.execute(f"delete from {table}")  # noqa: S608 - constants
    connection.execute("delete from sqlite_sequence where name = 'files'")


def last_number(connection: sqlite3.Connection) -> int:
    """The highest number ever given to a file, 0 if none."""
    row = connection.execute("select seq from sqlite_sequence where name = 'files'").fetchone()
    return 0 if row is None else int(row[0])
