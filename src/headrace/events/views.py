"""Flat Spark SQL views over extracts of the event log (:mod:`headrace.events.extracts`).

Each function takes the extract as a quoted SQL identifier, and who holds the lease of the pipeline. It returns the text
of a SELECT. An update that has not ended is LOST unless the lease's holder runs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from headrace.events.log_parts import Part
from headrace.events.types import TERMINAL_UPDATE_STATES, UpdateCreated, UpdateStateChanged
from headrace.model.liveness import Liveness


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
_ENDED = ", ".join(sorted(f"'{state.value}'" for state in TERMINAL_UPDATE_STATES))


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
    "event_log_expectations": view_of(event_log_expectations, Part.BATCHES, Part.TABLE_RULES),
    "event_log_broken_rows": view_of(event_log_broken_rows, Part.SAMPLES),
    "event_log_metrics": view_of(event_log_metrics, Part.BATCHES),
}


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
