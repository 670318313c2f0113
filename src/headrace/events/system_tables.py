"""The system tables as data: names, columns and their meanings. The reference page and tests are made from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from headrace.events.lakeflow_views import (
    PipelinesView,
    lakeflow_pipeline_events,
    lakeflow_pipelines,
)
from headrace.events.log_events import LogEvents
from headrace.events.streaming_views import streaming_queries, streaming_query_progress
from headrace.model.liveness import Liveness
from headrace.model.names import QualifiedName


@dataclass(frozen=True)
class SystemColumn:
    """A column: its name, its type in Spark SQL, and what it holds; None for what only the vendor's service knows."""

    name: str
    type: str
    meaning: str | None


@dataclass(frozen=True)
class SystemTable:
    """A table of ``headrace sql``: one row for each *row*."""

    name: QualifiedName
    row: str
    columns: tuple[SystemColumn, ...]

    @property
    def ddl(self) -> str:
        """Its columns for Spark."""
        return ", ".join(f"{column.name} {column.type}" for column in self.columns)


_TEXT, _LONG, _TIME, _REAL = "string", "bigint", "timestamp", "double"
_TEXTS = "array<string>"
_C = SystemColumn

QUERIES = SystemTable(
    QualifiedName("queries", "streaming", "system"),
    "run of a stream's query",
    (
        _C("id", _TEXT, "Spark's id of the query. It stays with the checkpoint"),
        _C("run_id", _TEXT, "Spark's id of the run. It changes with each start"),
        _C("name", _TEXT, "The flow. In scripts, the name of the query, or of its table"),
        _C(
            "status",
            _TEXT,
            "`ACTIVE`, `STOPPED`, `FAILED`, or `LOST` if its process ended without recording it",
        ),
        _C("exception", _TEXT, "The error of a failed query"),
        _C("dataset", _TEXT, "The dataset of the flow"),
        _C("epoch", _LONG, "The epoch of its checkpoint"),
        _C("batch_id", _LONG, "The newest batch. NULL before the first"),
        _C("started_at", _TIME, "When its first reported batch started"),
        _C("last_progress_at", _TIME, "When it last reported. In scripts, when its newest batch started"),
        _C("update_id", _TEXT, "The update"),
    ),
)
QUERY_PROGRESS = SystemTable(
    QualifiedName("query_progress", "streaming", "system"),
    "report of a stream: after a batch, at most every 10 seconds, and at its end. A row can cover several batches, "
    "whose rows and durations are added up. In scripts, one row for each batch",
    (
        _C("query_id", _TEXT, "`id` of the query"),
        _C("run_id", _TEXT, "`run_id` of the query"),
        _C("query_name", _TEXT, "`name` of the query"),
        _C("batch_id", _LONG, "The newest batch"),
        _C("timestamp", _TIME, "When the newest batch started"),
        _C("input_rows", _LONG, "Rows read"),
        _C(
            "input_rows_per_second",
            _REAL,
            "Rows per second since the batch of the previous report started. NULL for the first report",
        ),
        _C("processed_rows_per_second", _REAL, "Rows per second of batch time"),
        _C("batch_duration_ms", _LONG, "Time spent in the batches"),
        _C("batches", _LONG, "How many batches the row covers"),
        _C("dataset", _TEXT, "The dataset of the flow"),
        _C("epoch", _LONG, "The epoch of its checkpoint"),
        _C("watermark", _TIME, "The watermark after the newest batch. NULL without one"),
        _C("newest_event_time", _TIME, "The greatest event time of the batches. NULL without a watermark"),
        _C("slowest_phase", _TEXT, "The phase that took the most time"),
        _C("latest_offset_ms", _LONG, "Time spent on finding out what is new"),
        _C("query_planning_ms", _LONG, "Time spent on planning the query"),
        _C("wal_commit_ms", _LONG, "Time spent on storing the plan of the batch in the checkpoint"),
        _C("add_batch_ms", _LONG, "Time spent in the query, and on writing"),
        _C("commit_offsets_ms", _LONG, "Time spent on storing the end of the batch in the checkpoint"),
        _C("state_memory_bytes", _LONG, "Memory of the stateful operators"),
        _C("update_id", _TEXT, "The update"),
        _C("executor_run_ms", _LONG, "Time of the tasks, those of all cores added up. NULL if unknown"),
        _C("executor_cpu_ms", _LONG, "Processor time of the tasks, without that of Python functions. NULL if unknown"),
    ),
)
PIPELINES = SystemTable(
    QualifiedName("pipelines", "lakeflow", "system"),
    "pipeline, also if it has never run or cannot be read",
    (
        _C("account_id", _TEXT, None),
        _C("workspace_id", _TEXT, None),
        _C("pipeline_id", _TEXT, "The pipeline's id"),
        _C("pipeline_type", _TEXT, "`WORKSPACE`"),
        _C("name", _TEXT, "The setting `name`"),
        _C("created_by", _TEXT, None),
        _C("run_as", _TEXT, None),
        _C("tags", "map<string,string>", None),
        _C(
            "settings",
            "struct<photon:boolean,development:boolean,continuous:boolean,serverless:boolean,edition:string,channel:string>",
            "`development` and `continuous` from the settings. `photon` and `serverless` are false",
        ),
        _C("configuration", "map<string,string>", "NULL: it may contain secrets"),
        _C("change_time", _TIME, "When the settings file was last changed"),
        _C("delete_time", _TIME, None),
        _C("folder", _TEXT, "The folder of the project"),
        _C("lease_held", "boolean", "A process runs an update or a repair"),
        _C("problem", _TEXT, "Why the pipeline cannot be read. NULL if it can"),
    ),
)
PIPELINE_UPDATE_TIMELINE = SystemTable(
    QualifiedName("pipeline_update_timeline", "lakeflow", "system"),
    "update of each pipeline",
    (
        _C("account_id", _TEXT, None),
        _C("workspace_id", _TEXT, None),
        _C("pipeline_id", _TEXT, "The pipeline's id"),
        _C("update_id", _TEXT, "The update's id"),
        _C("update_type", _TEXT, "`FULL_REFRESH` if it cleared all tables that it computed, otherwise `REFRESH`"),
        _C("request_id", _TEXT, None),
        _C("run_as_user_name", _TEXT, "The operating system's name of the user who started it. NULL if unknown"),
        _C("trigger_type", _TEXT, "Why it ran: its cause, such as `USER_ACTION`"),
        _C("trigger_details", "struct<job_task:struct<job_id:string,job_task_run_id:string>>", None),
        _C("result_state", _TEXT, "`COMPLETED`, `FAILED`, `CANCELED` or `LOST`. NULL while it runs"),
        _C("compute", "struct<type:string,cluster_id:string>", None),
        _C("period_start_time", _TIME, "When it started"),
        _C("period_end_time", _TIME, "When it ended. NULL while it runs, and if it is lost"),
        _C("refresh_selection", _TEXTS, "The tables that were selected. Empty for all"),
        _C("full_refresh_selection", _TEXTS, "The tables that were selected for a full refresh"),
        _C("reset_checkpoint_selection", _TEXTS, "The flows whose checkpoints were reset"),
        _C("pipeline_name", _TEXT, "The setting `name`"),
        _C("state", _TEXT, "`result_state`, or `RUNNING`"),
        _C("error_code", _TEXT, "The code of the error that failed it"),
        _C("error_message", _TEXT, "The message of that error"),
    ),
)
PIPELINE_EVENTS = SystemTable(
    QualifiedName("pipeline_events", "lakeflow", "system"),
    "event of each pipeline",
    (
        _C("account_id", _TEXT, None),
        _C("workspace_id", _TEXT, None),
        _C("pipeline_id", _TEXT, "The pipeline's id"),
        _C("update_id", _TEXT, "The update's id"),
        _C("id", _TEXT, "Sorts like the sequence within a pipeline"),
        _C("sequence", "struct", "The order of the pipeline's events"),
        _C("origin", "struct", "Pipeline, update, dataset, flow, host, epoch and batch"),
        _C("timestamp", _TIME, "When it happened"),
        _C("message", _TEXT, "One readable line"),
        _C("level", _TEXT, "`INFO`, `WARN`, `ERROR` or `METRICS`"),
        _C("maturity_level", _TEXT, "`STABLE` or `EVOLVING`"),
        _C("error", "struct", "Of a failure"),
        _C("details", _TEXT, "JSON with one key, the event type"),
        _C("event_type", _TEXT, "The type"),
        _C("truncation", "struct", None),
        _C("pipeline_name", _TEXT, "The setting `name`"),
    ),
)

# Of the event log of one pipeline.
STREAMING_TABLES: Mapping[QualifiedName, Callable[[LogEvents, Liveness], pa.Table]] = {
    QUERIES.name: streaming_queries,
    QUERY_PROGRESS.name: streaming_query_progress,
}
# Of the event logs of all pipelines that are read, as texts of Spark SQL.
LAKEFLOW_VIEWS: Mapping[QualifiedName, PipelinesView] = {
    PIPELINES.name: lakeflow_pipelines,
    PIPELINE_EVENTS.name: lakeflow_pipeline_events,
}
SYSTEM_TABLES = (QUERIES, QUERY_PROGRESS, PIPELINES, PIPELINE_UPDATE_TIMELINE, PIPELINE_EVENTS)
