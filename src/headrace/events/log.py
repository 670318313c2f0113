"""The writer of ``system/events``: appends of a few rows, in order, without Spark.

Delta is written with delta-rs (D13): an append takes milliseconds, and status needs no JVM to read it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import (
    CommitProperties,
    DeltaTable,
    PostCommitHookProperties,
    Transaction,
    WriterProperties,
    write_deltalake,
)

from headrace.errors import PipelineError
from headrace.events.envelope import Origin, Stamp, seq_no_at, seq_no_of, to_row
from headrace.events.expiry import Horizon, Retention, begins_before, has_expired, remove_expired
from headrace.events.schema import SCHEMA
from headrace.events.storage_errors import STORAGE_ERRORS, reason_of
from headrace.events.types import Event, is_durable
from headrace.stores.connections import delta_options
from headrace.stores.delta_tables import is_delta, open_delta

if TYPE_CHECKING:
    from typing import Self

FLUSH_INTERVAL_S = 0.5
# Above this many small files, closing the log compacts them; a continuous update compacts from time to time. In an
# object store, each file and each commit after the last checkpoint costs every reader a request.
COMPACT_ABOVE_FILES, COMPACT_ABOVE_OBJECTS = 64, 16
# Readers open each file: 400 small ones took longer than everything else that `status` does.
COMPACT_EVERY_APPENDS = 100
# Opening the log reads the commits after the last checkpoint; delta-rs uses one thread per commit. These threads stay
# while some of them have work.
CHECKPOINT_EVERY_APPENDS = 25

_TARGET_FILE_BYTES = 1 << 20
# Statistics on two columns only: ids are in time order, so every query can skip files by them, and statistics on all
# leaf columns doubled the time of an append. Compaction mixes the rows of the files that it merges, and does not
# rewrite files that reached the target size; with small ones, each file has the events of a short time.
TABLE_PROPERTIES = {
    "delta.dataSkippingStatsColumns": "id,event_type",
    "delta.targetFileSize": str(_TARGET_FILE_BYTES),
    # Nobody reads an old version of the log: the next compaction deletes replaced files, except those of the last ten
    # minutes, which a reader may still be using.
    "delta.deletedFileRetentionDuration": "interval 10 minutes",
    "delta.logRetentionDuration": "interval 10 minutes",
}
# And in an object store, where each append carries a transaction.
_STORE_PROPERTIES = {"delta.setTransactionRetentionDuration": "interval 1 hour"}
# Of a large file, readers parse only the row groups that may have what they need: 120,000 rows were read in 0.02 s
# instead of 0.3 s.
COMPACTED = WriterProperties(max_row_group_size=8192, compression="ZSTD")
# Maintenance does both in the background; otherwise writers would wait for them.
_NO_CHECKPOINT = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)

# Events are kept until someone says for how long.
FOREVER = Retention()
_REMOVAL_ERRORS: tuple[type[Exception], ...] = (PipelineError, *STORAGE_ERRORS)
_LOGGER = logging.getLogger(__name__)


class EventLog:
    """Appends events of one update to the log of the pipeline; safe to share between threads.

    Order: events are stored in the order of the ``emit`` calls, whatever the clock does.
    Durability: see :func:`headrace.events.types.is_durable`; any other event is stored within about half a second, with
    the next durable one, or by :meth:`close`.

    Maintenance, which compacts small files and deletes unused ones, runs in the background: writers do not wait for it.

    Args:
        path: the table, ``system/events`` of the storage; created by the first write.
        origin: stored with every event.
        clock: the time, with a zone.
        new_id: returns a globally unique text.
        redact: removes secrets from a text.
        on_row: receives each row.
        maintenance: maintains the table at a path; its second argument says whether to compact small files.
        retention: how long events are kept. Expired ones are removed when the log is compacted, and writers wait for
            that.
        before_removal: called before expired events are removed; records what has to be known of them with the function
            that it gets. If it raises a PipelineError, they are removed later.
        compact_every_appends: how often an open log is compacted.
    """

    def __init__(
        self,
        path: str,
        *,
        origin: Origin,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
        redact: Callable[[str], str] = str,
        on_row: Callable[[Mapping[str, Any]], None] = lambda _row: None,
        maintenance: Callable[[str, bool], None] | None = None,
        retention: Retention = FOREVER,
        before_removal: Callable[[Horizon, Callable[[Event], datetime]], None] = lambda _horizon, _emit: None,
        compact_every_appends: int = COMPACT_EVERY_APPENDS,
    ) -> None:
        self._path = path
        self._origin = origin
        self._clock = clock
        self._new_id = new_id
        self._redact = redact
        self._on_row = on_row
        self._maintenance = maintenance or maintain
        self._retention = retention
        self._before_removal = before_removal
        # What has been removed so far.
        self._removed: Horizon | None = None
        self._compact_every_appends = compact_every_appends
        self._instance = new_id()
        self._table: DeltaTable | None = None
        self._opened = False
        self._last_seq_no = 0
        self._appends = 0
        self._maintained_at = self._compacted_at = 0
        self._maintainer: threading.Thread | None = None
        self._pending: list[dict[str, Any]] = []
        self._order = threading.Lock()
        self._writing = threading.Lock()
        self._closing = threading.Event()
        self._flusher = threading.Thread(target=self._flush_periodically, name="headrace-events", daemon=True)

    def emit(self, event: Event) -> datetime:
        """Record an event; returns its timestamp.

        Raises:
            PipelineError: EVENTS.NOT_WRITTEN if the table cannot be opened or a durable event cannot be stored.
            RuntimeError: the log is closed.
        """
        return self._record(event)

    def _record(self, event: Event, *, in_maintenance: bool = False) -> datetime:
        """Record an event; in maintenance also while the log is being closed."""
        with self._order:
            if self._closing.is_set() and not in_maintenance:
                raise RuntimeError("the event log is closed")
            self._open()
            stamp = self._stamp()
            row = to_row(event, origin=self._origin, stamp=stamp, redact=self._redact)
            self._pending.append(row)
            self._on_row(row)
        if is_durable(event):
            self.flush()
        return stamp.timestamp

    def flush(self) -> None:
        """Store everything emitted so far.

        Raises:
            PipelineError: EVENTS.NOT_WRITTEN; the events are kept for the next attempt.
        """
        with self._writing:
            with self._order:
                rows, self._pending = self._pending, []
            if not rows:
                return
            try:
                self._append(rows)
            except STORAGE_ERRORS as error:
                # The next attempt starts from the table's current version.
                with suppress(*STORAGE_ERRORS):
                    self._table = open_delta(self._path) if is_delta(self._path) else None
                if _is_stored(self._table, self._instance, self._appends):
                    return
                with self._order:
                    self._pending = rows + self._pending
                raise self._write_error(error) from error

    def close(self) -> None:
        """Store the pending events and compact small files; may be called twice.

        Raises:
            PipelineError: EVENTS.NOT_WRITTEN if some events could not be stored.
        """
        with self._order:
            self._closing.set()
        if self._flusher.is_alive():
            self._flusher.join()
        if self._maintainer is not None:
            self._maintainer.join()
        self.flush()
        self._remove_expired()
        with self._writing:
            # In an object store, to open the log again costs a request for each commit.
            if self._table is not None and _is_fragmented(self._table, self._path):
                self._maintenance(self._path, True)  # noqa: FBT003 - it compacts
            self._table = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _stamp(self) -> Stamp:
        now = self._clock().astimezone(UTC)
        self._last_seq_no = max(self._last_seq_no + 1, seq_no_at(now))
        return Stamp(self._last_seq_no, now, self._instance, self._new_id())

    def _open(self) -> None:
        """Open the table and read its last sequence number, once, so that a clock that went back changes no order."""
        if self._opened:
            return
        try:
            if is_delta(self._path):
                self._table = _with_properties(open_delta(self._path))
                self._last_seq_no = _last_seq_no(self._table)
        except STORAGE_ERRORS as error:
            raise self._write_error(error) from error
        self._opened = True
        self._flusher.start()

    def _append(self, rows: list[dict[str, Any]]) -> None:
        data = pa.Table.from_pylist(rows, SCHEMA)
        self._appends += 1
        options = delta_options(self._path)
        commit = None
        if options is not None:
            # The store's answer may get lost, and delta-rs would then append the rows once more, as the next version.
            commit = CommitProperties(app_transactions=[Transaction(self._instance, self._appends)])
        if self._table is not None:
            write_deltalake(
                self._table,
                data,
                mode="append",
                post_commithook_properties=_NO_CHECKPOINT,
                commit_properties=commit,
            )
            return
        write_deltalake(
            self._path,
            data,
            mode="append",
            configuration=TABLE_PROPERTIES if options is None else {**TABLE_PROPERTIES, **_STORE_PROPERTIES},
            storage_options=options,
            commit_properties=commit,
        )
        self._table = open_delta(self._path)

    def _write_error(self, error: Exception) -> PipelineError:
        return PipelineError("EVENTS.NOT_WRITTEN", path=self._path, reason=reason_of(error))

    def _flush_periodically(self) -> None:
        while not self._closing.wait(FLUSH_INTERVAL_S):
            # The events are kept; the next durable one, or close, reports it to the update.
            with suppress(PipelineError):
                self.flush()
            if self._appends - self._maintained_at >= CHECKPOINT_EVERY_APPENDS:
                self._start_maintenance()

    def _start_maintenance(self) -> None:
        """Start maintenance in a thread of its own, unless the previous one is still running."""
        if self._maintainer is not None and self._maintainer.is_alive():
            return
        self._maintained_at = self._appends
        compact = self._appends - self._compacted_at >= self._compact_every_appends
        if compact:
            self._compacted_at = self._appends
        self._maintainer = threading.Thread(
            target=self._run_maintenance, args=(compact,), name="headrace-events-upkeep", daemon=True
        )
        self._maintainer.start()

    def _run_maintenance(self, compact: bool) -> None:  # noqa: FBT001 - the signature of the maintenance function
        if compact:
            self._remove_expired()
        self._maintenance(self._path, compact)

    def _remove_expired(self) -> None:
        table = self._table
        if table is None:
            return
        horizon, update_id = self._retention.horizon(self._clock()), self._origin.update_id
        if horizon == self._removed:
            return
        try:
            with self._writing:
                # The table as the writer knows it tells, without a request.
                begins = begins_before(table, horizon)
            # Writers do not wait for this part.
            if not begins or not has_expired(open_delta(self._path), horizon, update_id):
                self._removed = horizon
                return
            self._before_removal(horizon, partial(self._record, in_maintenance=True))
            self.flush()
            with self._writing:
                remove_expired(self._table or table, horizon, update_id)
            self._removed = horizon
        except _REMOVAL_ERRORS as error:
            # The next compaction tries again.
            _LOGGER.info("no events were removed from the event log: %s", error)


def _is_stored(table: DeltaTable | None, instance: str, append: int) -> bool:
    """Whether the log has an append that failed: its answer was lost."""
    try:
        return table is not None and table.transaction_version(instance) == append
    except STORAGE_ERRORS:
        return False


def _last_seq_no(table: DeltaTable) -> int:
    actions = pa.table(table.get_add_actions(flatten=True))
    if "max.id" not in actions.column_names:
        return 0
    return max(
        (seq_no_of(text) for text in actions.column("max.id").to_pylist() if text),
        default=0,
    )


def maintain(path: str, compact: bool) -> None:  # noqa: FBT001 - its only option
    """Write a checkpoint of the log at a path, and delete unused commits and files.

    No row is lost, and readers of an older version keep its files for ten minutes. Writers may append meanwhile.

    Args:
        path: the table.
        compact: first compact small files, if there are many.
    """
    try:
        table = open_delta(path)
        if compact:
            if not _is_fragmented(table, path):
                return
            table.optimize.compact(post_commithook_properties=_NO_CHECKPOINT, writer_properties=COMPACTED)
            # A full vacuum, because checkpoints no longer list files that were removed long ago.
            table.vacuum(dry_run=False, full=True, post_commithook_properties=_NO_CHECKPOINT)
        table.create_checkpoint()
        table.cleanup_metadata()
    except STORAGE_ERRORS as error:
        # Optional for readers; the next maintenance tries again.
        _LOGGER.info("the event log was not compacted: %s", error)


def _is_fragmented(table: DeltaTable, path: str) -> bool:
    """Whether there are many files that compaction would merge."""
    most = COMPACT_ABOVE_FILES if delta_options(path) is None else COMPACT_ABOVE_OBJECTS
    sizes: list[int] = pa.table(table.get_add_actions()).column("size_bytes").to_pylist()
    return sum(size < _TARGET_FILE_BYTES for size in sizes) > most


def _with_properties(table: DeltaTable) -> DeltaTable:
    """The table with the current properties; an earlier version of Headrace kept files longer."""
    given = table.metadata().configuration
    changed = {key: value for key, value in TABLE_PROPERTIES.items() if given.get(key) != value}
    if changed:
        table.alter.set_table_properties(changed, raise_if_not_exists=False)
    return table
