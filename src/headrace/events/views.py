"""Flat Spark SQL views over extracts of the event log (:mod:`headrace.events.extracts`).

Each function takes the extract as a quoted SQL identifier, and who holds the lease of the pipeline. It returns the text
of a SELECT. An update that has not ended is LOST unless the lease's holder runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.events.levels import Level
from headrace.events.log_parts import Part
from headrace.events.types import TERMINAL_UPDATE_STATES, UpdateCreated, UpdateStateChanged, UpdateTotals
from headrace.model.liveness import Liveness
from headrace.model.outcome import ACTIVE_STATES


@dataclass(frozen=True)
class View:
    """A view over an extract that has some parts of the log."""

    query: Callable[[str, Liveness], str]
    parts: frozenset[Part]

    def __call__(self, table: str, liveness: Liveness) -> str:
        """The text of its SELECT."""
        return self.query(table, liveness)


def view_of(query: Callable[[str, Liveness], str], *parts: Part) -> View:
    """A view and the parts that it reads."""
    return View(query, frozenset(parts))


_EXPECTATION = "struct<name: string, dataset: string, action: string, passed_records: bigint, failed_records: bigint>"
_METRIC = "struct<name: string, value: double, kind: string>"
# Parsed at once: to look up a part of the JSON first would parse it twice.
_EXPECTATIONS = f"flow_progress struct<data_quality: struct<expectations: array<{_EXPECTATION}>>>"
_METRICS = f"flow_progress struct<metrics: struct<custom: array<{_METRIC}>>>"
_FLOW = "$.flow_progress"
_COUNTS = (
    "flow_progress struct<metrics: struct<num_output_rows: bigint>, "
    "data_quality: struct<dropped_records: bigint, quarantined_records: bigint>>"
)
_ENDED = ", ".join(sorted(f"'{state.value}'" for state in TERMINAL_UPDATE_STATES))
ACTIVE = ", ".join(sorted(f"'{state.value}'" for state in ACTIVE_STATES))


def event_log_updates(table: str, liveness: Liveness) -> str:
    """One row per update: its cause and user, state, start and end, and the error that failed it."""
    created, changed = UpdateCreated.event_type, UpdateStateChanged.event_type
    return f"""
SELECT update_id, cause, user,
  CASE
    WHEN state IN ({_ENDED}) THEN state
    WHEN {_may_run(liveness)} THEN 'RUNNING'
    ELSE 'LOST'
  END AS state,
  started_at, ended_at, error_code, error_message
