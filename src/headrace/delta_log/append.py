"""Appends a few rows to a Delta table without Spark: one Parquet file and one commit.

Spark's own append runs several jobs, however few the rows are: to read the table's state, to write, and to read the
state again for its transaction. Here the log is read, the file is written, and the commit is created if no other has
its version, all in milliseconds. Tables that need more than that of a writer are left to Spark.

Laws: of all appends with one transaction id, each version is committed once, and never after a greater one. An append
reads nothing, so it commutes with every commit that changes neither the table's metadata nor its protocol.

Source: PROTOCOL.md, "Add File", "Transaction Identifiers", "Version Checksum File"; what ``WriteIntoDelta`` of Delta
4.4 commits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from typing import Any

import pyarrow as pa

from headrace.atomic_write import create_file
from headrace.delta_log.parquet_file import statistics, with_utc_times, write_parquet
from headrace.delta_log.plain_rows import file_values
from headrace.delta_log.plain_tables import needs_of_writers
from headrace.delta_log.tables import Commit, commit_actions, commit_file, open_table_log
from headrace.model.schema import Schema
from headrace.stores.paths import storage_path

# What a checksum says of a table, and what an append leaves as it is or adds to. Delta lists the files of small tables.
_CHECKSUM = frozenset(
    {
        *("tableSizeBytes", "numFiles", "numMetadata", "numProtocol", "setTransactions", "domainMetadata"),
        *("metadata", "protocol", "allFiles", "numDeletedRecordsOpt", "numDeletionVectorsOpt"),
    }
)
_DELETED_COUNTS = ("numDeletedRecordsOpt", "numDeletionVectorsOpt")
_MAX_LISTED_FILES = 50
# Each needs another commit in between. So many at once are hardly made, but might be read from an old listing.
_ATTEMPTS = 100


class Appended(Enum):
    """How an append ended."""

    WRITTEN = "the rows are in the table"
    REPEATED = "the table had this transaction, or a later one; nothing was committed"
    CHANGED = "the table needs another writer now, or has other columns or a newer version; nothing was committed"


@dataclass
class _Known:
    """What is known of a table at a version."""

    commit: Commit
    columns: Mapping[str, str] | None  # None: another writer is needed.
    partition_by: tuple[str, ...]
    transaction: int
    checkpoint_interval: int
    is_append_only: bool


@dataclass(frozen=True)
class _Change:
    """What a commit does to the files of a table; *added* is None without rows."""

    added: dict[str, Any] | None
    rows: int
    replaces: bool
    removed: Sequence[dict[str, Any]]
    user_metadata: str | None = None
    # Whether the rows do not depend on those of the table. If they do, Delta refuses commits that have read the same.
    is_blind: bool = True

    def metrics(self) -> dict[str, int]:
        """The metrics of the commit, with Delta's names."""
        files, size = (0, 0) if self.added is None else (1, self.added["size"])
        found = {"numFiles": files, "numOutputRows": self.rows, "numOutputBytes": size}
        if self.replaces:
            found |= {"numRemovedFiles": len(self.removed), "numRemovedBytes": sum(one["size"] for one in self.removed)}
        return found

    def actions(self, now_ms: int) -> Iterator[dict[str, Any]]:
        """The actions on files."""
        for one in self.removed:
            kept = {
                key: one[key]
                for key in ("path", "partitionValues", "size", "deletionVector")
                if one.get(key) is not None
            }
            stamp = {"deletionTimestamp": now_ms, "dataChange": True, "extendedFileMetadata": True}
            yield {"remove": {**kept, **stamp}}
        if self.added is not None:
            yield {"add": self.added}

    def totals_after(self, before: Mapping[str, Any]) -> dict[str, int]:
        """The totals of a checksum afterwards."""
        files, size = (0, 0) if self.added is None else (1, self.added["size"])
        if not self.replaces:
            return {"numFiles": before["numFiles"] + files, "tableSizeBytes": before["tableSizeBytes"] + size}
        gone = {key: 0 for key in _DELETED_COUNTS if before.get(key) is not None}
        return {"numFiles": files, "tableSizeBytes": size, **gone}

    def files_after(self, before: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The files of the table afterwards, as a checksum lists them."""
        added = [] if self.added is None else [{**self.added, "dataChange": False}]
        return [*([] if self.replaces else before), *added]


class TableAppender:
    """Appends to one table, as one application; the calls come one at a time.

    Args:
        path: the path of the table.
        app_id: the application of its transactions.
        now_ms: the time, in milliseconds since 1970.
        new_id: a unique text for each call.
    """

    def __init__(self, path: str, app_id: str, now_ms: Callable[[], int], new_id: Callable[[], str]) -> None:
        self._path = path
        self._app_id = app_id
        self._now_ms = now_ms
        self._new_id = new_id
        self._known: _Known | None = None

    def order_of(self, schema: Schema, partition_by: tuple[str, ...] = ()) -> tuple[str, ...] | None:
        """The names of the table's columns in their order, if it takes rows with a schema whatever its order.

        None if it does not, has other partition columns, or needs another writer.
        """
        known = self._current()
        given = {column.name: column.json_type for column in schema.columns}
        if known is None or known.columns != given or known.partition_by != partition_by:
            return None
        return tuple(known.columns)

    def record(self, transaction: int, user_metadata: str, read_version: int) -> Appended:
        """Commit a version of the application's transactions without a change of rows; see :meth:`append`.

        Raises:
            OSError: as there.
        """
        known = self._current()
        names = [] if known is None else list(known.columns or ())
        nothing = pa.table({name: pa.nulls(0) for name in names})
        return self.append(nothing, transaction, user_metadata=user_metadata, read_version=read_version)

    @property
    def needs_checkpoint(self) -> bool:
        """Whether the log should get a checkpoint after the newest append."""
        known = self._known
        return known is not None and known.commit.version % known.checkpoint_interval == 0

    def append(
        self,
        rows: pa.Table,
        transaction: int,
        *,
        replace: bool = False,
        user_metadata: str | None = None,
        read_version: int | None = None,
    ) -> Appended:
        """Commit rows, which have the table's columns in its order, as a version of the application's transactions.

        Rows of a partitioned table all have the same values in its partition columns, which are texts or NULL. With
        *replace*, they take the place of all rows of the table; a table of many files is left to Spark. The commit has
        the *user_metadata*. With a *read_version*, it follows that version at once, or is not made.

        Raises:
            OSError: a file cannot be written. An object store may have committed the rows all the same; then the table
                has the transaction.
        """
        # A file whose commit failed is left to maintenance: it is in use if the commit was stored after all.
        added: dict[str, Any] | None = None
        for _ in range(_ATTEMPTS):
            known = self._current()
            if known is not None and known.transaction >= transaction:
                return Appended.REPEATED if read_version is None else Appended.CHANGED
            if known is None or known.columns is None or list(known.columns) != rows.column_names:
                break
            if read_version not in (None, known.commit.version):
                break
            replaced = self._files(known) if replace else []
            if replaced is None:
                break
            if added is None and rows.num_rows:
                added = self._add(with_utc_times(rows), known.partition_by)
            is_blind = not replace and read_version is None
            change = _Change(added, rows.num_rows, replace, replaced, user_metadata, is_blind)
            if self._commit(known, change, transaction):
                return Appended.WRITTEN
        return Appended.CHANGED

    def _add(self, rows: pa.Table, partition_by: tuple[str, ...]) -> dict[str, Any]:
        name = f"part-00000-{self._new_id()}-c000.snappy.parquet"
        values = {column: rows.column(column)[0].as_py() for column in partition_by}
        stored = rows.drop_columns(list(partition_by))
        size = write_parquet(storage_path(self._path) / name, stored)
        return {
            "path": name,
            "partitionValues": values,
            "size": size,
            "modificationTime": self._now_ms(),
            "dataChange": True,
            "stats": statistics(stored),
        }

    def _commit(self, known: _Known, change: _Change, transaction: int) -> bool:
        """Create the next commit; False if there is one."""
        version, now_ms, txn_id = known.commit.version + 1, self._now_ms(), self._new_id()
        parameters = {
            "mode": "Overwrite" if change.replaces else "Append",
            "partitionBy": json.dumps(known.partition_by),
        }
        info = {
            "timestamp": now_ms,
            "operation": "WRITE",
            "operationParameters": parameters,
            "readVersion": known.commit.version,
            "isolationLevel": "Serializable",
            "isBlindAppend": change.is_blind,
            "operationMetrics": {name: str(value) for name, value in change.metrics().items()},
            "engineInfo": "headrace",
            "txnId": txn_id,
            **({} if change.user_metadata is None else {"userMetadata": change.user_metadata}),
        }
        txn = {"appId": self._app_id, "version": transaction, "lastUpdated": now_ms}
        actions = [{"commitInfo": info}, {"txn": txn}, *change.actions(now_ms)]
        file = commit_file(storage_path(self._path), version)
        if not create_file(file, "".join(f"{json.dumps(action)}\n" for action in actions)):
            # An answer of an object store may get lost: then the commit is this one.
            found = commit_actions(self._path, version) or []
            if not any(action.get("commitInfo", {}).get("txnId") == txn_id for action in found):
                return False
        self._add_checksum(known.commit.version, txn_id, txn, change)
        known.commit, known.transaction = Commit.of(self._path, version), transaction
        return True

    def _checksum(self, version: int) -> dict[str, Any] | None:
        """The checksum of a version, as far as it is understood; None without one."""
        file = commit_file(storage_path(self._path), version).with_suffix(".crc")
        with suppress(OSError, ValueError, AttributeError):
            return {
                key: value for key, value in json.loads(file.read_text(encoding="utf-8")).items() if key in _CHECKSUM
            }
        return None

    def _files(self, known: _Known) -> list[dict[str, Any]] | None:
        """The files of the table; None if they are too many for a checksum, if it is wrong, or if they must stay."""
        files = (self._checksum(known.commit.version) or {}).get("allFiles")
        if files is None or known.is_append_only:
            return None
        # A file that the checksum lacks would keep its rows.
        table = open_table_log(self._path)
        if table is None or table.version() != known.commit.version:
            return None
        return list(files) if sorted(file_values(table, "size_bytes")) == sorted(one["size"] for one in files) else None

    def _add_checksum(self, before: int, txn_id: str, txn: Mapping[str, Any], change: _Change) -> None:
        """Write the checksum of the new version if that before has one: Spark then need not compute it."""
        with suppress(OSError, KeyError, TypeError):
            found = self._checksum(before)
            if found is None:
                return
            found |= change.totals_after(found)
            listed = found.pop("allFiles", None)
            if listed is not None and found["numFiles"] <= _MAX_LISTED_FILES:
                found["allFiles"] = change.files_after(listed)
            others = [one for one in found["setTransactions"] if one["appId"] != txn["appId"]]
            found["setTransactions"] = [*others, txn]
            file = commit_file(storage_path(self._path), before + 1).with_suffix(".crc")
            create_file(file, json.dumps({"txnId": txn_id, **found}))

    def _current(self) -> _Known | None:
        """What is known of the newest version; None without a table."""
        known = self._known
        if known is None or not known.commit.is_newest():
            known = self._known = self._advanced(known) or self._opened()
        return known

    def _advanced(self, known: _Known | None) -> _Known | None:
        """The same after the commits that follow; None if the table has to be opened again."""
        if known is None or not known.commit.exists():
            return None
        version = known.commit.version
        while (actions := commit_actions(self._path, version + 1)) is not None:
            if not actions or any("metaData" in action or "protocol" in action for action in actions):
                return None
            own = [action["txn"]["version"] for action in actions if action.get("txn", {}).get("appId") == self._app_id]
            known.transaction = max([known.transaction, *own])
            version += 1
        known.commit = Commit.of(self._path, version)
        return known

    def _opened(self) -> _Known | None:
        table = open_table_log(self._path)
        if table is None:
            return None
        metadata = table.metadata()
        properties = {key.casefold(): value for key, value in metadata.configuration.items()}
        columns = {column.name: column.json_type for column in Schema.from_json(table.schema().to_json()).columns}
        return _Known(
            Commit.of(self._path, table.version()),
            None if needs_of_writers(table) else columns,
            tuple(metadata.partition_columns),
            -1 if (found := table.transaction_version(self._app_id)) is None else found,
            int(properties.get("delta.checkpointinterval", 10)),
            properties.get("delta.appendonly", "false").casefold() == "true",
        )
