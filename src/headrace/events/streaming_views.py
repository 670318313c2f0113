"""The tables ``system.streaming.*``, computed from the event log without Spark.

As views of Spark over the events, they took seconds: parsing JSON and planning joins cost more than a query's own work.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder

from headrace.errors import PipelineError
from headrace.events.levels import Level
from headrace.events.storage_errors import STORAGE_ERRORS, reason_of
from headrace.events.stream_reports import REPORTS, TIME, reports_of
from headrace.events.types import TERMINAL_UPDATE_STATES, FlowStateChanged, UpdateCreated, UpdateStateChanged
from headrace.model.liveness import Liveness
from headrace.model.outcome import ACTIVE_STATES, FlowState, UpdateState

# How updates began, went on and ended, and the states of flows.
_STATES = (
    "SELECT id, event_type, origin['update_id'] AS update_id, origin['flow_name'] AS flow, details "  # noqa: S608 - our own words
    f"FROM events WHERE event_type IN ('{UpdateCreated.event_type}', '{UpdateStateChanged.event_type}') "
    f"OR (event_type = '{FlowStateChanged.event_type}' AND level <> '{Level.METRICS.value}') ORDER BY id"
)
_RUN = ("update_id", "query_id", "run_id")
_QUERIES = pa.schema(
    [
        *((name, pa.string()) for name in ("id", "run_id", "name", "status", "exception", "dataset")),
        *((name, pa.int64()) for name in ("epoch", "batch_id")),
        *((name, TIME) for name in ("started_at", "last_progress_at")),
        ("update_id", pa.string()),
    ]
)
# Columns of a report, and their names in the table.
_PROGRESS = {
    "query_id": "query_id",
    "run_id": "run_id",
    "flow": "query_name",
    "batch_id": "batch_id",
    "started_at": "timestamp",
    "input_rows": "input_rows",
    "input_rows_per_second": "input_rows_per_second",
    "processed_rows_per_second": "processed_rows_per_second",
    "duration_ms": "batch_duration_ms",
    "batches": "batches",
    "dataset": "dataset",
    "epoch": "epoch",
    "watermark": "watermark",
    "newest_event_time": "newest_event_time",
    "slowest_phase": "slowest_phase",
    "latest_offset_ms": "latest_offset_ms",
    "query_planning_ms": "query_planning_ms",
    "wal_commit_ms": "wal_commit_ms",
    "add_batch_ms": "add_batch_ms",
    "commit_offsets_ms": "commit_offsets_ms",
    "state_memory_bytes": "state_memory_bytes",
    "update_id": "update_id",
}


class StreamEvents:
    """What the tables are computed from: events of one version of a log, read when they are first needed."""

    def __init__(self, log: str) -> None:
        """Open a log.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        self._log = log
        with self._reading():
            self._table = DeltaTable(log)

    @cached_property
    def reports(self) -> pa.Table:
        """Reports of streams, with the columns of ``REPORT_SCHEMA``.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        with self._reading():
            return reports_of(self._batches(REPORTS))

    @cached_property
    def states(self) -> tuple[Mapping[str, Any], ...]:
        """The states of updates and flows, oldest first.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        with self._reading():
            return tuple(pa.Table.from_batches(self._batches(_STATES)).to_pylist())

    def _batches(self, query: str) -> pa.RecordBatchReader:
        return pa.RecordBatchReader.from_stream(QueryBuilder().register("events", self._table).execute(query))

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (*STORAGE_ERRORS, pa.ArrowException) as error:
            raise PipelineError("EVENTS.NOT_READABLE", path=self._log, reason=reason_of(error)) from error


def streaming_query_progress(events: StreamEvents, liveness: Liveness) -> pa.Table:
    """One row per report of a stream: one or more batches, whose rows and durations are added up."""
    del liveness
    reports = events.reports.filter(pc.greater(events.reports.column("batches"), 0))
    return reports.select(list(_PROGRESS)).rename_columns(list(_PROGRESS.values()))


