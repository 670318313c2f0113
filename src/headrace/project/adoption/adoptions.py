"""Adoptions and releases of a pipeline: what programs and the command line call."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.sql import SparkSession

from headrace.errors import PipelineError, raise_all
from headrace.events.last_batches import last_batches
from headrace.events.upkeep import TableHandedOver
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.select import dataset_name
from headrace.model.names import InvalidName
from headrace.options.nearest import did_you_mean
from headrace.project.adoption.adopt import Adoption, claim
from headrace.project.adoption.adoption_plan import AdoptionPlan, AdoptRequest, plan_adoption
from headrace.project.adoption.release import Release, ReleasePlan, ReleaseRequest, plan_release, undo_adoption
from headrace.project.adoption.spark_pipelines import Found, find_tables, spark_pipeline
from headrace.project.lease import Lease
from headrace.project.lease_holders import host_name, user_name
from headrace.project.maintenance.lock import maintenance_lock
from headrace.project.outside_events import record_event
from headrace.project.steps import Reached, no_step
from headrace.project.storage_folder import create_storage
from headrace.settings.settings import Settings
from headrace.settings.storage import MonitoringFile
from headrace.storage.adopted_tables import AdoptedTables, Consent, Handover, TableRecord
from headrace.storage.change_detection import StoredState
from headrace.storage.health import FlowHealth, health_of_flows


@dataclass(frozen=True)
class AdoptingProject:
    """What an adoption needs of a project.

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


