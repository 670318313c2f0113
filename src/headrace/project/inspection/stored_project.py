"""The part of a project that needs no session: what monitoring reads, tables, quarantine, checkpoints, maintenance."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from headrace.events.reader import EventReader
from headrace.metrics.samples import Samples
from headrace.model.lateness import DEFAULT_DROPPED_SHARE, Lateness
from headrace.model.maintenance import MaintenanceRequest
from headrace.model.outcome import FilesBacklog, Outcome
from headrace.model.rows import Rows
from headrace.plan.maintenance import Action
from headrace.project.inspection.diagnosis.pipeline_doctor import PipelineDoctor
from headrace.project.inspection.expired_parts import maintain_storage
from headrace.project.inspection.ingested_files import files_to_read, seen_files
from headrace.project.inspection.open_rows import quarantines
from headrace.project.inspection.pipeline_alerts import PipelineAlerts, alerts_of
from headrace.project.inspection.pipeline_checkpoints import PipelineCheckpoints, PlanUpdate
from headrace.project.inspection.pipeline_metrics import metrics_of
from headrace.project.inspection.private_tables import hidden_tables
from headrace.project.inspection.stored_tables import lateness, quarantined, row_count
from headrace.project.lease_holders import host_name, latest_outcome
from headrace.settings.settings import Settings
from headrace.storage.inventory import stored_tables
from headrace.storage.listed_storage import reading_storage


class StoredProject:
    """A pipeline, read from its storage."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self.settings = settings
        self._environ = environ
        self._secrets = settings.open_secrets(environ)
        # Texts of the project may contain secrets: apply this before printing them.
        self.redact: Callable[[str], str] = self._secrets.redact

    @property
    def continuous(self) -> bool:
        """True if the settings make an update run until it is stopped."""
        return self.settings.continuous

    def status(self) -> Outcome | None:
        """The latest update, or None if there was none; LOST if its process died."""
        lease = self.settings.layout.lease
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
        return metrics_of(self.settings, self._environ, tables=tables)

    def alerts(self) -> PipelineAlerts:
        """The alerts of the pipeline."""
        return alerts_of(self.settings, self._environ, self._secrets)

    def quarantine_list(self) -> tuple[tuple[str, int, Mapping[str, int]], ...]:
        """Each dataset with quarantined rows: its name, their number, and the number of rows per violated rule."""
        with reading_storage(self.settings.layout):
            return quarantines(self.settings.layout, self.settings.naming)

    def quarantine_show(self, name: str, rows: int = 20) -> Rows:
        """The newest quarantined rows of a dataset.

        Raises:
            PipelineError: QUARANTINE.NONE.
        """
        with reading_storage(self.settings.layout):
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

    def checkpoints(self) -> PipelineCheckpoints:
        """The checkpoints of the pipeline."""
        return PipelineCheckpoints(self.settings, self._environ)

    def doctor(self) -> PipelineDoctor:
        """Examines the pipeline."""
        return PipelineDoctor(self.settings, self._environ)

    def maintain(self, request: MaintenanceRequest, plan: PlanUpdate) -> tuple[Action, ...]:
        """Maintain the tables, checkpoints and log files of the storage, beside a running update if there is one.

        Opens a session only for actions that need Delta's own code.

        Args:
            request: what to do.
            plan: plans an update; called only if something that left the code is to be removed.

        Raises:
            PipelineError: MAINTENANCE.UNKNOWN, MAINTENANCE.SHORT_RETENTION, MAINTENANCE.RUNNING.
        """
        return maintain_storage(self.settings, self._environ, request, self.checkpoints().health, plan)

    def tables(self, *, private: bool = False) -> tuple[tuple[str, str, int | None], ...]:
        """Name, path and row count of every table in the storage; private ones only on request."""
        with reading_storage(self.settings.layout):
            found = dict(stored_tables(self.settings.layout, self.settings.naming))
            hidden = frozenset() if private else hidden_tables(found)
            return tuple((str(name), path, row_count(path)) for name, path in found.items() if name not in hidden)
