"""Removes expired events from ``system/events``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from deltalake import DeltaTable, PostCommitHookProperties

from headrace.delta_log.plain_rows import file_values, plain_rows
from headrace.delta_log.tables import sql_literal
from headrace.events.envelope import id_floor, seq_no_at
from headrace.events.levels import Level
from headrace.events.types import BatchDone, Event, FlowStateChanged, StreamProgress, TableEvaluated, UpdateTotals

_NO_MAINTENANCE = PostCommitHookProperties(create_checkpoint=False, cleanup_expired_logs=False)
# Removing rows rewrites files, so it is done once a day, or more often if events are kept for less than ten days.
_MAX_STEP_S = 86_400.0
# delta-rs overflows its stack, which ends the process, if a list has about 10,000 values.
_MAX_LIST = 500
_NEVER = id_floor(0)


@dataclass(frozen=True)
class Retention:
    """How long events are kept, in seconds; None for forever.

    Attributes:
        all_s: any event.
        metrics_s: events of the level METRICS, which are those of each batch and each report of a stream. They are most
            of the log.
    """

    all_s: float | None = None
    metrics_s: float | None = None

    def horizon(self, now: datetime) -> Horizon:
        """What has expired; it advances in steps, so that few removals remove many rows."""
        before = _floor(now, self.all_s)
        return Horizon(before, max(before, _floor(now, self.metrics_s)))


@dataclass(frozen=True)
class Horizon:
    """The ids before which events have expired; lower than any id if nothing has."""

    before: str = _NEVER
    metrics_before: str = _NEVER

    def covers(self, row_id: str, event: Event) -> bool:
        """Whether an event has expired. Some of them are kept all the same: see :func:`remove_expired`."""
        return row_id < self.before or (row_id < self.metrics_before and is_expiring_metrics(event))

    def union(self, other: Horizon) -> Horizon:
        """Covers what one of the two covers."""
        return Horizon(max(self.before, other.before), max(self.metrics_before, other.metrics_before))

    @property
    def condition(self) -> str:
        """What :meth:`covers` says, as SQL."""
        return f"(id < '{self.before}' OR ({_METRICS} AND id < '{self.metrics_before}'))"


def is_expiring_metrics(event: Event) -> bool:
    """Whether an event expires with the metrics. The totals of an update are kept as long as its state."""
    return event.level is Level.METRICS and not isinstance(event, UpdateTotals)


_METRICS = f"(level = '{Level.METRICS.value}' AND event_type <> '{UpdateTotals.event_type}')"
# What is known of flows that ran before the horizon: batches, lag, state, and reports of streams.
_OF_FLOWS = f"event_type IN ('{BatchDone.event_type}', '{StreamProgress.event_type}')"
_BATCH = f"(event_type = '{BatchDone.event_type}' AND origin['batch_id'] IS NOT NULL)"
# Their counts are in the totals of the update.
_COUNTED = f"({_BATCH} OR event_type = '{TableEvaluated.event_type}')"


def begins_before(table: DeltaTable, horizon: Horizon) -> bool:
    """True if, by the statistics of the log, a file has or may have a row before a horizon; reads no file."""
    before = horizon.metrics_before
    return any(first is None or first < before for first in file_values(table, "min.id"))


def has_expired(table: DeltaTable, horizon: Horizon, update_id: str) -> bool:
    """Whether there are rows to remove."""
    if not begins_before(table, horizon):
        return False
    return bool(_removable(table, horizon, update_id).rows)


def remove_expired(table: DeltaTable, horizon: Horizon, update_id: str) -> None:
    """Remove the expired rows from an event log, with these exceptions.

    - Rows of *update_id*, which is running, except its metrics.
    - Batches and results of table rules without later totals of their update, unless all rows of their age have
      expired: their counts would be lost.
    - Of each flow the newest expired batch, report of lag, report of state and report of its stream. The newest batch
      distinguishes a new flow from one whose record or checkpoint is lost or an older copy; the others are the last
      known lag and state.

    Nobody may append meanwhile through a table that was opened earlier: delta-rs refuses to commit concurrently with a
    commit that removes rows.
    """
    # Files may have been compacted since.
    table.update_incremental()
    if not begins_before(table, horizon):
        return
    found = _removable(table, horizon, update_id)
    if found.rows:
        table.delete(found.condition, post_commithook_properties=_NO_MAINTENANCE)


@dataclass(frozen=True)
class _Removable:
    condition: str
    rows: int


def _removable(table: DeltaTable, horizon: Horizon, update_id: str) -> _Removable:
    running = f"origin['update_id'] = {sql_literal(update_id)}"
    condition = f"{horizon.condition} AND (NOT {running} OR {_METRICS})"
    kept_if_uncounted = f"({_COUNTED} AND (id >= '{horizon.before}' OR {running}))"
    uncounted = _column(
        table,
        f"SELECT DISTINCT batches.update_id AS found FROM "  # noqa: S608 - our own words, and literals
        f"(SELECT id, origin['update_id'] AS update_id FROM events WHERE {kept_if_uncounted} "
        f"AND id < '{horizon.metrics_before}') AS batches LEFT JOIN "
        f"(SELECT origin['update_id'] AS update_id, max(id) AS id FROM events "
        f"WHERE event_type = '{UpdateTotals.event_type}' GROUP BY origin['update_id']) AS totals "
        "ON totals.update_id = batches.update_id WHERE totals.id IS NULL OR totals.id < batches.id",
    )
    if uncounted:
        of_others = _none_of("origin['update_id']", uncounted)
        condition += f" AND (NOT {kept_if_uncounted} OR ({of_others}))"
    newest = _column(
        table,
        f"SELECT max(id) AS found FROM events WHERE {condition} AND level = '{Level.METRICS.value}' "  # noqa: S608
        f"AND {_OF_FLOWS} AND (origin['epoch'] IS NULL OR origin['epoch'] >= 0) "
        "GROUP BY origin['flow_name'], origin['dataset_name'], event_type, origin['batch_id'] IS NULL, "
        f"event_type = '{FlowStateChanged.event_type}' AND strpos(details, '\"state_operators\"') > 0",
    )
    if newest:
        condition += f" AND {_none_of('id', newest)}"
    (rows,) = _column(table, f"SELECT count(*) AS found FROM events WHERE {condition}")  # noqa: S608
    return _Removable(condition, int(rows))


def _none_of(column: str, values: Sequence[str]) -> str:
    """The condition that a column has none of many values."""
    parts = (values[start : start + _MAX_LIST] for start in range(0, len(values), _MAX_LIST))
    return " AND ".join(f"{column} NOT IN ({', '.join(map(sql_literal, part))})" for part in parts)


def _column(table: DeltaTable, query: str) -> list[str]:
    """The column ``found`` of a query's rows."""
    return [str(row["found"]) for row in plain_rows(table, "events", query)]


def _floor(now: datetime, keep_s: float | None) -> str:
    if keep_s is None:
        return _NEVER
    step_s = min(_MAX_STEP_S, keep_s / 10) or 1.0
    expired_s = now.astimezone(UTC).timestamp() - keep_s
    floor = datetime.fromtimestamp(0, UTC) + timedelta(seconds=expired_s // step_s * step_s)
    return id_floor(max(seq_no_at(floor), 0))
