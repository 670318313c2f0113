"""Reads ``system/events``: works while another process writes, and needs neither Spark nor a JVM."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from deltalake import DeltaTable

from headrace.delta_log.plain_rows import plain_rows
from headrace.delta_log.tables import sql_literal
from headrace.errors import PipelineError
from headrace.events.envelope import from_row, id_floor, seq_no_of
from headrace.events.levels import Level
from headrace.events.outcome import OutcomeBuilder, Tally
from headrace.events.storage_errors import STORAGE_ERRORS, reason_of
from headrace.events.types import (
    BatchDone,
    BatchRunning,
    FlowLagMetrics,
    FlowStateChanged,
    StreamProgress,
    TableEvaluated,
    UpdateCreated,
    UpdateTotals,
    Warned,
)
from headrace.model.outcome import FlowCounts, Outcome
from headrace.stores.delta_tables import is_delta, open_delta

# Times are read in microseconds: to read them as times takes a database of time zones, which containers may lack.
_TIME = "arrow_cast(timestamp, 'Int64') AS timestamp"
_ALL_COLUMNS = (
    *("id", "sequence", "origin", _TIME, "message", "level", "maturity_level"),
    *("error", "details", "event_type", "truncation"),
)
# Most fields of the origin are those of the vendor's service: empty, and slow to read.
_OF_ORIGIN = ("update_id", "flow_name", "dataset_name", "batch_id", "epoch")
_FIELDS = ", ".join(f"'{name}', origin['{name}']" for name in _OF_ORIGIN)
_ORIGIN = f"named_struct({_FIELDS}) AS origin"
# The columns needed to rebuild an event.
EVENT_COLUMNS = ("id", _ORIGIN, _TIME, "message", "details", "event_type")
# The columns needed to select rows, before whole rows are read.
_KEYS = ("id", _ORIGIN)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# Batches, reports of lag and state, and progress of streams and of long batches.
_COUNTED = (
    f"event_type IN ('{FlowLagMetrics.event_type}', '{StreamProgress.event_type}', '{BatchRunning.event_type}') "
    f"AND level = '{Level.METRICS.value}'"
)
# The same, grouped by flow and by what they say.
_REPORTS = (
    f"{_COUNTED} GROUP BY origin['flow_name'], event_type, origin['epoch'], strpos(message, '\" keeps state for ') > 0"
)

Row = Mapping[str, Any]
_Read = TypeVar("_Read")


class EventReader:
    """Reads a pipeline's updates from its event log.

    Each call sees everything that was stored before it. It skips files by their ids, which are in time order, so the
    cost of a call depends on the events that it needs and not on the length of the log.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._table: DeltaTable | None = None
        # What was read last, by its name: of which version, with which key.
        self._read: dict[str, tuple[int, Hashable, Any]] = {}
        self._is_pinned = False

    @property
    def position(self) -> tuple[str, int] | None:
        """Delta's id of the log and its newest version; None before the first update of the pipeline.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        table = self._newest()
        return None if table is None else (str(table.metadata().id), table.version())

    @property
    def exists(self) -> bool:
        """False before the first update of the pipeline.

        Raises:
            PipelineError: EVENTS.NOT_READABLE if the storage cannot be read.
        """
        return self._newest() is not None

    def events(
        self,
        after: Mapping[str, Any] | None = None,
        update_id: str | None = None,
        newest: int | None = None,
        *,
        types: Collection[str] = (),
        levels: Collection[Level] = (),
    ) -> Iterator[dict[str, Any]]:
        """The rows, oldest first, as dictionaries with the columns of the table.

        Args:
            after: the ``sequence`` of the last row already known.
            update_id: only the events of this update.
            newest: only so many, the newest.
            types: only events of these types; all if empty.
            levels: only events of these levels; all if empty.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        first = after["data_plane_id"]["seq_no"] + 1 if after else 0
        if update_id is not None:
            created = created_at(self, update_id)
            first = max(first, created) if created is not None else first
        where = f"id >= '{id_floor(first)}'"
        where += "" if update_id is None else f" AND origin['update_id'] = {sql_literal(update_id)}"
        where += f" AND event_type IN ({', '.join(map(sql_literal, types))})" if types else ""
        where += f" AND level IN ({', '.join(sql_literal(one.value) for one in levels)})" if levels else ""
        columns = ", ".join(_ALL_COLUMNS)
        order = "id" if newest is None else f"id DESC LIMIT {int(newest)}"
        rows: list[dict[str, Any]] = self.rows(columns, where, order)
        return iter(rows) if newest is None else reversed(rows)

    def latest_update_id(self) -> str | None:
        """The id of the latest update; None without one."""
        row = _newest_of(self, UpdateCreated.event_type, 0)
        return row["origin"]["update_id"] if row else None

    def outcome(self, update_id: str | None = None) -> Outcome | None:
        """The outcome of an update (default: the latest), rebuilt from its events; None if it is not in the log.

        Law: equals the value that the update's own process returned.
        """
        return self.read_once("outcome", update_id, lambda: _rebuilt_outcome(self, update_id))

    def read_once(self, name: str, key: Hashable, read: Callable[[], _Read]) -> _Read:
        """What *read* returns, or returned the last time for the same key if nothing was written since.

        Readers ask again after they have checked who runs an update, and pages every few seconds; mostly, nothing has
        happened meanwhile. The queries of *read* see one version. Of each name, one reading is kept.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        table = self._newest()
        if table is None:
            return read()
        version, known = table.version(), self._read.get(name)
        if known is None or known[:2] != (version, key):
            was_pinned, self._is_pinned = self._is_pinned, True
            try:
                known = version, key, read()
            finally:
                self._is_pinned = was_pinned
            self._read[name] = known
        found: _Read = known[2]
        return found

    def warnings(self, update_id: str) -> list[Warned]:
        """The warnings of an update, in order."""
        first = created_at(self, update_id)
        where = f"event_type = '{Warned.event_type}'" + (f" AND id >= '{id_floor(first)}'" if first else "")
        rows = (row for row in self.rows(", ".join(EVENT_COLUMNS), where) if row["origin"]["update_id"] == update_id)
        return [event for row in rows if isinstance(event := from_row(row), Warned)]

    def last_batches(self, first: str = "") -> dict[tuple[str, str], tuple[int, int]]:
        """The newest epoch and its newest batch, by the names of flow and dataset.

        Epochs below zero are backfills, which are not progress of the flow.

        Args:
            first: the smallest id of the events to read.
        """
        names = (
            "origin['flow_name'] AS flow",
            "origin['dataset_name'] AS dataset",
            "origin['epoch'] AS epoch",
            "max(origin['batch_id']) AS batch",
        )
        condition = f"event_type = '{BatchDone.event_type}' AND origin['epoch'] >= 0"
        condition += f" AND id >= {sql_literal(first)}" if first else ""
        condition += " AND origin['batch_id'] IS NOT NULL GROUP BY 1, 2, 3"
        found: dict[tuple[str, str], tuple[int, int]] = {}
        for row in self.rows(", ".join(names), condition, "1"):
            key = (str(row["flow"]), str(row["dataset"]))
            found[key] = max(found.get(key, (-1, -1)), (int(row["epoch"]), int(row["batch"])))
        return found

    def flow_totals(self) -> dict[str, FlowCounts]:
        """The counts of each flow over all updates, each batch counted once."""
        tally = Tally()
        for batch in _batches(self, "origin['batch_id'] IS NOT NULL"):
            tally.add(batch)
        return tally.totals

    def rows(self, columns: str, where: str, order: str = "id") -> list[dict[str, Any]]:
        """Rows of the newest version.

        Args:
            columns: SQL of our own.
            where: SQL of our own, with numbers and ids; never user input.
            order: SQL of our own.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        return self._query(f"SELECT {columns} FROM events WHERE {where} ORDER BY {order}")  # noqa: S608 - see above

    def last_ids(self, where: str, rows: int) -> list[str]:
        """The ids at which parts of the rows end that have a number of rows each; the last part may be smaller.

        Args:
            where: SQL of our own.
            rows: of a part.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        numbered = f"SELECT id, row_number() OVER (ORDER BY id) AS number FROM events WHERE {where}"  # noqa: S608
        found = self._query(f"SELECT id FROM ({numbered}) WHERE number % {int(rows)} = 0 ORDER BY id")  # noqa: S608
        return [row["id"] for row in found]

    def unreadable(self, error: BaseException) -> PipelineError:
        """The error EVENTS.NOT_READABLE of this log."""
        return PipelineError("EVENTS.NOT_READABLE", path=self._path, reason=reason_of(error))

    def _query(self, query: str) -> list[dict[str, Any]]:
        table = self._newest()
        if table is None:
            return []
        try:
            rows = plain_rows(table, "events", query)
        except STORAGE_ERRORS as error:
            raise self.unreadable(error) from error
        for row in rows:
            if "timestamp" in row:
                row["timestamp"] = _EPOCH + timedelta(microseconds=row["timestamp"])
        return rows

    def _newest(self) -> DeltaTable | None:
        if self._is_pinned:
            return self._table
        try:
            if self._table is not None and not _updated(self._table):
                self._table = None
            if self._table is None and is_delta(self._path):
                self._table, self._read = open_delta(self._path), {}
        except STORAGE_ERRORS as error:
            raise self.unreadable(error) from error
        return self._table


def batch_counts(reader: EventReader, flow: str, epoch: int, batch_id: int) -> FlowCounts | None:
    """The counts of the first record of a batch; None if it was not recorded."""
    condition = f"origin['epoch'] = {int(epoch)} AND origin['batch_id'] = {int(batch_id)}"
    for batch in _batches(reader, condition):
        if batch.flow == flow:
            return batch.counts
    return None


def _batches(reader: EventReader, condition: str) -> Iterator[BatchDone]:
    where = f"event_type = '{FlowStateChanged.event_type}' AND {condition}"
    for row in reader.rows(", ".join(EVENT_COLUMNS), where):
        event = from_row(row)
        if isinstance(event, BatchDone):
            yield event


def _rebuilt_outcome(reader: EventReader, update_id: str | None) -> Outcome | None:
    newest = _newest_of(reader, UpdateCreated.event_type, 0)
    if newest is None:
        return None
    update_id = update_id or str(newest["origin"]["update_id"])
    is_newest = newest["origin"]["update_id"] == update_id
    first = seq_no_of(newest["id"]) if is_newest else created_at(reader, update_id)
    if first is None:
        return None
    # Updates follow each other; to compare ids is cheaper than to parse the origin of each row.
    of_update = f"id >= '{id_floor(first)}'"
    if not is_newest:
        begins = f"event_type = '{UpdateCreated.event_type}' AND id >= '{id_floor(first + 1)}'"
        of_update += f" AND id < '{reader.rows('id', begins, 'id LIMIT 1')[0]['id']}'"
    rows = _last_reports(reader, update_id, of_update)
    always = f"(level <> '{Level.METRICS.value}' OR event_type = '{TableEvaluated.event_type}')"
    rows += reader.rows(", ".join(EVENT_COLUMNS), f"{of_update} AND {always}")
    builder = OutcomeBuilder(update_id)
    for row in sorted(rows, key=lambda row: str(row["id"])):
        # The process of an earlier update may still record events.
        event = from_row(row) if row["origin"]["update_id"] == update_id else None
        if event is not None:
            builder.apply(event, row["timestamp"])
    return builder.outcome()


def _last_reports(reader: EventReader, update_id: str, of_update: str) -> list[dict[str, Any]]:
    """The newest totals of an update, the batches after them, and of each flow the newest report of each kind."""
    columns = ", ".join(EVENT_COLUMNS)
    own = f"{of_update} AND origin['update_id'] = {sql_literal(update_id)}"
    totals = reader.rows(columns, f"{own} AND event_type = '{UpdateTotals.event_type}'", "id DESC LIMIT 1")
    after = f" AND id > '{totals[0]['id']}'" if totals else ""
    if totals and _has_reports(totals[0]):
        # What follows is little, but in many small files, which each query would open.
        return [*totals, *reader.rows(columns, f"{of_update} AND {_COUNTED}{after}")]
    # Totals of an older version: of many reports, the newest ones count.
    # The newest batch of a flow ends its progress, also if the totals include it.
    newest = [row["id"] for row in reader.rows("max(id) AS id", f"{own} AND {_REPORTS}", "1")]
    batches = f"level = '{Level.METRICS.value}' AND origin['batch_id'] IS NOT NULL{after}"
    found = [*totals, *reader.rows(columns, f"{of_update} AND {batches}")]
    known = {row["id"] for row in found}
    single = ", ".join(sql_literal(one) for one in newest if one not in known)
    return found + (reader.rows(columns, f"id IN ({single})") if single else [])


def _has_reports(totals: Row) -> bool:
    event = from_row(totals)
    return isinstance(event, UpdateTotals) and event.reports is not None


def _updated(table: DeltaTable) -> bool:
    """Update a table to its newest version; False if the commits in between are deleted."""
    try:
        table.update_incremental()
    except STORAGE_ERRORS:
        return False
    return True


def _newest_of(reader: EventReader, event_type: str, first: int) -> dict[str, Any] | None:
    """The newest row of a type, starting at a sequence number."""
    where = f"event_type = '{event_type}' AND id >= '{id_floor(first)}'"
    rows = reader.rows(", ".join(_KEYS), where, "id DESC LIMIT 1")
    return rows[0] if rows else None


def created_at(reader: EventReader, update_id: str) -> int | None:
    """The sequence number of the event that created an update; None if it is not in the log."""
    newest = _newest_of(reader, UpdateCreated.event_type, 0)
    if newest is None:
        return None
    if newest["origin"]["update_id"] == update_id:
        return seq_no_of(newest["id"])
    rows = reader.rows(", ".join(_KEYS), f"event_type = '{UpdateCreated.event_type}'")
    return next(
        (seq_no_of(row["id"]) for row in rows if row["origin"]["update_id"] == update_id),
        None,
    )
