"""The checkpoints of a pipeline: their health, what is in one, repairs, and the removal of old ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, TypeAlias

from headrace.errors import PipelineError
from headrace.events.last_batches import last_batches
from headrace.model.state_rows import StateRequest, StateRows
from headrace.plan.steps import Plan
from headrace.project.clean import Cleaned, CleanRequest, clean_storage
from headrace.project.inspection.flow_checkpoint import FlowCheckpoint, flow_checkpoint
from headrace.project.repair import repair_flows
from headrace.settings.settings import Settings
from headrace.storage.health import FlowHealth, flows_named, health_of_flows
from headrace.storage.listed_storage import reading_storage
from headrace.stores.paths import StoragePath

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Plans an update of the project's code, which opens a session.
PlanUpdate: TypeAlias = Callable[[], Plan]


@dataclass(frozen=True)
class PipelineCheckpoints:
    """The checkpoints of a pipeline, read from its storage.

    Args:
        settings: the pipeline's.
        environ: the process environment.
    """

    settings: Settings
    environ: Mapping[str, str]

    def health(self) -> tuple[FlowHealth, ...]:
        """Every flow of the storage: its newest batches, and the problem that stops it, if there is one."""
        settings = self.settings
        with reading_storage(settings.layout):
            logged = last_batches(settings.layout.events)
            return health_of_flows(settings.layout, settings.naming, settings.id, logged)

    def show(self, name: str) -> FlowCheckpoint:
        """The checkpoint of a flow.

        Args:
            name: of the flow, or of a dataset with one flow.

        Raises:
            PipelineError: CHECKPOINTS.UNKNOWN, CHECKPOINTS.WHICH_FLOW.
        """
        return flow_checkpoint(self.find(name), self.settings.layout, self.settings.naming)

    def find(self, name: str) -> FlowHealth:
        """The health of one flow; same arguments and errors as :meth:`show`."""
        flow, *others = flows_named(self.health(), name, self.settings.naming)
        if others:
            names = ", ".join(f'"{one.stored.name}"' for one in (flow, *others))
            raise PipelineError("CHECKPOINTS.WHICH_FLOW", name=name, flows=names)
        return flow

    def state(self, request: StateRequest, session: Callable[[], SparkSession]) -> StateRows:
        """The rows of a flow's state after its newest completed batch, or the operators that keep it.

        Args:
            request: what to show.
            session: opens the session that reads the state.

        Raises:
            PipelineError: CHECKPOINTS.UNKNOWN, CHECKPOINTS.WHICH_FLOW; STATE.*: the flow has no such state, or its
                state cannot be read.
        """
        # Imported by name, because it loads PySpark, which nothing else here needs.
        reading = import_module("headrace.project.inspection.flow_state")
        rows: StateRows = reading.flow_state(self.find(request.name), request, session)
        return rows

    def repair(self, name: str) -> tuple[StoragePath, ...]:
        """Move away damaged files that a flow does not need; returns their new paths. Changes nothing else.

        Args:
            name: of the flow, or of its dataset.

        Raises:
            PipelineError: CHECKPOINTS.UNKNOWN; CHECKPOINTS.NOT_MENDABLE: another problem stops the flow, and how to
                fix it; LEASE.HELD: an update is running.
        """
        return repair_flows(self.settings, self.environ, name, self.health)

    def clean(self, request: CleanRequest, plan: PlanUpdate) -> Cleaned:
        """Remove checkpoints of old epochs, whose positions are kept, and on request what left the code.

        Args:
            request: what to remove.
            plan: plans an update; called only if something inactive is to be removed.

        Raises:
            PipelineError: CHECKPOINTS.*; LEASE.HELD: an update is running.
            Problems: the project is wrong, so that nobody knows what left the code.
        """
        return clean_storage(self.settings, self.environ, request, self.health, plan)
