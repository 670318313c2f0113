"""The events of all updates, for readers that continue where they stopped."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from headrace.delta_log.tables import sql_literal
from headrace.events.envelope import from_row, id_floor, seq_no_of
from headrace.events.expiry import Horizon
from headrace.events.levels import Level
from headrace.events.reader import EVENT_COLUMNS, EventReader, created_at
from headrace.events.types import (
    TERMINAL_UPDATE_STATES,
    BatchDone,
    DatasetDefined,
    Event,
    FlowLagMetrics,
    FlowStateChanged,
    StreamProgress,
    TableEvaluated,
    UpdateCreated,
    UpdateStateChanged,
)
from headrace.events.upkeep import LogTrimmed

# Rows that are read at once: those of a log of two months took 9 GB of memory.
ROWS_AT_ONCE = 20_000
_BATCH = f"(event_type = '{BatchDone.event_type}' AND origin['batch_id'] IS NOT NULL)"


@dataclass(frozen=True)
class Recorded:
    """An event of the log, with the id of its row."""

    row_id: str
    update_id: str
    at: datetime
    event: Event

    @property
    def sequence(self) -> int:
        """Its sequence number."""
        return seq_no_of(self.row_id)


def recorded_events(
    reader: EventReader, after_id: str | None = None, *, until: Horizon | None = None
) -> Iterator[Recorded]:
    """The events of all updates, oldest first; events that this version does not know are left out.

    Args:
        reader: of the log.
        after_id: the id of the last row already known; None for all.
        until: only the events that it covers.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    where = "TRUE" if after_id is None else f"id > {sql_literal(after_id)}"
    where += "" if until is None else f" AND {until.condition}"
    yield from _recorded(_rows(reader, where))


def find_update(reader: EventReader, beginning: str) -> str | None:
    """The id of the newest update whose id begins so; None without one.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    columns, where = "id, origin['update_id'] AS update_id", f"event_type = '{UpdateCreated.event_type}'"
    found = (str(row["update_id"]) for row in reader.rows(columns, where, "id DESC"))
    return next((update_id for update_id in found if update_id.startswith(beginning)), None)


def find_request(reader: EventReader, request_id: str) -> str | None:
    """The id of the newest update that answers a request; None without one.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    if not reader.exists:
        return None
    # The text of JSON may have the id elsewhere, too.
    where = f"event_type = '{UpdateCreated.event_type}' AND strpos(details, {sql_literal(request_id)}) > 0"
    for found in recorded_rows(reader, where, "id DESC"):
        if isinstance(found.event, UpdateCreated) and found.event.request_id == request_id:
            return found.update_id
    return None


def events_of_update(reader: EventReader, update_id: str, newest: int) -> Iterator[Recorded]:
    """The states of one update and of its flows, and their newest batches and reports of streams, oldest first.

    Args:
        reader: of the log.
        update_id: the update.
        newest: so many batches, and reports, of each flow.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    own = of_update(reader, update_id)
    states = ", ".join(f"'{kind.event_type}'" for kind in (UpdateCreated, UpdateStateChanged, FlowStateChanged))
    numbered = (
        "SELECT id, row_number() OVER (PARTITION BY origin['flow_name'], event_type ORDER BY id DESC) AS number "  # noqa: S608 - our words
        f"FROM events WHERE {own} AND ({_BATCH} OR event_type = '{StreamProgress.event_type}')"
    )
    columns = ", ".join(EVENT_COLUMNS)
    rows = reader.rows(columns, f"{own} AND level <> '{Level.METRICS.value}' AND event_type IN ({states})")
    # Their texts are read of the newest ones alone, in the files that have them: a long update has many others.
    newest_of_each = f"id IN (SELECT id FROM ({numbered}) WHERE number <= {int(newest)})"  # noqa: S608 - the same
    ids = [row["id"] for row in reader.rows("id", newest_of_each)]
    if ids:
        among = f"id >= {sql_literal(ids[0])} AND id IN ({', '.join(map(sql_literal, ids))})"
        found = {row["id"]: row for row in (*rows, *reader.rows(columns, among))}
        rows = [found[one] for one in sorted(found)]
    yield from _recorded(rows)


def has_ended(reader: EventReader, update_id: str) -> bool:
    """Whether the end of an update is recorded.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    where = f"{of_update(reader, update_id)} AND event_type = '{UpdateStateChanged.event_type}'"
    newest = [one.event for one in recorded_rows(reader, where, "id DESC LIMIT 1")]
    return any(isinstance(one, UpdateStateChanged) and one.state in TERMINAL_UPDATE_STATES for one in newest)


def recorded_rows(reader: EventReader, where: str, order: str = "id") -> list[Recorded]:
    """The events of the rows that a condition selects; those of other versions are left out.

    Args:
        reader: of the log.
        where: SQL of our own, with numbers and ids; never user input.
        order: SQL of our own.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    return list(_recorded(reader.rows(", ".join(EVENT_COLUMNS), where, order)))


def reports_of_flows(reader: EventReader, flows: Collection[str], newest: int) -> list[Recorded]:
    """The newest batches, results of table rules, and reports of streams, lag and state, of some flows; oldest first.

    Args:
        reader: of the log.
        flows: their names.
        newest: so many events of each flow, at most.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    if not flows:
        return []
    kinds = ", ".join(f"'{kind.event_type}'" for kind in (BatchDone, StreamProgress, FlowLagMetrics, TableEvaluated))
    numbered = (
        "SELECT id, row_number() OVER (PARTITION BY origin['flow_name'], event_type ORDER BY id DESC) AS number "  # noqa: S608 - our words
        f"FROM events WHERE level = '{Level.METRICS.value}' AND event_type IN ({kinds}) "
        f"AND {_of_flows(flows)}"
    )
    return recorded_rows(reader, f"id IN (SELECT id FROM ({numbered}) WHERE number <= {int(newest)})")  # noqa: S608 - the same


