"""The tables ``system.lakeflow.pipelines`` and ``pipeline_events`` as Spark SQL over event logs of pipelines.

Columns are those of the vendor's system tables, and ours after them. Columns that only its service can fill are NULL.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import TypeAlias

from headrace.events.schema import SCHEMA
from headrace.model.liveness import Liveness

_VENDOR_IDS = "CAST(NULL AS STRING) AS account_id, CAST(NULL AS STRING) AS workspace_id"
_NOT_HELD = Liveness(is_held=False)


@dataclass(frozen=True)
class MonitoredPipeline:
    """A pipeline whose event log is queried.

    Attributes:
        folder: of the project.
        pipeline_id, name, development, continuous: from its settings; None if they cannot be read.
        changed_at: when its settings were last changed; None if unknown.
        log: the path of the log; None if there is none, or it cannot be read.
        table: the log, as a quoted SQL identifier or ``delta.`path```; None if a query does not read it.
        liveness: who holds its lease.
        problem: why it cannot be read; None if it can.
    """

    folder: str
    pipeline_id: str | None = None
    name: str | None = None
    development: bool | None = None
    continuous: bool | None = None
    changed_at: datetime | None = None
    log: str | None = None
    table: str | None = None
    liveness: Liveness = _NOT_HELD
    problem: str | None = None


PipelinesView: TypeAlias = Callable[[Iterable[MonitoredPipeline]], str]


def lakeflow_pipelines(pipelines: Iterable[MonitoredPipeline]) -> str:
    """One row per pipeline, also if it has never run, or cannot be read."""
    return _union(_pipeline(pipeline) for pipeline in pipelines)


def lakeflow_pipeline_events(pipelines: Iterable[MonitoredPipeline]) -> str:
    """One row per event of each pipeline."""
    return _union(_events(one, one.table) for one in pipelines if one.table is not None)


def _union(parts: Iterable[str]) -> str:
    return "\nUNION ALL\n".join(f"({part})" for part in parts)


def _pipeline(pipeline: MonitoredPipeline) -> str:
    return f"""
SELECT {_VENDOR_IDS}, {_text(pipeline.pipeline_id)} AS pipeline_id, {_text("WORKSPACE")} AS pipeline_type,
  {_text(pipeline.name)} AS name, {_text(None)} AS created_by, {_text(None)} AS run_as,
  CAST(NULL AS MAP<STRING, STRING>) AS tags,
  named_struct('photon', false, 'development', {_boolean(pipeline.development)}, 'continuous',
    {_boolean(pipeline.continuous)}, 'serverless', false, 'edition', {_text(None)}, 'channel', {_text(None)}
  ) AS settings,
  CAST(NULL AS MAP<STRING, STRING>) AS configuration,
  CAST({_text(None if pipeline.changed_at is None else pipeline.changed_at.isoformat())} AS TIMESTAMP) AS change_time,
  CAST(NULL AS TIMESTAMP) AS delete_time,
  {_text(pipeline.folder)} AS folder, {_boolean(pipeline.liveness.is_held)} AS lease_held,
  {_text(pipeline.problem)} AS problem
""".strip()


def _events(pipeline: MonitoredPipeline, table: str) -> str:
    return f"""
SELECT {_VENDOR_IDS}, origin.pipeline_id AS pipeline_id, origin.update_id AS update_id,
  {", ".join(SCHEMA.names)}, {_text(pipeline.name)} AS pipeline_name
FROM {table}
""".strip()  # noqa: S608 - the table is quoted by the caller


def _text(value: str | None) -> str:
    return "CAST(NULL AS STRING)" if value is None else sql_text(value)


def sql_text(text: str) -> str:
    """A text as a literal of Spark SQL."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _boolean(value: bool | None) -> str:  # noqa: FBT001 - a value of a row
    return "CAST(NULL AS BOOLEAN)" if value is None else str(value).lower()
