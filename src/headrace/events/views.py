"""Flat Spark SQL views over the event log.

Each function takes the table as a quoted SQL identifier or ``delta.`path```, and whether a process holds the lease of
the pipeline. It returns the text of a SELECT. An update that has not ended is LOST without a holder, and if a newer one
exists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

from headrace.events.types import TERMINAL_UPDATE_STATES
from headrace.model.names import QualifiedName
from headrace.model.outcome import ACTIVE_STATES

View: TypeAlias = Callable[[str, bool], str]

_EXPECTATION = "struct<name: string, dataset: string, action: string, passed_records: bigint, failed_records: bigint>"
_METRIC = "struct<name: string, value: double, kind: string>"
_FLOW = "$.flow_progress"
_STREAM = "$.stream_progress"
_ENDED = ", ".join(sorted(f"'{state.value}'" for state in TERMINAL_UPDATE_STATES))
_ACTIVE = ", ".join(sorted(f"'{state.value}'" for state in ACTIVE_STATES))


def event_log_updates(table: str, is_held: bool) -> str:  # noqa: FBT001 - the signature of all views
    """One row per update: its cause and user, state, start and end, and the error that failed it."""
    return f"""
SELECT update_id, cause, user,
  CASE
    WHEN state IN ({_ENDED}) THEN state
    WHEN {"true" if is_held else "false"} AND created = max(created) OVER () THEN 'RUNNING'
    ELSE 'LOST'
  END AS state,
  started_at, ended_at, error_code, error_message
FROM (
  SELECT
    origin.update_id AS update_id,
    min(id) AS created,
    max(get_json_object(details, '$.create_update.cause')) AS cause,
    max(get_json_object(details, '$.create_update.user')) AS user,
    coalesce(max_by(get_json_object(details, '$.update_progress.state'), id)
      FILTER (WHERE event_type = 'update_progress'), 'RUNNING') AS state,
    min(timestamp) AS started_at,
    max(timestamp) FILTER (
      WHERE get_json_object(details, '$.update_progress.state') IN ({_ENDED})
    ) AS ended_at,
    max_by(get_json_object(details, '$.update_progress.error.code'), id)
      FILTER (WHERE event_type = 'update_progress') AS error_code,
    max_by(get_json_object(details, '$.update_progress.error.message'), id)
      FILTER (WHERE event_type = 'update_progress') AS error_message
  FROM {table}
  GROUP BY origin.update_id
  HAVING max(event_type = 'create_update')
)
""".strip()  # noqa: S608 - the table is quoted by the caller


def event_log_flows(table: str, is_held: bool) -> str:  # noqa: FBT001 - the same
    """One row per flow and update: its last state, rows, attempts and duration; duplicate batches count once."""
    return f"""
WITH updates AS ({event_log_updates(table, is_held)}),
batches AS ({_batches(table)}),
counted AS (
  SELECT update_id, flow, sum(rows_written) AS rows_written, sum(rows_dropped) AS rows_dropped,
    sum(rows_quarantined) AS rows_quarantined, count(*) AS batches
  FROM batches GROUP BY update_id, flow
),
moved AS ({_flow_states(table)})
SELECT moved.update_id, moved.flow, moved.dataset,
  {_state_of_flow("moved.state")} AS state,
  moved.reason,
  coalesce(counted.rows_written, 0) AS rows_written,
  coalesce(counted.rows_dropped, 0) AS rows_dropped,
  coalesce(counted.rows_quarantined, 0) AS rows_quarantined,
  coalesce(counted.batches, 0) AS batches,
  moved.attempts, moved.duration_s, moved.last_event_at
FROM moved
JOIN updates ON moved.update_id = updates.update_id
LEFT JOIN counted ON moved.update_id = counted.update_id AND moved.flow = counted.flow
""".strip()  # noqa: S608 - the table is quoted by the caller


def streaming_queries(table: str, is_held: bool) -> str:  # noqa: FBT001 - the same
    """One row per run of a stream's query: its flow, status, last error and progress.

    ``status`` is ACTIVE, STOPPED, FAILED or LOST. Of several runs in an update, only the newest is not STOPPED.
    """
    return f"""
