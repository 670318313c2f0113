"""What a project tells of its storage without a session: the last update, the event log, tables, quarantine."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from headrace.events.reader import EventReader
from headrace.model.lateness import PASSED_OVER, Lateness
from headrace.model.outcome import FilesBacklog, Outcome
from headrace.model.rows import Rows
from headrace.project.ingested_files import files_to_read, taken_files
from headrace.project.lease_holders import as_it_stands, host_name
from headrace.project.repair import repaired
from headrace.project.sql_access import hidden_tables
from headrace.project.stored_tables import lateness, quarantined, quarantines, row_count
from headrace.settings.settings import Settings
from headrace.storage.health import FlowHealth, health_of_flows
from headrace.storage.inventory import stored_tables


class StoredProject:
    """A pipeline as its storage shows it."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self.settings = settings
        self._environ = environ

    def status(self) -> Outcome | None:
        """The newest update, or None when there was none; LOST when its process is gone."""
        found, lease = self.events().outcome(), Path(self.settings.layout.lease)
        return as_it_stands(found, lease, host_name(self._environ), time.time)

    def events(self) -> EventReader:
        """The event log."""
        return EventReader(self.settings.layout.events)

    def quarantine_list(self) -> tuple[tuple[str, int, Mapping[str, int]], ...]:
        """Each dataset with rows set aside: name, rows, and how many broke each rule."""
        return quarantines(self.settings.layout, self.settings.naming)

    def quarantine_show(self, name: str, rows: int = 20) -> Rows:
        """The newest rows that were set aside for a dataset.

        Raises:
            PipelineError: QUARANTINE.NONE.
        """
        return quarantined(self.settings.layout, self.settings.naming, name, rows)

    def lateness(self, name: str, column: str, *, commits: int = 1000, passed_over: float = PASSED_OVER) -> Lateness:
        """How far rows of a table came behind the newest one of the commits before their own.

        Args:
            name: of the table.
            column: of the time.
            commits: the last ones are looked at, so many at most.
            passed_over: the share of rows that the watermark which is suggested may do without.

        Raises:
            PipelineError: LATENESS.NO_TABLE, LATENESS.NO_TIME.
        """
        settings = self.settings
        return lateness(settings.layout, settings.naming, name, column, commits, passed_over, time.time())

    def files(self, name: str) -> Rows:
        """The files that Auto Loader has seen for a dataset, in the order in which they are read.

        Raises:
            PipelineError: FILES.NONE.
        """
        return taken_files(self.settings.layout, self.settings.naming, name)

    def files_to_read(self, name: str) -> tuple[FilesBacklog, ...]:
        """The files that Auto Loader has found for each flow of a dataset, and that are not read yet."""
        return files_to_read(self.settings.layout, self.settings.naming, name)

    def checkpoints(self) -> tuple[FlowHealth, ...]:
        """Every flow of the storage: its newest batches, and what keeps it from going on."""
        settings = self.settings
        return health_of_flows(settings.layout, settings.naming, settings.id, self.events().last_batches())

    def repair(self, name: str) -> tuple[Path, ...]:
        """Set aside torn files of a flow that it can do without; where they are now. Nothing else is changed.

        Args:
            name: of the flow, or of the dataset that it feeds.

        Raises:
            PipelineError: CHECKPOINTS.UNKNOWN; CHECKPOINTS.NOT_MENDABLE: it is held up by something else, and how it
                goes on; LEASE.HELD: an update runs.
        """
        return repaired(self.settings, self._environ, name, self.checkpoints)

    def tables(self, *, private: bool = False) -> tuple[tuple[str, str, int | None], ...]:
        """Name, path and rows of every table in the storage, private ones only when asked for."""
        found = dict(stored_tables(self.settings.layout, self.settings.naming))
        hidden = frozenset() if private else hidden_tables(found)
        return tuple((str(name), path, row_count(path)) for name, path in found.items() if name not in hidden)
