"""The names that queries can read besides a pipeline's tables: the event log, and what is computed from it."""

from __future__ import annotations

from headrace.events.log_tables import LOG_TABLES
from headrace.events.system_tables import LAKEFLOW_VIEWS, PIPELINE_UPDATE_TIMELINE, STREAMING_TABLES
from headrace.model.names import QualifiedName

EVENT_LOG = QualifiedName("event_log")
EVENT_VIEWS = frozenset(
    {EVENT_LOG, *STREAMING_TABLES, *map(QualifiedName, LOG_TABLES), PIPELINE_UPDATE_TIMELINE.name, *LAKEFLOW_VIEWS}
)