WITH updates AS ({event_log_updates(table, is_held)}),
moved AS ({_flow_states(table)}),
runs AS (
  SELECT update_id, query_id, run_id, max(flow) AS flow, max(dataset) AS dataset, max(epoch) AS epoch,
    min(timestamp) AS started_at, max(reported_at) AS last_progress_at, max(newest_batch_id) AS batch_id,
    max(id) AS newest
  FROM ({_progress(table)}) GROUP BY update_id, query_id, run_id
)
SELECT runs.query_id AS id, runs.run_id, runs.flow AS name,
  CASE
    WHEN runs.newest < max(runs.newest) OVER (PARTITION BY runs.update_id, runs.flow) THEN 'STOPPED'
    WHEN moved.state = 'FAILED' THEN 'FAILED'
    WHEN moved.state IN ({_ACTIVE}) THEN CASE updates.state WHEN 'RUNNING' THEN 'ACTIVE' WHEN 'LOST' THEN 'LOST'
      ELSE 'STOPPED' END
    ELSE 'STOPPED'
  END AS status,
  CASE WHEN moved.state = 'FAILED' THEN moved.error END AS exception,
  runs.dataset, runs.epoch, nullif(runs.batch_id, -1) AS batch_id, runs.started_at, runs.last_progress_at,
  runs.update_id
FROM runs
JOIN updates ON runs.update_id = updates.update_id
LEFT JOIN moved ON runs.update_id = moved.update_id AND runs.flow = moved.flow
""".strip()  # noqa: S608 - the table is quoted by the caller


def streaming_query_progress(table: str, is_held: bool) -> str:  # noqa: FBT001 - the same
    """One row per report of a stream: one or more batches, whose rows and durations are added up."""
    del is_held
    return f"""
SELECT query_id, run_id, flow AS query_name, newest_batch_id AS batch_id, timestamp, input_rows,
  input_rows_per_second, processed_rows_per_second, batch_duration_ms, batches, dataset, epoch, watermark,
  newest_event_time, slowest_phase, latest_offset_ms, query_planning_ms, wal_commit_ms, add_batch_ms,
  commit_offsets_ms, state_memory_bytes,
  update_id
FROM ({_progress(table)})
WHERE batches > 0
""".strip()  # noqa: S608 - the table is quoted by the caller


def event_log_expectations(table: str, is_held: bool) -> str:  # noqa: FBT001 - the same
    """One row per expectation, flow and batch: the number of rows that passed and failed, and the action.

    Table rules have one row per update, without epoch and batch.
    """
    del is_held
    return f"""
SELECT update_id, flow, dataset, epoch, batch_id, timestamp, expectation.name AS expectation,
  expectation.action AS action, expectation.passed_records AS passed, expectation.failed_records AS failed
FROM (
  SELECT update_id, flow, dataset, epoch, batch_id, timestamp,
    explode(from_json(get_json_object(details, '{_FLOW}.data_quality.expectations'), 'array<{_EXPECTATION}>'))
      AS expectation
  FROM ({_batches(table)})
  UNION ALL
  SELECT origin.update_id, origin.flow_name, origin.dataset_name, CAST(NULL AS INT), CAST(NULL AS BIGINT), timestamp,
    explode(from_json(get_json_object(details, '$.table_judged.expectations'), 'array<{_EXPECTATION}>'))
  FROM {table}
  WHERE event_type = 'table_judged'
)
""".strip()  # noqa: S608 - the table is quoted by the caller


def event_log_broken_rows(table: str, is_held: bool) -> str:  # noqa: FBT001 - the same
    """One row per sampled row that violated an expectation, as the text of a JSON object."""
    del is_held
    sampled = "$.broken_rows"
    return f"""
SELECT update_id, flow, dataset, epoch, batch_id, timestamp, expectation, broken AS `row`
FROM (
  SELECT
    origin.update_id AS update_id,
    origin.flow_name AS flow,
    origin.dataset_name AS dataset,
    CAST(get_json_object(details, '{sampled}.epoch') AS INT) AS epoch,
    CAST(get_json_object(details, '{sampled}.batch_id') AS BIGINT) AS batch_id,
    timestamp,
    get_json_object(details, '{sampled}.expectation') AS expectation,
    explode(from_json(get_json_object(details, '{sampled}.rows'), 'array<string>')) AS broken
  FROM {table}
  WHERE event_type = 'broken_rows'
)
""".strip()  # noqa: S608 - the table is quoted by the caller


def event_log_metrics(table: str, is_held: bool) -> str:  # noqa: FBT001 - the same
    """One row per metric of the user, flow and batch. ``kind`` is ``total`` if values add up, else ``last``."""
    del is_held
    return f"""
SELECT update_id, flow, dataset, epoch, batch_id, timestamp, metric.name AS metric, metric.value AS value,
  metric.kind AS kind
