"""Metrics of flows from their folders in the storage: waiting batches, old epochs, state, and unread input."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from headrace.checkpoints.offsets import open_batch_planned_at, read_progress
from headrace.checkpoints.state_size import state_sizes
from headrace.delta_log.unread_commits import BETWEEN_COMMITS, unread_commits
from headrace.errors import PipelineError
from headrace.events.storage_errors import STORAGE_ERRORS
from headrace.metrics import catalogue
from headrace.metrics.dataset_lag import dataset_lags
from headrace.metrics.fold import EventFold
from headrace.metrics.samples import Samples
from headrace.model.outcome import ACTIVE_STATES
from headrace.settings.settings import Settings
from headrace.storage.inventory import StoredFlow, stored_flows
from headrace.storage.spill_queue import delivered_at, waiting_batches

_ACTIVE = frozenset(state.value for state in ACTIVE_STATES)


def add_stored_flows(
    samples: Samples, settings: Settings, fold: EventFold, tables: Mapping[str, str], now: float
) -> None:
    """Add the metrics of flows from the storage, and the lag of their datasets.

    Args:
        samples: receives them.
        settings: the pipeline's.
        fold: the metrics of its events.
        tables: the paths of the tables in the storage by Delta's ids.
        now: the time in seconds since 1970.
    """
    flows = fold.definitions.flows
    active = {flow for flow, _, state in samples.of(catalogue.FLOW_STATE) if state in _ACTIVE}
    # What a running stream reports of sources outside of the storage.
    unread_s = {flow: fold.unread.age_s(flow, now) for flow in active}
    for flow in stored_flows(settings.layout, settings.naming):
        if flow.name not in flows:
            continue
        # What cannot be read is reported by the update that needs it.
        with suppress(PipelineError, ValueError, LookupError, TypeError, *STORAGE_ERRORS):
            _add_flow(samples, flow)
            _add_sinks(samples, flow, fold)
            stored_s = _oldest_unread_s(flow, tables, now)
            unread_s[flow.name] = unread_s.get(flow.name) if stored_s is None else stored_s
    for dataset, lag in dataset_lags(flows, unread_s).items():
        if lag.local is not None:
            samples.set(catalogue.LOCAL_LAG, round(lag.local, 3), dataset)
        if lag.total is not None:
            samples.set(catalogue.GLOBAL_LAG, round(lag.total, 3), dataset)


def _add_flow(samples: Samples, flow: StoredFlow) -> None:
    folder = flow.file.parent
    epochs = {int(entry.name) for entry in folder.iterdir() if entry.name.isdigit() and entry.is_dir()}
    if epochs:
        samples.set(catalogue.OLD_EPOCHS, len(epochs - {flow.record.epoch}), flow.name)
    checkpoint = folder / str(flow.record.epoch)
    open_batch_at = open_batch_planned_at(checkpoint)
    if open_batch_at is not None:
        samples.set(catalogue.OPEN_BATCH, round(open_batch_at, 3), flow.name)
    sizes = state_sizes(checkpoint)
    if sizes:
        samples.set(catalogue.STATE_DISK, sum(sizes), flow.name)


def _add_sinks(samples: Samples, flow: StoredFlow, fold: EventFold) -> None:
    folder, target = flow.file.parent, str(flow.dataset)
    queues = waiting_batches(folder, target)
    dataset = fold.definitions.datasets.get(target)
    if dataset is not None and dataset.is_sink:
        # Every sink has the metric, so that rules know of those that got nothing yet.
        queues = {target: [], **queues}
    for sink, batches in queues.items():
        samples.set(catalogue.SINK_WAITING_BATCHES, len(batches), flow.name, sink)
        samples.set(catalogue.SINK_WAITING_ROWS, sum(batch.rows() for batch in batches), flow.name, sink)
        samples.set(catalogue.SINK_WAITING_BYTES, sum(batch.size() for batch in batches), flow.name, sink)
        # A batch that waits is recorded like one that was delivered.
        direct_at = min(batch.spilled_at() for batch in batches) if batches else fold.last_rows_at.get(flow.name)
        known = [at for at in (direct_at, delivered_at(folder, sink)) if at is not None]
        if known:
            samples.set(catalogue.SINK_LAST_DELIVERY, round(max(known), 3), flow.name, sink)


def _oldest_unread_s(flow: StoredFlow, tables: Mapping[str, str], now: float) -> float | None:
    """The age of the oldest commit that a flow has not read; None if one of its inputs is no table of the storage."""
    positions = list(_positions(flow, tables))
    if not positions or None in positions:
        return None
    oldest_s = 0.0
    for path, version, index, in_snapshot in filter(None, positions):
        unread = unread_commits(path, version, index, in_snapshot=in_snapshot)
        if unread.oldest_at_ms is not None:
            oldest_s = max(oldest_s, now - unread.oldest_at_ms / 1000)
        elif unread.commits:
            # Log clean-up has removed them.
            return None
    return oldest_s


def _positions(flow: StoredFlow, tables: Mapping[str, str]) -> Iterator[tuple[str, int, int, bool] | None]:
    """Where a flow stands in each of its inputs: path, version, file, and whether it reads the initial rows."""
    for read in flow.record.inputs.values():
        # A materialized view has read the whole version.
        yield (tables[read.table_id], read.version + 1, BETWEEN_COMMITS, False) if read.table_id in tables else None
    progress = None if flow.record.inputs else read_progress(flow.file.parent / str(flow.record.epoch))
    if progress is not None and progress.completed:
        yield from (_position(offset, tables) for offset in progress.offsets)


def _position(offset: Any, tables: Mapping[str, str]) -> tuple[str, int, int, bool] | None:
    """The position of Delta's ``DeltaSourceOffset``; None for another offset, and for a table elsewhere."""
    path = tables.get(str(offset.get("reservoirId"))) if isinstance(offset, dict) else None
    if path is None:
        return None
    index = max(int(offset["index"]), BETWEEN_COMMITS)
    return path, int(offset["reservoirVersion"]), index, bool(offset.get("isStartingVersion"))
