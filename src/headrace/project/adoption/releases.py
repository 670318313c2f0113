"""The tables that leave a pipeline: what programs and the command line call."""

from __future__ import annotations

import time
from pathlib import Path

from headrace.errors import PipelineError, raise_all
from headrace.events.last_batches import last_batches
from headrace.project.adoption.handover_project import HandoverProject
from headrace.project.adoption.release import Release
from headrace.project.adoption.release_plan import ReleasePlan, ReleaseRequest, plan_release
from headrace.project.steps import Reached, no_step
from headrace.storage.adopted_tables import Handover, TableRecord
from headrace.storage.health import health_of_flows


class PipelineReleases:
    """The tables that leave a pipeline.

    Args:
        project: the pipeline.
    """

    def __init__(self, project: HandoverProject) -> None:
        self._project = project

    def plan(self, request: ReleaseRequest) -> ReleasePlan:
        """What a release would do; writes nothing.

        Raises:
            PipelineError: RELEASE.UNKNOWN, RELEASE.RELEASED, RELEASE.HOW, RELEASE.NOT_LOCAL.
        """
        settings = self._project.settings
        logged = last_batches(settings.layout.events)
        flows = health_of_flows(settings.layout, settings.naming, settings.id, logged)
        return plan_release(settings, flows, request)

    def release(self, request: ReleaseRequest, reached: Reached = no_step) -> ReleasePlan:
        """Release a table. A crash leaves the rest to the same call, which finishes it.

        Args:
            request: what to release.
            reached: called at each step, for tests that crash there.

        Raises:
            PipelineError: as :meth:`plan`; LEASE.HELD if an update is running, MAINTENANCE.RUNNING if maintenance is.
            Problems: why it is not possible; nothing was written.
        """
        project = self._project
        with project.exclusive() as lease:
            plan = self.plan(request)
            raise_all(plan.problems)
            Release(project, plan, lease.check, time.time(), reached).run()
        project.record_event("released", plan.dataset, plan.location)
        return plan

    def forget(self, name: str) -> TableRecord:
        """Forget that a table was released, so that the pipeline can make another one of its name.

        Raises:
            PipelineError: RELEASE.NOT_RELEASED; RELEASE.IN_PLACE if it lies where the other one would be; LEASE.HELD,
                MAINTENANCE.RUNNING.
        """
        record = self._project.find(name)
        if record is None or record.state is not Handover.RELEASED:
            raise PipelineError("RELEASE.NOT_RELEASED", name=name)
        if Path(record.location).exists() and Path(record.location).is_relative_to(record.storage):
            raise PipelineError("RELEASE.IN_PLACE", name=name, folder=record.location)
        with self._project.exclusive():
            self._project.records.remove(record)
        return record