@dataclass(frozen=True)
class Stretch:
    """A part of the log: the events from a sequence number on, and before another one; None for no end."""

    first: int = 0
    before: int | None = None

    @property
    def condition(self) -> str:
        """What selects its rows."""
        end = "" if self.before is None else f" AND id < '{id_floor(self.before)}'"
        return f"id >= '{id_floor(self.first)}'{end}"


def batches_of_flows(
    reader: EventReader, flows: Collection[str], most: int, stretch: Stretch, *, from_oldest: bool = False
) -> list[Recorded]:
    """So many batches and results of table rules of some flows in a part of the log, oldest first.

    Args:
        reader: of the log.
        flows: their names.
        most: how many, at most.
        stretch: the part of the log.
        from_oldest: of many, the oldest and not the newest.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    if not flows:
        return []
    kinds = f"({_BATCH} OR event_type = '{TableEvaluated.event_type}') AND level = '{Level.METRICS.value}'"
    where = f"{kinds} AND {_of_flows(flows)} AND {stretch.condition}"
    if from_oldest:
        return recorded_rows(reader, where, f"id LIMIT {int(most)}")
    return recorded_rows(reader, where, f"id DESC LIMIT {int(most)}")[::-1]


def stream_reports(reader: EventReader, flow: str, most: int, stretch: Stretch) -> list[Recorded]:
    """So many reports of a stream's batches in a part of the log, the oldest; oldest first.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    where = f"event_type = '{StreamProgress.event_type}' AND {_of_flows([flow])} AND {stretch.condition}"
    return recorded_rows(reader, where, f"id LIMIT {int(most)}")


def definitions_of(reader: EventReader, dataset: str, newest: int) -> list[Recorded]:
    """So many definitions of a dataset, the newest first.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    where = f"event_type = '{DatasetDefined.event_type}' AND origin['dataset_name'] = {sql_literal(dataset)}"
    return recorded_rows(reader, where, f"id DESC LIMIT {int(newest)}")


def batches_of_update(reader: EventReader, update_id: str) -> dict[str, int]:
    """How many batches of each flow an update has recorded.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    columns = (
        "origin['flow_name'] AS flow, count(DISTINCT (origin['epoch'] * 1000000000000 + origin['batch_id'])) AS found"
    )
    rows = reader.rows(columns, f"{of_update(reader, update_id)} AND {_BATCH} GROUP BY origin['flow_name']", "1")
    return {str(row["flow"]): int(row["found"]) for row in rows}


def _of_flows(flows: Iterable[str]) -> str:
    return f"origin['flow_name'] IN ({', '.join(map(sql_literal, sorted(flows)))})"


def of_update(reader: EventReader, update_id: str) -> str:
    """A condition of SQL for the events of one update, which skips the files of earlier ones.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    first = created_at(reader, update_id)
    return f"id >= '{id_floor(first or 0)}' AND origin['update_id'] = {sql_literal(update_id)}"


def _recorded(rows: Iterable[dict[str, Any]]) -> Iterator[Recorded]:
    for row in rows:
        try:
            event = from_row(row)
        except (LookupError, TypeError, ValueError, AttributeError):
            # Another version wrote it.
            continue
        if event is not None:
            yield Recorded(row["id"], row["origin"]["update_id"], row["timestamp"], event)


def _rows(reader: EventReader, where: str) -> Iterator[dict[str, Any]]:
    columns, after = ", ".join(EVENT_COLUMNS), ""
    for last in reader.last_ids(where, ROWS_AT_ONCE):
        yield from reader.rows(columns, f"{where}{after} AND id <= {sql_literal(last)}")
        after = f" AND id > {sql_literal(last)}"
    yield from reader.rows(columns, f"{where}{after}")


def newest_trimming(reader: EventReader, after_id: str | None = None) -> LogTrimmed | None:
    """What was last recorded before expired events were removed; None if none were.

    Args:
        reader: of the log.
        after_id: only what was recorded after the row with this id, which is cheaper; None for all.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    with suppress(LookupError, TypeError, ValueError, AttributeError):
        return _newest_trimming(reader, after_id)
    return None


def trimming_to_continue(reader: EventReader) -> LogTrimmed | None:
    """The same, for the process that records the next one, which has to include its metrics.

    Raises:
        PipelineError: EVENTS.NOT_READABLE, also if another version wrote it in a form that this version cannot read.
    """
    try:
        return _newest_trimming(reader, None)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise reader.unreadable(error) from error


def _newest_trimming(reader: EventReader, after_id: str | None) -> LogTrimmed | None:
    where = f"event_type = '{LogTrimmed.event_type}'"
    where += "" if after_id is None else f" AND id > {sql_literal(after_id)}"
    rows = reader.rows(", ".join(EVENT_COLUMNS), where, "id DESC LIMIT 1")
    if not rows:
        return None
    event = from_row(rows[0])
    if not isinstance(event, LogTrimmed):
        raise TypeError(f"the newest event of type {LogTrimmed.event_type} has another form")
    return event


def continues(reader: EventReader, row_id: str) -> bool:
    """Whether the log continues one that had a row with this id.

    True if the row is there, or if all rows are newer, because older ones were removed. False if the log was restored
    to an earlier state, or belongs to another pipeline.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    if reader.rows("id", f"id = {sql_literal(row_id)}"):
        return True
    (bounds,) = reader.rows("min(id) AS oldest", "TRUE", "1") or [{"oldest": None}]
    return bounds["oldest"] is not None and bounds["oldest"] > row_id