def streaming_queries(events: StreamEvents, liveness: Liveness) -> pa.Table:
    """One row per run of a stream's query: its flow, status, last error and progress.

    ``status`` is ACTIVE, STOPPED, FAILED or LOST. Of several runs in an update, only the newest is not STOPPED.
    """
    states = _update_states(events.states, liveness)
    flows = _flow_states(events.states)
    runs = [run for run in _runs(events.reports) if run["update_id"] in states]
    newest: dict[tuple[str, str], str] = {}
    for run in runs:
        flow = (run["update_id"], run["flow_max"])
        newest[flow] = max(newest.get(flow, ""), run["id_max"])
    rows = []
    for run in runs:
        flow = (run["update_id"], run["flow_max"])
        body = flows.get(flow, {})
        has_failed = body.get("status") == FlowState.FAILED.value
        status = _status(str(body.get("status")), states[run["update_id"]])
        rows.append(
            {
                "id": run["query_id"],
                "run_id": run["run_id"],
                "name": run["flow_max"],
                "status": status if run["id_max"] == newest[flow] else "STOPPED",
                "exception": (body.get("error") or {}).get("message") if has_failed else None,
                "dataset": run["dataset_max"],
                "epoch": run["epoch_max"],
                "batch_id": None if run["batch_id_max"] == -1 else run["batch_id_max"],
                "started_at": run["started_at_min"],
                "last_progress_at": run["reported_at_max"],
                "update_id": run["update_id"],
            }
        )
    return pa.Table.from_pylist(rows, _QUERIES)


def _status(flow: str, update: str) -> str:
    """The status of the newest run of a flow, by the states of the flow and of its update."""
    if flow == FlowState.FAILED.value:
        return "FAILED"
    if flow not in {state.value for state in ACTIVE_STATES}:
        return "STOPPED"
    return {UpdateState.RUNNING.value: "ACTIVE", UpdateState.LOST.value: "LOST"}.get(update, "STOPPED")


def _runs(reports: pa.Table) -> list[dict[str, Any]]:
    newest = [(name, "max") for name in ("flow", "dataset", "epoch", "reported_at", "batch_id", "id")]
    runs: list[dict[str, Any]] = reports.group_by(_RUN).aggregate([*newest, ("started_at", "min")]).to_pylist()
    return runs


def _flow_states(states: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], Mapping[str, Any]]:
    """The body of the newest event about the state of each flow in each update."""
    newest = {
        (row["update_id"], row["flow"]): row["details"]
        for row in states
        if row["event_type"] == FlowStateChanged.event_type
    }
    return {flow: json.loads(details)[FlowStateChanged.event_type] for flow, details in newest.items()}


def _update_states(states: Iterable[Mapping[str, Any]], liveness: Liveness) -> dict[str, str]:
    """The state of each update whose begin is in the log; LOST if it has no end, and nobody may run it."""
    created: dict[str, str] = {}
    newest: dict[str, str] = {}
    for row in states:
        if row["event_type"] == UpdateCreated.event_type:
            created.setdefault(row["update_id"], row["id"])
        elif row["event_type"] == UpdateStateChanged.event_type:
            newest[row["update_id"]] = json.loads(row["details"])[UpdateStateChanged.event_type]["state"]
    latest = max(created.values(), default="")
    ended = {state.value for state in TERMINAL_UPDATE_STATES}
    found = {}
    for update_id, first in created.items():
        state = newest.get(update_id, "")
        # An older version of Headrace does not record which update its lease is for.
        may_run = liveness.may_run(update_id) and (liveness.update_id is not None or first == latest)
        may_run = may_run or (liveness.checked_after is not None and first > liveness.checked_after)
        running = UpdateState.RUNNING.value if may_run else UpdateState.LOST.value
        found[update_id] = state if state in ended else running
    return found
