"""The writer of ``system/events``: appends of a few rows, in order, without Spark.

Delta is written with delta-rs (D13): an append takes milliseconds, and status needs no JVM to read it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable, PostCommitHookProperties, write_deltalake

from headrace.errors import PipelineError
from headrace.events.envelope import SCHEMA, Origin, Stamp, id_floor, seq_no_of, to_row
from headrace.events.expiry import remove_expired
from headrace.events.refusals import REFUSALS, reason_of
from headrace.events.types import Event, durable

if TYPE_CHECKING:
    from typing import Self

FLUSH_INTERVAL_S = 0.5
# Above this many files, closing the log puts the small ones together; an update that goes on does so now and then.
COMPACT_ABOVE_FILES = 64
COMPACT_EVERY_APPENDS = 500
# Whoever opens the log reads the commits behind the last checkpoint, with delta-rs each in a thread of its own. These
# threads stay while there is work for some of them.
CHECKPOINT_EVERY_APPENDS = 25

# Statistics on two columns only: ids are in time order and so skip files for every question, and statistics on all
# leaves doubled the time of an append. A file that reached the target size is not rewritten by the next compaction.
TABLE_PROPERTIES = {
    "delta.dataSkippingStatsColumns": "id,event_type",
    "delta.targetFileSize": str(16 * 1024 * 1024),
    # Nobody reads an old version of the log: files that were put together are deleted by the next compaction but for
    # those of the last hour, which a reader may be at.
    "delta.deletedFileRetentionDuration": "interval 1 hours",
    "delta.logRetentionDuration": "interval 1 hours",
}
# Both are done beside the writers, who would wait for them.
_NO_CHECKPOINT = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_LOGGER = logging.getLogger(__name__)


class EventLog:
    """Appends events of one update to the log of the pipeline; safe to share between threads.

    Order: events are stored in the order in which ``emit`` was called, whatever the clock does.
    Durability: see :func:`headrace.events.types.durable`; any other event is stored within about half a second, with
    the next durable one, or by :meth:`close`.

    Upkeep, which puts small files together and deletes what nobody reads, is done beside the writers: they do not wait.

    Args:
        path: the table, ``system/events`` of the storage; made by the first write.
        origin: goes with every event.
        clock: the time, with a zone.
        new_id: a text that no other call ever gave.
        redact: takes secrets out of a text.
        told: gets each row.
        upkeep: of the table at a path; *compacts* says whether small files are put together.
        retain_s: how old events of other updates may be when the log is compacted; older ones are removed, for which
            writers wait. None keeps them for ever.
        compact_every_appends: how often a log that stays open is compacted.
    """

    def __init__(
        self,
        path: str,
        *,
        origin: Origin,
        clock: Callable[[], datetime],
        new_id: Callable[[], str],
        redact: Callable[[str], str] = str,
        told: Callable[[Mapping[str, Any]], None] = lambda _row: None,
        upkeep: Callable[[str, bool], None] | None = None,
        retain_s: float | None = None,
        compact_every_appends: int = COMPACT_EVERY_APPENDS,
    ) -> None:
        self._path = path
        self._origin = origin
        self._clock = clock
        self._new_id = new_id
        self._redact = redact
        self._told = told
        self._upkeep = upkeep or keep_up
        self._retain_s = retain_s
        self._compact_every_appends = compact_every_appends
        self._instance = new_id()
        self._table: DeltaTable | None = None
        self._opened = False
        self._last_seq_no = 0
        self._appends = 0
        self._kept_up_at = self._compacted_at = 0
        self._keeper: threading.Thread | None = None
        self._pending: list[dict[str, Any]] = []
        self._order = threading.Lock()
        self._writing = threading.Lock()
        self._closing = threading.Event()
        self._flusher = threading.Thread(target=self._flush_often, name="headrace-events", daemon=True)

    def emit(self, event: Event) -> datetime:
        """Record an event; returns when it is said to have happened.

        Raises:
            PipelineError: EVENTS.NOT_WRITTEN when the table cannot be opened or a durable event not be stored.
            RuntimeError: the log is closed.
        """
        with self._order:
            if self._closing.is_set():
                raise RuntimeError("the event log is closed")
            self._open()
            stamp = self._stamp()
            row = to_row(event, origin=self._origin, stamp=stamp, redact=self._redact)
            self._pending.append(row)
            self._told(row)
        if durable(event):
            self.flush()
        return stamp.timestamp

    def flush(self) -> None:
        """Store everything emitted so far.

        Raises:
            PipelineError: EVENTS.NOT_WRITTEN; the events are kept for the next try.
        """
        with self._writing:
            with self._order:
                rows, self._pending = self._pending, []
            if not rows:
                return
            try:
                self._append(rows)
            except REFUSALS as error:
                with self._order:
                    self._pending = rows + self._pending
                # The next try finds the table as it is then, whatever became of the version that is known.
                with suppress(*REFUSALS):
                    self._table = DeltaTable(self._path) if DeltaTable.is_deltatable(self._path) else None
                raise self._not_written(error) from error

    def close(self) -> None:
        """Store what is left and put small files together; may be called twice.

        Raises:
            PipelineError: EVENTS.NOT_WRITTEN when events are left that could not be stored.
        """
        with self._order:
            self._closing.set()
        if self._flusher.is_alive():
            self._flusher.join()
        if self._keeper is not None:
            self._keeper.join()
        self.flush()
        with self._writing:
            if self._table is not None:
                self._remove_expired()
                self._upkeep(self._path, True)  # noqa: FBT003 - it compacts
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
        self._last_seq_no = max(self._last_seq_no + 1, _seq_no_at(now))
        return Stamp(self._last_seq_no, now, self._instance, self._new_id())

    def _open(self) -> None:
        """Find the table and where its order ends, once; a clock that went back then changes no order."""
        if self._opened:
            return
        try:
            if DeltaTable.is_deltatable(self._path):
                self._table = _with_properties(DeltaTable(self._path))
                self._last_seq_no = _last_seq_no(self._table)
        except REFUSALS as error:
            raise self._not_written(error) from error
        self._opened = True
        self._flusher.start()

    def _append(self, rows: list[dict[str, Any]]) -> None:
        data = pa.Table.from_pylist(rows, SCHEMA)
        self._appends += 1
        if self._table is not None:
            write_deltalake(self._table, data, mode="append", post_commithook_properties=_NO_CHECKPOINT)
            return
        write_deltalake(self._path, data, mode="append", configuration=TABLE_PROPERTIES)
        self._table = DeltaTable(self._path)

    def _not_written(self, error: Exception) -> PipelineError:
        return PipelineError("EVENTS.NOT_WRITTEN", path=self._path, reason=reason_of(error))

    def _flush_often(self) -> None:
        while not self._closing.wait(FLUSH_INTERVAL_S):
            # The events are kept; the next durable one, or close, reports it to the update.
            with suppress(PipelineError):
                self.flush()
            if self._appends - self._kept_up_at >= CHECKPOINT_EVERY_APPENDS:
                self._keep_up()

    def _keep_up(self) -> None:
        """Start the upkeep in a thread of its own, unless the last one is not done yet."""
        if self._keeper is not None and self._keeper.is_alive():
            return
        self._kept_up_at = self._appends
        compacts = self._appends - self._compacted_at >= self._compact_every_appends
        if compacts:
            self._compacted_at = self._appends
        self._keeper = threading.Thread(
            target=self._run_upkeep, args=(compacts,), name="headrace-events-upkeep", daemon=True
        )
        self._keeper.start()

    def _run_upkeep(self, compacts: bool) -> None:  # noqa: FBT001 - as the upkeep takes it
        if compacts:
            with self._writing:
                self._remove_expired()
        self._upkeep(self._path, compacts)

    def _remove_expired(self) -> None:
        if self._retain_s is None or self._table is None:
            return
        oldest = self._clock().astimezone(UTC) - timedelta(seconds=self._retain_s)
        try:
            remove_expired(self._table, id_floor(_seq_no_at(oldest)), self._origin.update_id)
        except REFUSALS as error:
            # The next compaction tries again.
            _LOGGER.info("no events were removed from the event log: %s", error)


def _seq_no_at(moment: datetime) -> int:
    """The sequence number of an event that happens at a moment: microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def _last_seq_no(table: DeltaTable) -> int:
    actions = pa.table(table.get_add_actions(flatten=True))
    if "max.id" not in actions.column_names:
        return 0
    return max(
        (seq_no_of(text) for text in actions.column("max.id").to_pylist() if text),
        default=0,
    )


