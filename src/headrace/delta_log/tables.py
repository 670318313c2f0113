"""Versions and contents of Delta tables, read with delta-rs and from the log's files: milliseconds, no JVM."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

from headrace.delta_log.deletion_vectors import deleted_rows
from headrace.errors import PipelineError
from headrace.model.local_path import local_path
from headrace.model.schema import Schema


@dataclass(frozen=True)
class TableState:
    """A Delta table as it is now."""

    path: str
    table_id: str
    version: int
    schema: Schema
    comment: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class TableVersion:
    """A version of one table; a table that was deleted and made anew has another id."""

    table_id: str
    version: int


@dataclass(frozen=True)
class Commit:
    """A commit in the log of a table; ``identity`` tells its file from one that has taken its place."""

    table: Path
    version: int
    identity: tuple[int, int, int] | None

    @classmethod
    def of(cls, path: str, version: int) -> Commit:
        """The commit that has made a version of the table at a path."""
        return cls(Path(path), version, _identity(commit_file(Path(path), version)))

    def is_newest(self) -> bool:
        """True while it is there and no other follows; a look at two files."""
        if self.identity is None or commit_file(self.table, self.version + 1).exists():
            return False
        return _identity(commit_file(self.table, self.version)) == self.identity


def _identity(file: Path) -> tuple[int, int, int] | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def table_state(path: str) -> TableState | None:
    """The newest version of a table, or None when there is none at the path."""
    table = open_table(path)
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
    """The table at a path, as it is or was with a version; None where there is none.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE, STORAGE.EMPTY_COMMIT.
    """
    if not (Path(path) / "_delta_log").is_dir():
        return None
    try:
        table = DeltaTable(path, version=version)
    except TableNotFoundError:
        return None
    except DeltaError as error:
        reason = str(error).strip().splitlines()[0].rstrip(".")
        raise PipelineError("STORAGE.TABLE_UNREADABLE", path=path, reason=reason) from error
    _check_not_empty(commit_file(Path(path), table.version()))
    return table


def table_version(path: str) -> TableVersion | None:
    """Which table is at a path, and its newest version; None where there is none.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE.
    """
    table = open_table(path)
    return None if table is None else TableVersion(str(table.metadata().id), table.version())


def version_outside(path: str) -> TableVersion | None:
    """The same, and None too where delta-rs cannot open the table, such as one with features that it does not know."""
    try:
        return table_version(path)
    except PipelineError:
        return None


def newest_version(path: str) -> int:
    """The newest version of a table; -1 where there is none.

    Finds it by the names of the commits after the last checkpoint. To open the table, delta-rs would read each of them
    in a thread of its own.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE, STORAGE.EMPTY_COMMIT.
    """
    version = _last_checkpoint(path) or 0
    if not commit_file(Path(path), version).is_file():
        # The log has lost commits, or begins with a checkpoint.
        table = open_table(path)
        return -1 if table is None else table.version()
    while commit_file(Path(path), version + 1).is_file():
        version += 1
    _check_not_empty(commit_file(Path(path), version))
    return version


def rows_in(table: DeltaTable) -> int:
    """How many rows a table has, by its log and the footers of its files.

    A query would refuse tables whose types were widened, which delta-rs does not read.

    Raises:
        PipelineError: STORAGE.TABLE_UNREADABLE.
    """
    files = pa.table(table.get_add_actions(flatten=True))
    counts: list[int | None] = files.column("num_records").to_pylist()
    known = [count for count in counts if count is not None]
    vectors = "deletionVectors" in (table.protocol().reader_features or ())
    deleted = deleted_rows(local_path(table.table_uri).rstrip("/"), table.version()) if vectors else 0
    if len(known) < len(counts):
        known = [pq.read_metadata(local_path(uri)).num_rows for uri in table.file_uris()]
    return sum(known) - deleted


def size_of(table: DeltaTable) -> int:
    """Bytes of the files that a table consists of now."""
    return sum(pa.table(table.get_add_actions(flatten=True)).column("size_bytes").to_pylist())


def literal(value: str) -> str:
    """A text in the SQL of delta-rs, in which a backslash means nothing."""
    return "'" + value.replace("'", "''") + "'"


def queried(table: DeltaTable, query: str) -> list[dict[str, Any]]:
    """The rows of a query over a table that is called ``q`` in it; columns have their own names, mapped or not."""
    result: Any = QueryBuilder().register("q", table).execute(query)
    rows: list[dict[str, Any]] = pa.table(result.read_all()).to_pylist()
    return rows


def is_made(path: str) -> bool:
    """True when the table at a path has a commit; a crash while it is made leaves a log without one."""
    log = Path(path) / "_delta_log"
    return (log / "_last_checkpoint").is_file() or any(file.stem.isdigit() for file in log.glob("*.json"))


def committed_transaction(path: str, app_id: str) -> int | None:
    """The greatest transaction version that *app_id* has committed to a table, or None."""
    table = open_table(path)
    return None if table is None else table.transaction_version(app_id)


def data_changed(path: str, first: int, last: int) -> bool:
    """True when a commit from version *first* to *last* added or removed rows.

    Commits of properties, OPTIMIZE and VACUUM have no data change. A commit that is no longer there counts as one.
    """
    return any(_changes_data(commit_actions(path, version)) for version in range(first, last + 1))


def rewritten_since(path: str, version: int) -> bool:
    """True when a commit after a version has changed rows, or is that of a writer who counts its commits.

    Costs a look at one file while there is none. Commits that put small files together have neither.
    """
    while commit_file(Path(path), version + 1).exists():
        version += 1
        actions = commit_actions(path, version)
        if _changes_data(actions) or any("txn" in action for action in actions or ()):
            return True
    return False


def commit_file(table: Path, version: int) -> Path:
    """Where one commit of a table is, or will be."""
    return table / "_delta_log" / f"{version:020d}.json"


def commit_actions(path: str, version: int) -> list[dict[str, Any]] | None:
    """The actions of one commit, or None when the log no longer has it."""
    try:
        text = commit_file(Path(path), version).read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    return [json.loads(line) for line in text.split("\n") if line.strip()]


def _last_checkpoint(path: str) -> int | None:
    """The version of the last checkpoint, as the log says; None where it says nothing that can be read."""
    try:
        text = (Path(path) / "_delta_log" / "_last_checkpoint").read_text(encoding="utf-8")
        return int(json.loads(text)["version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _check_not_empty(commit: Path) -> None:
    if commit.is_file() and commit.stat().st_size == 0:
        # Delta takes it for a commit of nothing, and whatever it held would be missing from then on.
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
