"""What adoptions and releases need of a project, and how they exclude updates and maintenance."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import SparkSession

from headrace.errors import PipelineError
from headrace.events.upkeep import TableHandedOver
from headrace.graph.resolved import ResolvedGraph
from headrace.model.names import InvalidName
from headrace.project.lease import Lease
from headrace.project.lease_holders import user_name
from headrace.project.outside_events import record_event
from headrace.project.savepoints.exclusive import exclusive
from headrace.project.savepoints.restore import unfinished_restore
from headrace.settings.settings import Settings
from headrace.storage.adopted_tables import AdoptedTables, TableRecord
from headrace.storage.change_detection import StoredState
from headrace.storage.stages.stored import Stages


@dataclass(frozen=True)
class HandoverProject:
    """A project into which tables come, and which they leave.

    Attributes:
        settings: the pipeline's.
        environ: the process environment.
        state: the stored state.
        graph: resolves the project's code.
        session: opens the session.
        redact: removes secrets from a text.
    """

    settings: Settings
    environ: Mapping[str, str]
    state: StoredState
    graph: Callable[[], ResolvedGraph]
    session: Callable[[], SparkSession]
    redact: Callable[[str], str]

    @property
    def records(self) -> AdoptedTables:
        """The records of tables that were adopted or released."""
        return AdoptedTables(self.settings.layout)

    def find(self, name: str) -> TableRecord | None:
        """The record of a dataset, in any spelling; None without one."""
        naming = self.settings.naming
        try:
            dataset = naming.canonical(name)
        except InvalidName:
            return None
        return self.records.of(str(dataset), self.settings.layout.table(naming, dataset))

    def record_event(self, action: str, dataset: str, location: str) -> None:
        """Write to the event log what has happened with a table."""
        event = TableHandedOver(action, dataset, location, user_name(self.environ))
        record_event(self.settings, self.redact, event)

    @contextmanager
    def exclusive(self) -> Iterator[Lease]:
        """The lease, while no maintenance runs and no restore or swap is unfinished.

        Raises:
            PipelineError: LEASE.HELD if an update is running, MAINTENANCE.RUNNING if maintenance is;
                SAVEPOINT.RESTORING, STAGE.SWAPPING.
        """
        with exclusive(self.settings, self.environ) as lease:
            restore = unfinished_restore(self.settings)
            if restore is not None:
                raise PipelineError("SAVEPOINT.RESTORING", savepoint=restore.savepoint)
            Stages(self.settings.layout).check_no_swap()
            yield lease
