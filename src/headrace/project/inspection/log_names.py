"""The logs of a pipeline that queries can read."""

from __future__ import annotations

from headrace.events.view_names import EVENT_VIEWS
from headrace.model.names import QualifiedName
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile

# The log of maintenance in `headrace sql`.
_OPERATIONS = QualifiedName("operations_log")


def log_names(settings: Settings) -> frozenset[QualifiedName]:
    """The names that a query can read besides those of the storage: views of the event log, and logs."""
    return frozenset({*EVENT_VIEWS, *log_paths(settings)})


def log_paths(settings: Settings) -> dict[QualifiedName, str]:
    """The event log under the name of the settings, and the log of maintenance, with their paths."""
    own = {} if settings.event_log is None else {settings.event_log: settings.layout.events}
    return {**own, _OPERATIONS: settings.layout.monitoring(MonitoringFile.OPERATIONS)}
