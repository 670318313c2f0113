"""What the event log has of the latest updates: definitions, failures, warnings, and the newest reports of streams."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from headrace.assistant.doctor.checks import checks
from headrace.assistant.doctor.facts import Backlog, Facts, Failure, Logged, PastWarning
from headrace.assistant.doctor.stream_readers import flows_without_limit
from headrace.events.envelope import from_row, id_floor, seq_no_at, seq_no_of
from headrace.events.levels import Level
from headrace.events.reader import EVENT_COLUMNS, EventReader
from headrace.events.types import (
    BatchDone,
    DatasetDefined,
    Event,
    FlowDefined,
    FlowLagMetrics,
    FlowStateChanged,
    SinkDefined,
    StreamProgress,
    UpdateCreated,
    Warned,
)
from headrace.model.outcome import FlowState
from headrace.model.stream_progress import StreamBatches

_UPDATES = 50
_REPORTS = 400
_FAILURES = 500
_WARNINGS = 1000
_FIRST_BATCHES = 10
# Rows that were lost stay lost after the next update.
_LOST_ROWS_S = 86_400.0
_READ_AGAIN_S = 60.0
_DEFINITIONS = ", ".join(f"'{kind.event_type}'" for kind in (DatasetDefined, SinkDefined, FlowDefined))
_CLEARED = "TABLE.CLEARED"
# The reader leaves the pipeline out of the origin.
_COLUMNS = ", ".join((*EVENT_COLUMNS, "origin['pipeline_id'] AS pipeline_id"))
_ABOUT_LOST_ROWS = frozenset((*checks()["data-lost"].warnings, *checks()["late-dropped"].warnings))


def logged_facts(reader: EventReader, now: float) -> Logged:
    """What the event log has.

    Args:
        reader: of the log.
        now: the time in seconds since 1970.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    # Warnings that are too old for it by now may stay for so long.
    return reader.read_once("facts", now // _READ_AGAIN_S, lambda: _read(reader, now))


def _read(reader: EventReader, now: float) -> Logged:
    updates = list(_events(reader, f"event_type = '{UpdateCreated.event_type}'", _UPDATES))
    if not updates:
        return Logged()
    newest, created = updates[0]
    definitions = [event for _, event in _events(reader, _since_whole_update(updates), None)]
    warnings = tuple(_warnings(reader, newest, now))
    return Logged(
        started_at=newest["timestamp"].timestamp(),
        config=created.settings if isinstance(created, UpdateCreated) else {},
        pipelines=tuple(str(row["pipeline_id"]) for row, _ in reversed(updates)),
        flows={one.flow: one for one in definitions if isinstance(one, FlowDefined)},
        datasets={one.dataset: one for one in definitions if isinstance(one, DatasetDefined)},
        sinks={one.dataset: one for one in definitions if isinstance(one, SinkDefined)},
        failures=_failures(reader, updates),
        warnings=tuple(one for one in warnings if one.event.code != _CLEARED),
        cleared={one.event.dataset: one.at for one in warnings if one.event.code == _CLEARED and one.event.dataset},
        backlogs=_backlogs(reader, newest),
        batches=_stream_reports(reader, newest),
    )


def _events(reader: EventReader, where: str, newest: int | None) -> Iterator[tuple[Mapping[str, Any], Event]]:
    """Rows with their events: all, oldest first; or so many, newest first. Those of other versions are left out."""
    order = "id" if newest is None else f"id DESC LIMIT {int(newest)}"
    for row in reader.rows(_COLUMNS, where, order):
        try:
            event = from_row(row)
        except (LookupError, TypeError, ValueError, AttributeError):
            continue
        if event is not None:
            yield row, event


def _since_whole_update(updates: Sequence[tuple[Mapping[str, Any], Event]]) -> str:
    """The definitions of the newest update of all flows, and of later ones."""
    whole = (row for row, event in updates if isinstance(event, UpdateCreated) and event.is_whole)
    first = next(whole, updates[-1][0])
    return f"event_type IN ({_DEFINITIONS}) AND id >= '{id_floor(seq_no_of(first['id']))}'"


def _failures(reader: EventReader, updates: Sequence[tuple[Mapping[str, Any], Event]]) -> dict[str, Failure]:
    first = id_floor(seq_no_of(updates[-1][0]["id"]))
    where = (
        f"event_type = '{FlowStateChanged.event_type}' AND level IN ('{Level.ERROR.value}', '{Level.WARN.value}') "
        f"AND id >= '{first}'"
    )
    found: dict[str, Failure] = {}
    for _, event in _events(reader, where, _FAILURES):
        if isinstance(event, FlowStateChanged) and event.error:
            is_final = event.state is FlowState.FAILED
            found.setdefault(event.flow, Failure(event.flow, event.dataset, event.error, is_final))
    return found


def _warnings(reader: EventReader, newest: Mapping[str, Any], now: float) -> Iterator[PastWarning]:
    """The warnings of the latest update, and those of a day that rows were lost, or tables cleared; oldest first."""
    recent = datetime.fromtimestamp(now, UTC) - timedelta(seconds=_LOST_ROWS_S)
    first = min(seq_no_at(recent), seq_no_of(newest["id"]))
    where = f"event_type = '{Warned.event_type}' AND id >= '{id_floor(first)}'"
    for row, event in reversed(list(_events(reader, where, _WARNINGS))):
        in_latest = row["origin"]["update_id"] == newest["origin"]["update_id"]
        if isinstance(event, Warned) and (in_latest or event.code in _ABOUT_LOST_ROWS or event.code == _CLEARED):
            yield PastWarning(row["timestamp"].timestamp(), event, in_latest)


def _backlogs(reader: EventReader, newest: Mapping[str, Any]) -> dict[str, tuple[Backlog, ...]]:
    where = (
        f"event_type = '{FlowLagMetrics.event_type}' AND level = '{Level.METRICS.value}' "
        f"AND origin['batch_id'] IS NULL AND id >= '{newest['id']}'"
    )
    found: defaultdict[str, list[Backlog]] = defaultdict(list)
    for row, event in _events(reader, where, _REPORTS):
        if isinstance(event, FlowLagMetrics):
            found[event.flow].insert(0, Backlog(row["timestamp"].timestamp(), dict(_unread(event))))
    return {flow: tuple(samples) for flow, samples in found.items()}


def _unread(event: FlowLagMetrics) -> Iterator[tuple[tuple[str, str], float]]:
    by_topic: defaultdict[str, float] = defaultdict(float)
    for partition in event.lag:
        by_topic[partition.topic] += partition.behind
    yield from (((topic, "records"), behind) for topic, behind in by_topic.items())
    yield from (((one.source, "files"), one.files) for one in event.backlog)
    yield from (((one.source, "commits"), one.commits) for one in event.tables)
    for source in event.sources:
        # The first that is known says enough.
        unit, behind = next(iter(source.behind.items()), ("", 0.0))
        if unit:
            yield (source.source, unit), behind


def _stream_reports(reader: EventReader, newest: Mapping[str, Any]) -> dict[str, tuple[StreamBatches, ...]]:
    where = f"event_type = '{StreamProgress.event_type}' AND id >= '{newest['id']}'"
    found: defaultdict[str, list[StreamBatches]] = defaultdict(list)
    for _, event in _events(reader, where, _REPORTS):
        if isinstance(event, StreamProgress) and event.progress.batches:
            found[event.flow].insert(0, event.progress)
    return {flow: tuple(reports) for flow, reports in found.items()}


def with_first_rows(facts: Facts, reader: EventReader) -> Facts:
    """The facts with the rows of the first batches of flows whose readers have no limit.

    The first batches can be anywhere in the log, so that it is read for such flows alone.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    flows = flows_without_limit(facts)
    rows = _first_rows(reader, flows) if flows else {}
    return replace(facts, logged=replace(facts.logged, first_rows=rows))


def _first_rows(reader: EventReader, flows: Collection[str]) -> dict[str, tuple[int, ...]]:
    """By flow, the rows that the first batches of its newest epoch read, oldest first."""
    where = (
        f"event_type = '{BatchDone.event_type}' AND origin['epoch'] >= 0 "
        f"AND origin['batch_id'] >= 0 AND origin['batch_id'] < {_FIRST_BATCHES}"
    )
    found: dict[str, dict[int, int]] = {}
    epochs: dict[str, int] = {}
    for _, event in _events(reader, where, None):
        if isinstance(event, BatchDone) and event.flow in flows:
            if event.epoch > epochs.get(event.flow, -1):
                epochs[event.flow], found[event.flow] = event.epoch, {}
            if event.epoch == epochs[event.flow]:
                found[event.flow].setdefault(event.batch_id, event.counts.rows_read)
    return {flow: tuple(rows for _, rows in sorted(batches.items())) for flow, batches in found.items()}
