"""Flat Spark SQL views over extracts of the event log (:mod:`headrace.events.extracts`).

Each function takes the extract as a quoted SQL identifier, and who holds the lease of the pipeline. It returns the text
of a SELECT. An update that has not ended is LOST unless the lease's holder runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.events.levels import Level
from headrace.events.log_parts import Part
from headrace.events.types import (
    TERMINAL_UPDATE_STATES,
    FlowStateChanged,
    UpdateCreated,
    UpdateStateChanged,
    UpdateTotals,
)
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
_FLOW_TOTAL = (
    "struct<flow: string, epoch: bigint, batch_id: bigint, batches: bigint, "
    "metrics: struct<num_output_rows: bigint>, "
    "data_quality: struct<dropped_records: bigint, quarantined_records: bigint>>"
)
_TOTALS = f"{UpdateTotals.event_type} struct<flows: array<{_FLOW_TOTAL}>>"
_ENDED = ", ".join(sorted(f"'{state.value}'" for state in TERMINAL_UPDATE_STATES))
ACTIVE = ", ".join(sorted(f"'{state.value}'" for state in ACTIVE_STATES))
OF_UPDATES = f"'{UpdateCreated.event_type}', '{UpdateStateChanged.event_type}'"
# What a group of events says of its update, for :func:`with_update_states`.
UPDATE_FACTS = f"""max(event_type = '{UpdateCreated.event_type}') AS is_beginning,
    min(id) FILTER (WHERE event_type IN ({OF_UPDATES})) AS first_id,
    max_by(get_json_object(details, '$.{UpdateStateChanged.event_type}.state'), id)
      FILTER (WHERE event_type = '{UpdateStateChanged.event_type}') AS update_state_then"""


def event_log_updates(table: str, liveness: Liveness) -> str:
    """One row per update: its cause and user, state, start and end, and the error that failed it."""
    created, changed = UpdateCreated.event_type, UpdateStateChanged.event_type
    return f"""
SELECT update_id, cause, user, {_update_state("state", liveness)} AS state, started_at, ended_at, error_code,
  error_message
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
    totals, flow = UpdateTotals.event_type, FlowStateChanged.event_type
    # Each row of totals is the row of a flow. All else are windows over one pass: joins took three times as long.
    return f"""
WITH events AS (
  SELECT origin.update_id AS update_id, origin.flow_name AS flow_name, origin.dataset_name AS dataset,
    origin.epoch AS epoch, origin.batch_id AS batch_id, id, timestamp, event_type, level,
    CASE WHEN level <> '{Level.METRICS.value}' OR origin.batch_id IS NOT NULL OR event_type = '{totals}'
      THEN details END AS details,
    max(CASE WHEN event_type = '{totals}' THEN id END) OVER (PARTITION BY origin.update_id) AS totals_id
  FROM {table}
  WHERE event_type IN ({OF_UPDATES}, '{flow}', '{totals}')
),
with_totals AS (
  SELECT *, coalesce(total.flow, flow_name) AS flow FROM (
    SELECT *, explode_outer(CASE WHEN id = totals_id THEN from_json(details, '{_TOTALS}').{totals}.flows END) AS total
    FROM events
  )
),
judged AS (
  SELECT *, event_type = '{flow}' AND batch_id IS NOT NULL AS is_batch,
    event_type = '{flow}' AND level <> '{Level.METRICS.value}' AS is_move,
    coalesce(known IS NULL OR (id > totals_id AND (epoch <> known.epoch OR batch_id > known.batch_id)), false)
      AS is_later,
    known.batches IS NULL AS is_uncounted
  FROM (SELECT *, max(total) OVER (PARTITION BY update_id, flow) AS known FROM with_totals)
),
parsed AS (
  SELECT *, from_json(CASE WHEN is_batch AND is_later THEN details END, '{_COUNTS}').{flow} AS body FROM judged
),
grouped AS (
  SELECT update_id, flow, max(is_move) AS has_moved,
    {UPDATE_FACTS},
    max(dataset) FILTER (WHERE is_move) AS dataset,
    {_flow_facts("is_move")},
    {_sum("metrics.num_output_rows")} AS rows_written,
    {_sum("data_quality.dropped_records")} AS rows_dropped,
    {_sum("data_quality.quarantined_records")} AS rows_quarantined,
    coalesce(sum(total.batches), 0) + count_if(is_batch AND (is_later OR is_uncounted)) AS batches,
    max(timestamp) FILTER (WHERE event_type = '{flow}' AND batch_id IS NULL) AS last_event_at
  FROM parsed GROUP BY update_id, flow
)
SELECT update_id, flow, dataset,
  CASE WHEN update_state = 'LOST' AND state IN ({ACTIVE}) THEN 'LOST' ELSE state END AS state,
  reason, rows_written, rows_dropped, rows_quarantined, batches, attempts, duration_s, last_event_at
FROM ({with_update_states("grouped", liveness)})
WHERE has_moved
""".strip()  # noqa: S608 - the table is quoted by the caller


def _sum(count: str) -> str:
    return f"coalesce(sum(total.{count}), 0) + coalesce(sum(body.{count}), 0)"


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


def _flow_facts(condition: str) -> str:
    """What the newest event of a flow says, of the rows of a group that fulfil a condition."""
    where = f"FILTER (WHERE {condition})"
    return f"""max_by(get_json_object(details, '{_FLOW}.status'), id) {where} AS state,
    max_by(get_json_object(details, '{_FLOW}.reason'), id) {where} AS reason,
    max(CAST(get_json_object(details, '{_FLOW}.attempt') AS INT)) {where} AS attempts,
    max_by(CAST(get_json_object(details, '{_FLOW}.duration_s') AS DOUBLE), id) {where} AS duration_s"""


def with_update_states(groups: str, liveness: Liveness) -> str:
    """Groups of events with the ``update_state`` of their update; those of updates that were not created are left out.

    Args:
        groups: a table with ``update_id`` and the columns of :data:`UPDATE_FACTS`.
        liveness: who holds the lease.
    """
    return f"""
  SELECT *, {_update_state("last_state", liveness)} AS update_state
  FROM (
    SELECT *, max(is_beginning) OVER of_update AS is_created, max(first_id) OVER of_update AS created,
      max(update_state_then) OVER of_update AS last_state
    FROM {groups}
    WINDOW of_update AS (PARTITION BY update_id)
  )
  WHERE is_created
""".strip()  # noqa: S608 - our own words


def _update_state(last: str, liveness: Liveness) -> str:
    """The state of an update; it is LOST if its last recorded state is no end, and nobody runs it."""
    return f"CASE WHEN {last} IN ({_ENDED}) THEN {last} WHEN {_may_run(liveness)} THEN 'RUNNING' ELSE 'LOST' END"


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