class PipelineAdoptions:
    """The tables that come into a pipeline, and leave it.

    Args:
        project: the pipeline.
    """

    def __init__(self, project: AdoptingProject) -> None:
        self._project = project
        self._settings = project.settings
        self._records = AdoptedTables(project.settings.layout)

    def all(self) -> tuple[TableRecord, ...]:
        """The tables that were adopted or released.

        Raises:
            PipelineError: ADOPT.RECORD_UNREADABLE.
        """
        return self._records.all()

    def plan(self, requests: Sequence[AdoptRequest]) -> tuple[AdoptionPlan, ...]:
        """What adoptions would do; writes nothing.

        Raises:
            Problems: all problems of the project.
            PipelineError: DATASET.UNKNOWN; ADOPT.KIND, ADOPT.NOT_LOCAL, ADOPT.NO_TABLE, ADOPT.INSIDE, ADOPT.WHICH_FLOW.
        """
        project, now_s = self._project, time.time()
        graph = project.graph()
        plans: list[AdoptionPlan] = []
        for request in requests:
            coming = {plan.dataset: plan.table.table_id for plan in plans if plan.table is not None}
            plans.append(plan_adoption(graph, request, project.settings, project.state, now_s, coming))
        return tuple(plans)

    def find_spark_pipeline(self, folder: str, warehouse: str = "", only: str = "") -> Found:
        """The tables and checkpoints that Spark's own declarative pipelines have left of this project.

        Args:
            folder: of its project, or of its storage.
            warehouse: the folder of its tables; empty for ``spark-warehouse`` in the project.
            only: the name of a dataset; empty for all.

        Raises:
            Problems: all problems of the project.
            PipelineError: ADOPT.NO_SPARK_PIPELINE, DATASET.UNKNOWN.
        """
        pipeline, graph = spark_pipeline(folder, warehouse, self._project.environ), self._project.graph()
        found = find_tables(graph, self._settings.naming, pipeline)
        if not only:
            return found
        name = str(dataset_name(graph, only, self._settings.naming))
        chosen = tuple(request for request in found.requests if request.dataset == name)
        return Found(chosen, {one: reason for one, reason in found.left_out.items() if one == name})

    def adopt(self, requests: Sequence[AdoptRequest], reached: Reached = no_step) -> tuple[AdoptionPlan, ...]:
        """Adopt tables, one after the other. A crash leaves a table to the same call, which finishes it.

        Args:
            requests: what to adopt.
            reached: called at each step, for tests that crash there.

        Raises:
            Problems: all problems of the project, or why it is not possible; nothing was written.
            PipelineError: as :meth:`plan`; ADOPT.JOB_RUNS; LEASE.HELD if an update is running, MAINTENANCE.RUNNING if
                maintenance is.
        """
        # The code is resolved, and all problems are found, before anything is written.
        raise_all([problem for plan in self.plan(requests) for problem in plan.problems])
        create_storage(self._settings)
        with self._exclusive() as lease:
            plans = self.plan(requests)
            raise_all([problem for plan in plans for problem in plan.problems])
            for request, plan in zip(requests, plans, strict=True):
                Adoption(
                    self._settings,
                    self._project.state,
                    plan,
                    request.consents,
                    self._project.session,
                    lease.check,
                    time.time(),
                    reached,
                ).run()
                self._record_event("adopted", plan.dataset, plan.location)
        return plans

    def allow(self, name: str, consents: frozenset[Consent], *, revoke: bool = False) -> TableRecord:
        """Allow things to be done with an adopted table, or no longer.

        Raises:
            PipelineError: ADOPT.NOT_ADOPTED; LEASE.HELD, MAINTENANCE.RUNNING.
        """
        with self._exclusive():
            record = self._adopted(name)
            now = record.consents - consents if revoke else record.consents | consents
            changed = replace(record, consents=now)
            self._records.store(changed)
        words = ", ".join(sorted(consent.value for consent in consents))
        self._record_event(f"{'no longer allows' if revoke else 'allows'} {words} of", record.dataset, record.location)
        return changed

    def claim(self, name: str) -> TableRecord:
        """Make this storage the one whose pipeline writes to a table, after the storage was copied or moved.

        Raises:
            PipelineError: ADOPT.NOT_ADOPTED; LEASE.HELD, MAINTENANCE.RUNNING.
        """
        with self._exclusive():
            record = claim(self._records, self._adopted(name), time.time())
        self._record_event("claimed", record.dataset, record.location)
        return record

    def plan_release(self, request: ReleaseRequest) -> ReleasePlan:
        """What a release would do; writes nothing.

        Raises:
            PipelineError: RELEASE.UNKNOWN, RELEASE.RELEASED, RELEASE.HOW, RELEASE.NOT_LOCAL.
        """
        return plan_release(self._settings, self._health(), request)

    def release(self, request: ReleaseRequest, reached: Reached = no_step) -> ReleasePlan:
        """Release a table. A crash leaves the rest to the same call, which finishes it.

        Args:
            request: what to release.
            reached: called at each step, for tests that crash there.

        Raises:
            PipelineError: as :meth:`plan_release`; LEASE.HELD, MAINTENANCE.RUNNING.
            Problems: why it is not possible; nothing was written.
        """
        with self._exclusive() as lease:
            plan = self.plan_release(request)
            raise_all(plan.problems)
            Release(self._settings, plan, self._project.session, lease.check, time.time(), reached).run()
        self._record_event("released", plan.dataset, plan.location)
        return plan

    def undo(self, name: str) -> TableRecord | None:
        """Undo an adoption that a crash has interrupted; None, and nothing happens, if there is none.

        Raises:
            PipelineError: LEASE.HELD, MAINTENANCE.RUNNING.
        """
        record = self._find(name)
        if record is None or record.state is not Handover.ADOPTING:
            return None
        with self._exclusive():
            undo_adoption(self._settings, record)
        self._record_event("not adopted", record.dataset, record.location)
        return record

    def forget(self, name: str) -> TableRecord:
        """Forget that a table was released, so that the pipeline can make another one of its name.

        Raises:
            PipelineError: RELEASE.NOT_RELEASED; RELEASE.IN_PLACE if it lies where the other one would be; LEASE.HELD,
                MAINTENANCE.RUNNING.
        """
        record = self._find(name)
        if record is None or record.state is not Handover.RELEASED:
            raise PipelineError("RELEASE.NOT_RELEASED", name=name)
        if Path(record.location).exists() and Path(record.location).is_relative_to(record.storage):
            raise PipelineError("RELEASE.IN_PLACE", name=name, folder=record.location)
        with self._exclusive():
            self._records.remove(record)
        return record

    def _adopted(self, name: str) -> TableRecord:
        record = self._find(name)
        if record is None or record.state is not Handover.ADOPTED:
            known = [one.dataset for one in self._records.all() if one.state is Handover.ADOPTED]
            raise PipelineError("ADOPT.NOT_ADOPTED", name=name, suggestion=did_you_mean(name, known))
        return record

    def _find(self, name: str) -> TableRecord | None:
        naming = self._settings.naming
        try:
            dataset = naming.canonical(name)
        except InvalidName:
            return None
        return self._records.of(str(dataset), self._settings.layout.table(naming, dataset))

    def _health(self) -> tuple[FlowHealth, ...]:
        settings = self._settings
        return health_of_flows(settings.layout, settings.naming, settings.id, last_batches(settings.layout.events))

    def _record_event(self, action: str, dataset: str, location: str) -> None:
        event = TableHandedOver(action, dataset, location, user_name(self._project.environ))
        record_event(self._settings, self._project.redact, event)

    @contextmanager
    def _exclusive(self) -> Iterator[Lease]:
        layout = self._settings.layout
        with (
            maintenance_lock(Path(layout.monitoring(MonitoringFile.MAINTENANCE_LOCK))),
            Lease(layout.lease, host_name(self._project.environ), time.time) as lease,
        ):
            yield lease