def keep_up(path: str, compacts: bool) -> None:  # noqa: FBT001 - the one thing that it may do besides
    """Write a checkpoint of the log at a path, and delete commits and files that nobody reads any more.

    No row is lost, and readers of an older version keep its files for an hour. Writers may append meanwhile.

    Args:
        path: the table.
        compacts: first put small files together, if there are many.
    """
    try:
        table = DeltaTable(path)
        if compacts:
            if len(table.file_uris()) <= COMPACT_ABOVE_FILES:
                return
            table.optimize.compact(post_commithook_properties=_NO_CHECKPOINT)
            # Checkpoints forget files that were taken out long ago: all that lie there are looked at.
            table.vacuum(dry_run=False, full=True, post_commithook_properties=_NO_CHECKPOINT)
        table.create_checkpoint()
        table.cleanup_metadata()
    except REFUSALS as error:
        # A favour to readers: the next time tries again.
        _LOGGER.info("the event log was not compacted: %s", error)


def _with_properties(table: DeltaTable) -> DeltaTable:
    """The table with the properties of new ones; an earlier version kept files for longer."""
    given = table.metadata().configuration
    changed = {key: value for key, value in TABLE_PROPERTIES.items() if given.get(key) != value}
    if changed:
        table.alter.set_table_properties(changed, raise_if_not_exists=False)
    return table