FROM (
  SELECT
    origin.update_id AS update_id,
    min(id) AS created,
    max(get_json_object(details, '$.{created}.cause')) AS cause,
    max(get_json_object(details, '$.{created}.user')) AS user,
    coalesce(max_by(get_json_object(details, '$.{changed}.state'), id)
      FILTER (WHERE event_type = '{changed}'), 'RUNNING') AS state,
    min(timestamp) AS started_at,
    max(timestamp) FILTER (
      WHERE get_json_object(details, '$.{changed}.state') IN ({_ENDED})
    ) AS ended_at,
    max_by(get_json_object(details, '$.{changed}.error.code'), id)
      FILTER (WHERE event_type = '{changed}') AS error_code,
    max_by(get_json_object(details, '$.{changed}.error.message'), id)
      FILTER (WHERE event_type = '{changed}') AS error_message
  FROM {table}
  WHERE event_type IN ('{created}', '{changed}')
  GROUP BY origin.update_id
  HAVING max(event_type = '{created}')
)
""".strip()  # noqa: S608 - the table is quoted by the caller


def _may_run(liveness: Liveness) -> str:
    """The condition on an update without a recorded end that it may still run."""
    conditions = []
    if liveness.is_held:
        # An older version of Headrace does not record which update its lease is for.
        one = "created = max(created) OVER ()" if liveness.update_id is None else _is(liveness.update_id)
        conditions.append(one)
    if liveness.checked_after is not None:
        conditions.append(f"created > {sql_text(liveness.checked_after)}")
    return " OR ".join(conditions) or "false"


def _is(update_id: str) -> str:
    return f"update_id = {sql_text(update_id)}"


def sql_text(text: str) -> str:
    """A text as a literal of Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def event_log_flows(table: str, liveness: Liveness) -> str:
    """One row per flow and update: its last state, rows, attempts and duration; duplicate batches count once.

    Counts are the recorded totals of the update, and the batches after them.
    """
    # The extract has no batches that are counted in totals, unless an older version did not count them there.
    later = "totals.id IS NULL OR batches.id > totals.id"
    return f"""
WITH updates AS ({event_log_updates(table, liveness)}),
totals AS ({_totals(table)}),
batches AS (
  SELECT batches.update_id, batches.flow,
    totals.id IS NULL OR (batches.id > totals.id
      AND (batches.epoch <> totals.epoch OR batches.batch_id > totals.batch_id)) AS is_later,
    totals.batches IS NULL AS is_uncounted,
    from_json(CASE WHEN {later} THEN batches.details END, '{_COUNTS}').flow_progress AS body
  FROM ({_batches(table)}) AS batches
  LEFT JOIN totals ON batches.update_id = totals.update_id AND batches.flow = totals.flow
),
later AS (
  SELECT update_id, flow,
    sum(body.metrics.num_output_rows) FILTER (WHERE is_later) AS rows_written,
    sum(body.data_quality.dropped_records) FILTER (WHERE is_later) AS rows_dropped,
    sum(body.data_quality.quarantined_records) FILTER (WHERE is_later) AS rows_quarantined,
    count(*) AS batches
  FROM batches WHERE is_later OR is_uncounted GROUP BY update_id, flow
),
moved AS ({flow_states(table)}),
seen AS (
  SELECT origin.update_id AS update_id, origin.flow_name AS flow, max(timestamp) AS last_event_at
  FROM {table} WHERE event_type = 'flow_progress' AND origin.batch_id IS NULL
  GROUP BY origin.update_id, origin.flow_name
)
SELECT moved.update_id, moved.flow, moved.dataset,
  {_state_of_flow("moved.state")} AS state,
  moved.reason,
  coalesce(totals.rows_written, 0) + coalesce(later.rows_written, 0) AS rows_written,
  coalesce(totals.rows_dropped, 0) + coalesce(later.rows_dropped, 0) AS rows_dropped,
  coalesce(totals.rows_quarantined, 0) + coalesce(later.rows_quarantined, 0) AS rows_quarantined,
  coalesce(totals.batches, 0) + coalesce(later.batches, 0) AS batches,
  moved.attempts, moved.duration_s, seen.last_event_at
FROM moved
JOIN updates ON moved.update_id = updates.update_id
LEFT JOIN seen ON moved.update_id = seen.update_id AND moved.flow = seen.flow
LEFT JOIN totals ON moved.update_id = totals.update_id AND moved.flow = totals.flow
LEFT JOIN later ON moved.update_id = later.update_id AND moved.flow = later.flow
""".strip()  # noqa: S608 - the table is quoted by the caller


def event_log_expectations(table: str, liveness: Liveness) -> str:
    """One row per expectation, flow and batch: the number of rows that passed and failed, and the action.

    Table rules have one row per update, without epoch and batch.
    """
    del liveness
    return f"""
SELECT update_id, flow, dataset, epoch, batch_id, timestamp, expectation.name AS expectation,
  expectation.action AS action, expectation.passed_records AS passed, expectation.failed_records AS failed
FROM (
  SELECT update_id, flow, dataset, epoch, batch_id, timestamp,
    explode(from_json(details, '{_EXPECTATIONS}').flow_progress.data_quality.expectations) AS expectation
  FROM ({_batches(table)})
  UNION ALL
  SELECT origin.update_id, origin.flow_name, origin.dataset_name, CAST(NULL AS INT), CAST(NULL AS BIGINT), timestamp,
    explode(from_json(get_json_object(details, '$.table_judged.expectations'), 'array<{_EXPECTATION}>'))
  FROM {table}
  WHERE event_type = 'table_judged'
)
""".strip()  # noqa: S608 - the table is quoted by the caller


