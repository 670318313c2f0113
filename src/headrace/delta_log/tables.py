"""Versions and contents of Delta tables, read with delta-rs and from the log's files: takes milliseconds, no JVM."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

from headrace.delta_log.deletion_vectors import deleted_rows
from headrace.delta_log.plain_rows import file_values
from headrace.errors import PipelineError
from headrace.model.local_path import local_path
from headrace.model.schema import Schema
from headrace.stores.delta_tables import open_delta, open_log
from headrace.stores.paths import StoragePath, readable_file, storage_path


@dataclass(frozen=True)
class TableState:
    """The current state of a Delta table."""

    path: str
    table_id: str
    version: int
    schema: Schema
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableVersion:
    """A version of one table; a table that was deleted and recreated has another id."""

    table_id: str
    version: int


@dataclass(frozen=True)
class Commit:
    """A commit in the log of a table; ``identity`` distinguishes its file from one that replaced it."""

    table: StoragePath
    version: int
    identity: tuple[int, int, int] | None

    @classmethod
    def of(cls, path: str, version: int) -> Commit:
        """The commit that made a version of the table at a path."""
        return cls(storage_path(path), version, _identity(commit_file(storage_path(path), version)))

    def is_newest(self) -> bool:
        """True while it exists and no other follows; costs two file system calls."""
        # What the path was made in may have ended.
        table = storage_path(str(self.table))
        return not commit_file(table, self.version + 1).is_file() and self.exists()

    def exists(self) -> bool:
        """True while it exists; costs one file system call."""
        table = storage_path(str(self.table))
        return self.identity is not None and _identity(commit_file(table, self.version)) == self.identity


def _identity(file: StoragePath) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    # Objects have no number, and their times are of the second; of a commit, the time and the size differ.
    number = found.st_ino if isinstance(found, os.stat_result) else 0
    return number, int(found.st_mtime * 1e9), found.st_size


def table_state(path: str) -> TableState | None:
    """The current state of the table at a path, or None."""
    table = open_table_log(path)
    if table is None:
        return None
    metadata = table.metadata()
    return TableState(
        path=path,
        table_id=str(metadata.id),
        version=table.version(),
        schema=Schema.from_json(table.schema().to_json()),
        comment=metadata.description,
        properties=dict(metadata.configuration),
        partition_by=tuple(metadata.partition_columns),
    )


def open_table(path: str, version: int | None = None) -> DeltaTable | None:
    """The table at a path, at its newest version or a given one; None without one.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE, STORAGE.EMPTY_COMMIT.
    """
    return _opened(path, lambda: open_delta(path, version=version))


def open_table_log(path: str) -> DeltaTable | None:
    """The newest version of the table at a path, for what its log says: its rows may not be readable; None without one.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE, STORAGE.EMPTY_COMMIT.
    """
    return _opened(path, lambda: open_log(path))


def _opened(path: str, open_it: Callable[[], DeltaTable]) -> DeltaTable | None:
    if not has_log(path):
        return None
    try:
        table = open_it()
    except TableNotFoundError:
        return None
    except DeltaError as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise PipelineError("STORAGE.TABLE_UNREADABLE", path=path, reason=reason) from error
    _check_not_empty(commit_file(storage_path(path), table.version()))
    return table


def has_log(path: str) -> bool:
    """Whether a path has the log of a table; a crash may have left it empty."""
    return (storage_path(path) / "_delta_log").is_dir()


def table_version(path: str) -> TableVersion | None:
    """The id and newest version of the table at a path; None without one.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE.
    """
    table = open_table_log(path)
    return None if table is None else TableVersion(str(table.metadata().id), table.version())


def table_version_or_none(path: str) -> TableVersion | None:
    """The same, but also None if delta-rs cannot open the table, for example because of unknown features."""
    try:
        return table_version(path)
    except PipelineError:
        return None


def newest_version(path: str) -> int:
    """The newest version of a table; -1 if there is none.

    Finds it by the file names of the commits after the last checkpoint. To open the table, delta-rs would read each of
    them in a separate thread.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE, STORAGE.EMPTY_COMMIT.
    """
    version = _last_checkpoint(path) or 0
    if not commit_file(storage_path(path), version).is_file():
        # The log has lost commits, or starts with a checkpoint.
        table = open_table(path)
        return -1 if table is None else table.version()
    while commit_file(storage_path(path), version + 1).is_file():
        version += 1
    _check_not_empty(commit_file(storage_path(path), version))
    return version


def count_rows(table: DeltaTable, path: str) -> int:
    """The number of rows of a table, from its log and the footers of its files.

    A query would fail for tables whose types were widened, which delta-rs does not read.

    Args:
        table: the table, or a copy of its log.
        path: where it is.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE.
    """
    counts: list[int | None] = file_values(table, "num_records")
    known = [count for count in counts if count is not None]
    vectors = "deletionVectors" in (table.protocol().reader_features or ())
    deleted = deleted_rows(path, table.version()) if vectors else 0
    if len(known) < len(counts):
        import pyarrow.parquet as pq  # noqa: PLC0415 - takes longer than the rest of a scrape, and few tables need it

        files = map(storage_path, map(local_path, open_delta(path, table.version()).file_uris()))
        known = [pq.read_metadata(readable_file(file)).num_rows for file in files]
    return sum(known) - deleted


def table_size(table: DeltaTable) -> int:
    """The bytes of a table's current files."""
    return sum(file_values(table, "size_bytes"))


