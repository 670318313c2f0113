"""What an update must not do with tables that were adopted, or have left the pipeline."""

from __future__ import annotations

from collections.abc import Iterator

from headrace.errors import PipelineError
from headrace.graph.resolved_flows import RefreshFlow
from headrace.model.location import Location
from headrace.model.names import Naming
from headrace.plan.agreement import Disagreement
from headrace.plan.steps import Decision, Plan, TableChange
from headrace.settings.storage import StorageLayout
from headrace.storage.adopted_tables import AdoptedTables, Consent, Handover


def adoption_problems(plan: Plan, layout: StorageLayout, naming: Naming) -> Iterator[PipelineError]:
    """Why a plan must not run: it clears a table without consent, or writes to one that is not the pipeline's.

    Flows that continue are checked with the stores of their progress, and fail alone; these are those that start over.

    Args:
        plan: of an update.
        layout: the paths in the storage.
        naming: resolves names to qualified ones.
    """
    records = AdoptedTables(layout)
    steps = {step.dataset: step.change for step in plan.tables}
    selected = {step.flow.target for step in plan.flows if step.decision is not Decision.EXCLUDE}
    starting = {step.flow.target: step.flow for step in plan.flows if step.decision is Decision.START}
    for dataset in plan.graph.datasets:
        name = dataset.name
        if not dataset.kind.stored or name not in steps.keys() | selected:
            continue
        path = layout.table(naming, name)
        record = records.of(str(name), path)
        if record is None:
            continue
        location = dataset.dataset.location
        flow = starting.get(name)
        recomputes = isinstance(flow, RefreshFlow)
        # Code that still names a table that has left is wrong, whatever its flows would do.
        is_checked = name in starting or record.state is Handover.RELEASED
        problem = records.problem_of(record, path) if is_checked else None
        if problem is not None:
            yield _problem(problem, location, str(name) if flow is None else flow.name, str(name))
        elif (recomputes or steps.get(name) is TableChange.RESET) and not record.allows(Consent.CLEAR):
            yield PipelineError(
                "ADOPT.NEEDS_CONSENT",
                location=location,
                name=name,
                folder=record.location,
                what="a materialized view that is computed as a whole" if recomputes else "a full refresh",
                consent=Consent.CLEAR.value,
            )


def _problem(found: Disagreement, location: Location | None, flow: str, name: str) -> PipelineError:
    return PipelineError(found.code, location=location, flow=flow, name=name, otherwise="", **found.params)