def event_log_broken_rows(table: str, liveness: Liveness) -> str:
    """One row per sampled row that violated an expectation, as the text of a JSON object."""
    del liveness
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


def event_log_metrics(table: str, liveness: Liveness) -> str:
    """One row per metric of the user, flow and batch. ``kind`` is ``total`` if values add up, else ``last``."""
    del liveness
    return f"""
SELECT update_id, flow, dataset, epoch, batch_id, timestamp, metric.name AS metric, metric.value AS value,
  metric.kind AS kind
FROM (
  SELECT update_id, flow, dataset, epoch, batch_id, timestamp,
    explode(from_json(details, '{_METRICS}').flow_progress.metrics.custom) AS metric
  FROM ({_batches(table)})
)
""".strip()  # noqa: S608 - the table is quoted by the caller


VIEWS: Mapping[str, View] = {
    "event_log_updates": view_of(event_log_updates, Part.UPDATES),
    "event_log_flows": view_of(event_log_flows, Part.UPDATES, Part.FLOWS, Part.TOTALS, Part.LATER_BATCHES),
    "event_log_expectations": view_of(event_log_expectations, Part.BATCHES, Part.TABLE_RULES),
    "event_log_broken_rows": view_of(event_log_broken_rows, Part.SAMPLES),
    "event_log_metrics": view_of(event_log_metrics, Part.BATCHES),
}


def flow_states(table: str) -> str:
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
    max_by(CAST(get_json_object(details, '{_FLOW}.duration_s') AS DOUBLE), id) AS duration_s
  FROM {table}
  WHERE event_type = 'flow_progress' AND level <> '{Level.METRICS.value}'
  GROUP BY origin.update_id, origin.flow_name
""".strip()  # noqa: S608 - the table is quoted by the caller


def _state_of_flow(state: str) -> str:
    """The state of a flow in an update that may be lost."""
    return f"CASE WHEN updates.state = 'LOST' AND {state} IN ({ACTIVE}) THEN 'LOST' ELSE {state} END"


def _totals(table: str) -> str:
    """The newest totals of each update, one row per flow; an older version did not record the number of batches."""
    flow = (
        "struct<flow: string, epoch: bigint, batch_id: bigint, batches: bigint, "
        "metrics: struct<num_output_rows: bigint>, "
        "data_quality: struct<dropped_records: bigint, quarantined_records: bigint>>"
    )
    flows = f"from_json(get_json_object(details, '$.{UpdateTotals.event_type}.flows'), 'array<{flow}>')"
    return f"""
  SELECT update_id, id, total.flow AS flow, total.epoch AS epoch, total.batch_id AS batch_id, total.batches AS batches,
    total.metrics.num_output_rows AS rows_written, total.data_quality.dropped_records AS rows_dropped,
    total.data_quality.quarantined_records AS rows_quarantined
  FROM (
    SELECT update_id, id, explode({flows}) AS total
    FROM (
      SELECT origin.update_id AS update_id, max(id) AS id, max_by(details, id) AS details
      FROM {table} WHERE event_type = '{UpdateTotals.event_type}' GROUP BY origin.update_id
    )
  )
""".strip()  # noqa: S608 - the table is quoted by the caller


def _batches(table: str) -> str:
    """The batches of an extract."""
    return f"""
  SELECT
    origin.update_id AS update_id,
    origin.flow_name AS flow,
    origin.dataset_name AS dataset,
    origin.epoch AS epoch,
    origin.batch_id AS batch_id,
    id,
    timestamp,
    details
  FROM {table}
  WHERE event_type = 'flow_progress' AND origin.batch_id IS NOT NULL
""".strip()  # noqa: S608 - the table is quoted by the caller
