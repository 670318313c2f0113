"""The tables ``system.streaming.*`` as Spark SQL over the event log; see :mod:`headrace.events.views`."""

from __future__ import annotations

from headrace.events.types import StreamProgress
from headrace.events.views import ACTIVE, event_log_updates, flow_states
from headrace.model.liveness import Liveness
from headrace.model.stream_progress import PHASES

# Parsed at once: to look up each field in the JSON would parse it again for each.
_PHASES = ", ".join(f"{name}: bigint" for name in PHASES.values())
_BODY = (
    "query_id: string, run_id: string, epoch: bigint, batch_id: bigint, batches: bigint, started_at: string, "
    "duration_ms: bigint, input_rows: bigint, input_rows_per_second: double, processed_rows_per_second: double, "
    "watermark: string, newest_event_time: string, slowest_phase: string, "
    f"phases_ms: struct<{_PHASES}>, operators: array<struct<memory_bytes: bigint>>"
)


def streaming_queries(table: str, liveness: Liveness) -> str:
    """One row per run of a stream's query: its flow, status, last error and progress.

    ``status`` is ACTIVE, STOPPED, FAILED or LOST. Of several runs in an update, only the newest is not STOPPED.
    """
    return f"""
WITH updates AS ({event_log_updates(table, liveness)}),
moved AS ({flow_states(table)}),
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
    WHEN moved.state IN ({ACTIVE}) THEN CASE updates.state WHEN 'RUNNING' THEN 'ACTIVE' WHEN 'LOST' THEN 'LOST'
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


def streaming_query_progress(table: str, liveness: Liveness) -> str:
    """One row per report of a stream: one or more batches, whose rows and durations are added up."""
    del liveness
    return f"""
SELECT query_id, run_id, flow AS query_name, newest_batch_id AS batch_id, timestamp, input_rows,
  input_rows_per_second, processed_rows_per_second, batch_duration_ms, batches, dataset, epoch, watermark,
  newest_event_time, slowest_phase, latest_offset_ms, query_planning_ms, wal_commit_ms, add_batch_ms,
  commit_offsets_ms, state_memory_bytes,
  update_id
FROM ({_progress(table)})
WHERE batches > 0
""".strip()  # noqa: S608 - the table is quoted by the caller


def _progress(table: str) -> str:
    """The reports of streams, as columns."""
    event_type = StreamProgress.event_type
    return f"""
  SELECT id, reported_at, update_id, flow, dataset,
    body.query_id, body.run_id, body.epoch, body.batches, body.input_rows,
    body.input_rows_per_second, body.processed_rows_per_second, body.slowest_phase,
    body.batch_id AS newest_batch_id,
    CAST(body.started_at AS TIMESTAMP) AS timestamp,
    CAST(body.watermark AS TIMESTAMP) AS watermark,
    CAST(body.newest_event_time AS TIMESTAMP) AS newest_event_time,
    body.duration_ms AS batch_duration_ms,
    body.phases_ms.latest_offset AS latest_offset_ms,
    body.phases_ms.query_planning AS query_planning_ms,
    body.phases_ms.wal_commit AS wal_commit_ms,
    body.phases_ms.add_batch AS add_batch_ms,
    body.phases_ms.commit_offsets AS commit_offsets_ms,
    aggregate(body.operators, 0L, (total, operator) -> total + operator.memory_bytes) AS state_memory_bytes
  FROM (
    SELECT id, timestamp AS reported_at, origin.update_id AS update_id, origin.flow_name AS flow,
      origin.dataset_name AS dataset, from_json(details, '{event_type} struct<{_BODY}>').{event_type} AS body
    FROM {table}
    WHERE event_type = '{event_type}'
  )
""".strip()  # noqa: S608 - the table is quoted by the caller