FROM (
  SELECT update_id, flow, dataset, epoch, batch_id, timestamp,
    explode(from_json(get_json_object(details, '{_FLOW}.metrics.custom'), 'array<{_METRIC}>')) AS metric
  FROM ({_batches(table)})
)
""".strip()  # noqa: S608 - the table is quoted by the caller


VIEWS: Mapping[str, View] = {
    "event_log_updates": event_log_updates,
    "event_log_flows": event_log_flows,
    "event_log_expectations": event_log_expectations,
    "event_log_broken_rows": event_log_broken_rows,
    "event_log_metrics": event_log_metrics,
}
# Tables with the names that the documents of other systems use.
SYSTEM_VIEWS: Mapping[QualifiedName, View] = {
    QualifiedName("queries", "streaming", "system"): streaming_queries,
    QualifiedName("query_progress", "streaming", "system"): streaming_query_progress,
}


def _flow_states(table: str) -> str:
    """The last state of each flow in each update."""
    return f"""
  SELECT
    origin.update_id AS update_id,
    origin.flow_name AS flow,
    max(origin.dataset_name) AS dataset,
    max_by(get_json_object(details, '{_FLOW}.status'), id) AS state,
    max_by(get_json_object(details, '{_FLOW}.reason'), id) AS reason,
    max_by(get_json_object(details, '{_FLOW}.error.message'), id) AS error,
    max(CAST(get_json_object(details, '{_FLOW}.attempt') AS INT)) AS attempts,
    max_by(CAST(get_json_object(details, '{_FLOW}.duration_s') AS DOUBLE), id) AS duration_s,
    max(timestamp) AS last_event_at
  FROM {table}
  WHERE event_type = 'flow_progress' AND origin.batch_id IS NULL
  GROUP BY origin.update_id, origin.flow_name
""".strip()  # noqa: S608 - the table is quoted by the caller


def _state_of_flow(state: str) -> str:
    """The state of a flow in an update that may be lost."""
    return f"CASE WHEN updates.state = 'LOST' AND {state} IN ({_ACTIVE}) THEN 'LOST' ELSE {state} END"


def _progress(table: str) -> str:
    """The reports of streams, as columns."""
    columns = {
        "query_id": "STRING",
        "run_id": "STRING",
        "epoch": "BIGINT",
        "batches": "BIGINT",
        "input_rows": "BIGINT",
        "input_rows_per_second": "DOUBLE",
        "processed_rows_per_second": "DOUBLE",
        "watermark": "TIMESTAMP",
        "newest_event_time": "TIMESTAMP",
        "slowest_phase": "STRING",
    }
    renamed = {
        "newest_batch_id": ("batch_id", "BIGINT"),
        "timestamp": ("started_at", "TIMESTAMP"),
        "batch_duration_ms": ("duration_ms", "BIGINT"),
        "latest_offset_ms": ("phases_ms.latest_offset", "BIGINT"),
        "query_planning_ms": ("phases_ms.query_planning", "BIGINT"),
        "add_batch_ms": ("phases_ms.add_batch", "BIGINT"),
        "wal_commit_ms": ("phases_ms.wal_commit", "BIGINT"),
        "commit_offsets_ms": ("phases_ms.commit_offsets", "BIGINT"),
    }
    fields = {**{name: (name, kind) for name, kind in columns.items()}, **renamed}
    parsed = ",\n    ".join(
        f"CAST(get_json_object(details, '{_STREAM}.{field}') AS {kind}) AS {name}"
        for name, (field, kind) in fields.items()
    )
    return f"""
  SELECT
    id,
    timestamp AS reported_at,
    origin.update_id AS update_id,
    origin.flow_name AS flow,
    origin.dataset_name AS dataset,
    aggregate(
      from_json(get_json_object(details, '{_STREAM}.operators'), 'array<struct<memory_bytes: bigint>>'),
      0L, (total, operator) -> total + operator.memory_bytes
    ) AS state_memory_bytes,
    {parsed}
  FROM {table}
  WHERE event_type = 'stream_progress'
""".strip()  # noqa: S608 - the table is quoted by the caller


def _batches(table: str) -> str:
    """The first record of each batch within an update."""
    return f"""
  SELECT * FROM (
    SELECT
      origin.update_id AS update_id,
      origin.flow_name AS flow,
      origin.dataset_name AS dataset,
      origin.epoch AS epoch,
      origin.batch_id AS batch_id,
      timestamp,
      details,
      CAST(get_json_object(details, '{_FLOW}.metrics.num_output_rows') AS BIGINT) AS rows_written,
      CAST(get_json_object(details, '{_FLOW}.data_quality.dropped_records') AS BIGINT) AS rows_dropped,
      CAST(get_json_object(details, '{_FLOW}.data_quality.quarantined_records') AS BIGINT) AS rows_quarantined,
      row_number() OVER (
        PARTITION BY origin.update_id, origin.flow_name, origin.epoch, origin.batch_id ORDER BY id
      ) AS record
    FROM {table}
    WHERE event_type = 'flow_progress' AND origin.batch_id IS NOT NULL
  ) WHERE record = 1
""".strip()  # noqa: S608 - the table is quoted by the caller
