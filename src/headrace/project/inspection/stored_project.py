"""The part of a project that needs no session: the last update, the event log, tables, quarantine."""

from __future__ import annotations

import time
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from headrace.events.reader import EventReader
from headrace.metrics.samples import Samples
from headrace.model.lateness import DEFAULT_DROPPED_SHARE, Lateness
from headrace.model.outcome import FilesBacklog, Outcome
from headrace.model.rows import Rows
from headrace.project.inspection.ingested_files import files_to_read, seen_files
from headrace.project.inspection.pipeline_alerts import PipelineAlerts
from headrace.project.inspection.pipeline_metrics import pipeline_metrics
from headrace.project.inspection.sql_access import hidden_tables
from headrace.project.inspection.stored_tables import lateness, quarantined, quarantines, row_count
from headrace.project.lease_holders import host_name, latest_outcome, liveness
from headrace.project.repair import repair_flows
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile
from headrace.storage.health import FlowHealth, health_of_flows
from headrace.storage.inventory import stored_tables


class StoredProject:
    """A pipeline, read from its storage."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self.settings = settings
        self._environ = environ

    def status(self) -> Outcome | None:
        """The latest update, or None if there was none; LOST if its process died."""
        lease = Path(self.settings.layout.lease)
        return latest_outcome(self.events().outcome, lease, host_name(self._environ), time.time)

    def events(self) -> EventReader:
        """The event log."""
        return EventReader(self.settings.layout.events)

    def metrics(self, *, tables: bool = True) -> Samples:
        """The current metrics of the pipeline.

        Args:
            tables: read each table's log for its rows, bytes and files, and each quarantine.

        Raises:
            PipelineError: EVENTS.NOT_READABLE.
        """
        lease = Path(self.settings.layout.lease)
        check_lease = partial(liveness, lease, host_name(self._environ), time.time)
        return pipeline_metrics(self.settings, time.time, check_lease, tables=tables)

    def alerts(self) -> PipelineAlerts:
        """The alerts of the pipeline."""
        return PipelineAlerts(Path(self.settings.layout.monitoring(MonitoringFile.ALERTS)), time.time)

    def quarantine_list(self) -> tuple[tuple[str, int, Mapping[str, int]], ...]:
        """Each dataset with quarantined rows: its name, their number, and the number of rows per violated rule."""
        return quarantines(self.settings.layout, self.settings.naming)

    def quarantine_show(self, name: str, rows: int = 20) -> Rows:
        """The newest quarantined rows of a dataset.

        Raises:
            PipelineError: QUARANTINE.NONE.
        """
        return quarantined(self.settings.layout, self.settings.naming, name, rows)

    def lateness(
        self, name: str, column: str, *, commits: int = 1000, dropped_share: float = DEFAULT_DROPPED_SHARE
    ) -> Lateness:
        """How far the rows of a table arrived behind the newest row of earlier commits.

        Args:
            name: of the table.
            column: the event time column.
            commits: the maximum number of latest commits to read.
            dropped_share: the share of rows that the suggested watermark may drop.

        Raises:
            PipelineError: LATENESS.NO_TABLE, LATENESS.NO_TIME.
        """
        settings = self.settings
        return lateness(settings.layout, settings.naming, name, column, commits, dropped_share, time.time())

    def files(self, name: str) -> Rows:
        """The files that Auto Loader has seen for a dataset, in reading order.

        Raises:
            PipelineError: FILES.NONE.
        """
        return seen_files(self.settings.layout, self.settings.naming, name)

    def files_to_read(self, name: str) -> tuple[FilesBacklog, ...]:
        """For each flow of a dataset, the files that Auto Loader has found and not read yet."""
        return files_to_read(self.settings.layout, self.settings.naming, name)

    def checkpoints(self) -> tuple[FlowHealth, ...]:
        """Every flow of the storage: its newest batches, and the problem that stops it, if there is one."""
        settings = self.settings
        return health_of_flows(settings.layout, settings.naming, settings.id, self.events().last_batches())

    def repair(self, name: str) -> tuple[Path, ...]:
        """Move away damaged files that a flow does not need; returns their new paths. Changes nothing else.

        Args:
            name: of the flow, or of its dataset.

        Raises:
            PipelineError: CHECKPOINTS.UNKNOWN; CHECKPOINTS.NOT_MENDABLE: another problem stops the flow, and how to
                fix it; LEASE.HELD: an update is running.
        """
        return repair_flows(self.settings, self._environ, name, self.checkpoints)

    def tables(self, *, private: bool = False) -> tuple[tuple[str, str, int | None], ...]:
        """Name, path and row count of every table in the storage; private ones only on request."""
        found = dict(stored_tables(self.settings.layout, self.settings.naming))
        hidden = frozenset() if private else hidden_tables(found)
        return tuple((str(name), path, row_count(path)) for name, path in found.items() if name not in hidden)
