"""The tables that come into a pipeline: what programs and the command line call."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from headrace.errors import PipelineError, raise_all
from headrace.graph.resolved import ResolvedGraph
from headrace.graph.select import dataset_name
from headrace.options.nearest import did_you_mean
from headrace.project.adoption.adopt import Adoption, claim
from headrace.project.adoption.adoption_plan import AdoptionPlan, AdoptRequest, plan_adoption
from headrace.project.adoption.handover_project import HandoverProject
from headrace.project.adoption.release import undo_adoption
from headrace.project.adoption.releases import PipelineReleases
from headrace.project.adoption.spark_pipelines import Found, find_tables, spark_pipeline
from headrace.project.steps import Reached, no_step
from headrace.project.storage_folder import create_storage
from headrace.settings.settings import Settings
from headrace.storage.adopted_tables import Consent, Handover, TableRecord
from headrace.storage.change_detection import StoredState


class PipelineAdoptions:
    """The tables that come into a pipeline; ``releases`` lets them leave it.

    Args:
        project: the pipeline.
    """

    def __init__(self, project: HandoverProject) -> None:
        self._project = project
        self._settings = project.settings
        self.releases = PipelineReleases(project)

    @classmethod
    def of(
        cls,
        settings: Settings,
        environ: Mapping[str, str],
        state: StoredState,
        graph: Callable[[], ResolvedGraph],
        session: Callable[[], SparkSession],
        redact: Callable[[str], str],
    ) -> PipelineAdoptions:
        """Those of a pipeline; the arguments are the attributes of :class:`HandoverProject`."""
        return cls(HandoverProject(settings, environ, state, graph, session, redact))

    def all(self) -> tuple[TableRecord, ...]:
        """The tables that were adopted or released.

        Raises:
            PipelineError: ADOPT.RECORD_UNREADABLE.
        """
        return self._project.records.all()

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
        project = self._project
        with project.exclusive() as lease:
            plans = self.plan(requests)
            raise_all([problem for plan in plans for problem in plan.problems])
            for request, plan in zip(requests, plans, strict=True):
                steps = Adoption(project, plan, request.consents, lease.check, time.time(), reached)
                steps.run()
                project.record_event("adopted", plan.dataset, plan.location)
        return plans

    def allow(self, name: str, consents: frozenset[Consent], *, revoke: bool = False) -> TableRecord:
        """Allow things to be done with an adopted table, or no longer.

        Raises:
            PipelineError: ADOPT.NOT_ADOPTED; LEASE.HELD, MAINTENANCE.RUNNING.
        """
        with self._project.exclusive():
            record = self._adopted(name)
            now = record.consents - consents if revoke else record.consents | consents
            changed = replace(record, consents=now)
            self._project.records.store(changed)
        words = ", ".join(sorted(consent.value for consent in consents))
        action = f"no longer allowed: {words}" if revoke else f"allowed: {words}"
        self._project.record_event(action, record.dataset, record.location)
        return changed

    def claim(self, name: str) -> TableRecord:
        """Make this storage the one whose pipeline writes to a table, after the storage was copied or moved.

        Raises:
            PipelineError: ADOPT.NOT_ADOPTED; LEASE.HELD, MAINTENANCE.RUNNING.
        """
        with self._project.exclusive():
            record = claim(self._project.records, self._adopted(name), time.time())
        self._project.record_event("claimed", record.dataset, record.location)
        return record

    def undo(self, name: str) -> TableRecord | None:
        """Undo an adoption that a crash has interrupted; None, and nothing happens, without one.

        Raises:
            PipelineError: LEASE.HELD, MAINTENANCE.RUNNING.
        """
        record = self._project.find(name)
        if record is None or record.state is not Handover.ADOPTING:
            return None
        with self._project.exclusive():
            undo_adoption(self._settings, record)
        self._project.record_event("not adopted", record.dataset, record.location)
        return record

    def _adopted(self, name: str) -> TableRecord:
        record = self._project.find(name)
        if record is None or record.state is not Handover.ADOPTED:
            known = [one.dataset for one in self.all() if one.state is Handover.ADOPTED]
            raise PipelineError("ADOPT.NOT_ADOPTED", name=name, suggestion=did_you_mean(name, known))
        return record
