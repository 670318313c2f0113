"""The table ``system.lakeflow.pipeline_update_timeline``, computed from event logs without Spark.

Columns are those of the vendor's system table, and ours after them. Columns that only its service can fill are NULL.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from headrace.events.lakeflow_views import MonitoredPipeline
from headrace.events.log_events import LogEvents
from headrace.events.log_tables import event_log_updates
from headrace.events.stream_reports import TIME
from headrace.events.types import UpdateCreated
from headrace.model.outcome import UpdateState

_TEXTS = pa.list_(pa.string())
_SCHEMA = pa.schema(
    [
        *((name, pa.string()) for name in ("account_id", "workspace_id", "pipeline_id", "update_id", "update_type")),
        *((name, pa.string()) for name in ("request_id", "run_as_user_name", "trigger_type")),
        (
            "trigger_details",
            pa.struct([("job_task", pa.struct([("job_id", pa.string()), ("job_task_run_id", pa.string())]))]),
        ),
        ("result_state", pa.string()),
        ("compute", pa.struct([("type", pa.string()), ("cluster_id", pa.string())])),
        *((name, TIME) for name in ("period_start_time", "period_end_time")),
        *((name, _TEXTS) for name in ("refresh_selection", "full_refresh_selection", "reset_checkpoint_selection")),
        *((name, pa.string()) for name in ("pipeline_name", "state", "error_code", "error_message")),
    ]
)


def pipeline_update_timeline(pipelines: Iterable[MonitoredPipeline]) -> pa.Table:
    """One row per update of each pipeline that has a log.

    Raises:
        PipelineError: EVENTS.NOT_READABLE.
    """
    rows = [row for pipeline in pipelines if pipeline.log is not None for row in _updates(pipeline, pipeline.log)]
    return pa.Table.from_pylist(rows, _SCHEMA)


def _updates(pipeline: MonitoredPipeline, log: str) -> Iterable[dict[str, Any]]:
    events = LogEvents(log)
    created: dict[str, Mapping[str, Any]] = {}
    for row in events.states:
        if row["event_type"] == UpdateCreated.event_type:
            created.setdefault(row["update_id"], row)
    for update in event_log_updates(events, pipeline.liveness).to_pylist():
        first = created[update["update_id"]]
        selected = json.loads(first["details"])[UpdateCreated.event_type].get("selections") or {}
        clears = selected.get("full_refresh_all") or (selected.get("full_refresh") and not selected.get("refresh"))
        state = update["state"]
        yield {
            "pipeline_id": first["pipeline_id"],
            "update_id": update["update_id"],
            "update_type": "FULL_REFRESH" if clears else "REFRESH",
            "run_as_user_name": update["user"],
            "trigger_type": update["cause"],
            "result_state": None if state == UpdateState.RUNNING.value else state,
            "period_start_time": update["started_at"],
            "period_end_time": update["ended_at"],
            "refresh_selection": selected.get("refresh"),
            "full_refresh_selection": selected.get("full_refresh"),
            "reset_checkpoint_selection": selected.get("reset_checkpoint"),
            "pipeline_name": pipeline.name,
            "state": state,
            "error_code": update["error_code"],
            "error_message": update["error_message"],
        }