def size_by_checksum(path: str, version: int) -> int | None:
    """The bytes of the files of a version of a table, from its checksum; None if it has none that can be read.

    Most writers create one beside each commit. Delta's snapshot would compute the state of the table first.
    """
    try:
        checksum = commit_file(storage_path(path), version).with_suffix(".crc")
        return int(json.loads(checksum.read_text(encoding="utf-8"))["tableSizeBytes"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def sql_literal(value: str) -> str:
    """A string literal in the SQL of delta-rs, where a backslash has no special meaning."""
    return "'" + value.replace("'", "''") + "'"


def query_rows(table: DeltaTable, query: str) -> list[dict[str, Any]]:
    """The rows of a query over a table, which the query calls ``q``; columns have their logical names."""
    import pyarrow as pa  # noqa: PLC0415 - takes longer than all of `status`, which needs none of it

    result: Any = QueryBuilder().register("q", table).execute(query)
    rows: list[dict[str, Any]] = pa.table(result.read_all()).to_pylist()
    return rows


def table_exists(path: str) -> bool:
    """True when the table at a path has a commit; a crash during its creation leaves a log without one."""
    log = storage_path(path) / "_delta_log"
    if commit_file(storage_path(path), 0).is_file() or (log / "_last_checkpoint").is_file():
        return True
    return any(file.stem.isdigit() for file in log.glob("*.json"))


def committed_transaction(path: str, app_id: str) -> int | None:
    """The greatest transaction version that *app_id* committed to a table, or None."""
    table = open_table_log(path)
    return None if table is None else table.transaction_version(app_id)


def has_data_changes(path: str, first: int, last: int) -> bool:
    """True when a commit from version *first* to *last* added or removed rows.

    Commits of properties, OPTIMIZE and VACUUM do not change data. A commit that the log lost counts as a change.
    """
    return any(_changes_data(commit_actions(path, version)) for version in range(first, last + 1))


def is_rewritten_since(path: str, version: int) -> bool:
    """True when a commit after a version changed rows, or carries a transaction.

    Costs one file system call if there is no such commit. Compaction commits do neither.
    """
    while commit_file(storage_path(path), version + 1).exists():
        version += 1
        actions = commit_actions(path, version)
        if _changes_data(actions) or any("txn" in action for action in actions or ()):
            return True
    return False


def commit_file(table: StoragePath, version: int) -> StoragePath:
    """The path of a commit of a table."""
    return table / "_delta_log" / f"{version:020d}.json"


def commit_actions(path: str, version: int) -> list[dict[str, Any]] | None:
    """The actions of a commit; None if the log does not have it."""
    try:
        text = commit_file(storage_path(path), version).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def _last_checkpoint(path: str) -> int | None:
    """The version of the last checkpoint; None if ``_last_checkpoint`` is missing or unreadable."""
    try:
        text = (storage_path(path) / "_delta_log" / "_last_checkpoint").read_text(encoding="utf-8")
        return int(json.loads(text)["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _check_not_empty(commit: StoragePath) -> None:
    if commit.is_file() and commit.stat().st_size == 0:
        # Delta would treat it as a commit without actions, so that whatever it held would be lost.
        raise PipelineError("STORAGE.EMPTY_COMMIT", file=commit)


def _changes_data(actions: list[dict[str, Any]] | None) -> bool:
    if actions is None:
        return True
    return any(
        change.get("dataChange", True)
        for action in actions
        for kind, change in action.items()
        if kind in ("add", "remove", "cdc")
    )
