"""The tables ``system.streaming.*``, computed from the event log without Spark.

As views of Spark over the events, they took seconds: parsing JSON and planning joins cost more than a query's own work.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from headrace.events.log_events import LogEvents
from headrace.events.stream_reports import TIME
from headrace.events.update_states import flow_states, update_states
from headrace.model.liveness import Liveness
from headrace.model.outcome import ACTIVE_STATES, FlowState, UpdateState

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
    "executor_run_ms": "executor_run_ms",
    "executor_cpu_ms": "executor_cpu_ms",
}


def streaming_query_progress(events: LogEvents, liveness: Liveness) -> pa.Table:
    """One row per report of a stream: one or more batches, whose rows and durations are added up."""
    del liveness
    reports = events.reports.filter(pc.greater(events.reports.column("batches"), 0))
    return reports.select(list(_PROGRESS)).rename_columns(list(_PROGRESS.values()))


def streaming_queries(events: LogEvents, liveness: Liveness) -> pa.Table:
    """One row per run of a stream's query: its flow, status, last error and progress.

    ``status`` is ACTIVE, STOPPED, FAILED or LOST. Of several runs in an update, only the newest is not STOPPED.
    """
    states = update_states(events.states, liveness)
    flows = flow_states(events.states)
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
