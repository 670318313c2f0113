"""Flat Spark SQL views over the event log.

Each function takes the table as a quoted SQL identifier or ``delta.`path``` and returns the text of a SELECT.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

_EXPECTATION = "struct<name: string, dataset: string, action: string, passed_records: bigint, failed_records: bigint>"
_FLOW = "$.flow_progress"


def event_log_updates(table: str) -> str:
    """One row per update: its cause, state, start and end, and the error that failed it."""
    return f"""
SELECT
  origin.update_id AS update_id,
  max(get_json_object(details, '$.create_update.cause')) AS cause,
  coalesce(max_by(get_json_object(details, '$.update_progress.state'), id)
    FILTER (WHERE event_type = 'update_progress'), 'RUNNING') AS state,
  min(timestamp) AS started_at,
  max(timestamp) FILTER (
    WHERE get_json_object(details, '$.update_progress.state') IN ('COMPLETED', 'FAILED', 'CANCELED')
  ) AS ended_at,
  max_by(get_json_object(details, '$.update_progress.error.code'), id)
    FILTER (WHERE event_type = 'update_progress') AS error_code,
  max_by(get_json_object(details, '$.update_progress.error.message'), id)
    FILTER (WHERE event_type = 'update_progress') AS error_message
FROM {table}
GROUP BY origin.update_id
""".strip()  # noqa: S608 - the table is quoted by the caller


def event_log_flows(table: str) -> str:
    """One row per flow and update: its last state, rows, attempts and duration; duplicate batches count once."""
    return f"""
WITH batches AS ({_batches(table)}),
counted AS (
  SELECT update_id, flow, sum(rows_written) AS rows_written, sum(rows_dropped) AS rows_dropped,
    sum(rows_quarantined) AS rows_quarantined, count(*) AS batches
  FROM batches GROUP BY update_id, flow
),
moved AS (
  SELECT
    origin.update_id AS update_id,
    origin.flow_name AS flow,
    max(origin.dataset_name) AS dataset,
    max_by(get_json_object(details, '{_FLOW}.status'), id) AS state,
    max_by(get_json_object(details, '{_FLOW}.reason'), id) AS reason,
    max(CAST(get_json_object(details, '{_FLOW}.attempt') AS INT)) AS attempts,
    max_by(CAST(get_json_object(details, '{_FLOW}.duration_s') AS DOUBLE), id) AS duration_s,
    max(timestamp) AS last_event_at
  FROM {table}
  WHERE event_type = 'flow_progress' AND origin.batch_id IS NULL
  GROUP BY origin.update_id, origin.flow_name
)
SELECT moved.update_id, moved.flow, moved.dataset, moved.state, moved.reason,
  coalesce(counted.rows_written, 0) AS rows_written,
  coalesce(counted.rows_dropped, 0) AS rows_dropped,
  coalesce(counted.rows_quarantined, 0) AS rows_quarantined,
  coalesce(counted.batches, 0) AS batches,
  moved.attempts, moved.duration_s, moved.last_event_at
FROM moved LEFT JOIN counted ON moved.update_id = counted.update_id AND moved.flow = counted.flow
""".strip()  # noqa: S608 - the table is quoted by the caller


def event_log_expectations(table: str) -> str:
    """One row per expectation, flow and batch: the number of rows that passed and failed, and the action.

    Table rules have one row per update, without epoch and batch.
    """
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


def event_log_broken_rows(table: str) -> str:
    """One row per sampled row that violated an expectation, as the text of a JSON object."""
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


VIEWS: Mapping[str, Callable[[str], str]] = {
    "event_log_updates": event_log_updates,
    "event_log_flows": event_log_flows,
    "event_log_expectations": event_log_expectations,
    "event_log_broken_rows": event_log_broken_rows,
}


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
